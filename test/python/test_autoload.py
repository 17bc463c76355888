# SPDX-License-Identifier: Apache-2.0
"""`import torch` alone knows the backend "fanin", by the package's metadata."""

import configparser
import os
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT, WAIT_S

import fanin

torch = pytest.importorskip("torch")
LOADS = pytest.mark.skipif(
    not hasattr(torch, "_is_device_backend_autoload_enabled"),
    reason="PyTorch before 2.5 loads no backends by itself",
)


def said(program, folder=ROOT / "python", **variables):
    """What a Python program prints."""
    environment = dict(os.environ, PYTHONPATH=str(folder), OMP_NUM_THREADS="1", **variables)
    environment["USE_LIBUV"] = "0"  # of which nothing need be said then
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        timeout=WAIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_metadata_is_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = ROOT / "python" / f"fanin-{fanin.__version__}.dist-info"
    assert [one.name for one in (ROOT / "python").glob("*.dist-info")] == [info.name]
    told = dict(re.findall(r"^(\S+): (.*)$", (info / "METADATA").read_text(), re.MULTILINE))
    assert (told["Name"], told["Version"]) == (project["name"], project["version"])
    assert (told["Version"], told["Summary"]) == (fanin.__version__, project["description"])
    points = configparser.ConfigParser()
    points.read(info / "entry_points.txt")
    assert {name: dict(points[name]) for name in points.sections()} == project["entry-points"]


SUM = """
import sys, torch, torch.distributed as dist
assert "fanin._group" not in sys.modules and "fanin.torch" not in sys.modules
dist.init_process_group("fanin", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(total := torch.ones(3))
print(dist.get_backend(), type(dist.group.WORLD).__name__, total.tolist())
"""


@LOADS
def test_import_torch_knows_the_name_and_imports_nothing_else():
    assert said(SUM).split("\n")[0] == "fanin FaninGroup [1.0, 1.0, 1.0]"


@LOADS
def test_a_package_that_does_not_work_ends_no_import_of_torch(tmp_path):
    broken = tmp_path / "fanin"
    broken.mkdir()
    (tmp_path / "fanin-9.dist-info").mkdir()
    for name in ("METADATA", "entry_points.txt"):
        source = ROOT / "python" / f"fanin-{fanin.__version__}.dist-info" / name
        (tmp_path / "fanin-9.dist-info" / name).write_text(source.read_text())
    (broken / "__init__.py").write_text("")
    text = (ROOT / "python" / "fanin" / "_autoload.py").read_text()
    (broken / "_autoload.py").write_text(text + "\n\ndef register():\n    raise OSError('no')\n")
    out = said("import torch; print(torch.ones(2).sum().item())", tmp_path)
    assert "2.0" in out and "the backend is not known to torch.distributed: no" in out


@LOADS
def test_it_can_be_switched_off():
    program = "import torch; print(hasattr(torch.distributed.Backend, 'FANIN'))"
    assert said(program).strip() == "True"
    assert said(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == "False"


def test_either_import_may_come_first():
    for program in (
        "import fanin.torch, torch",
        "import torch, fanin.torch",
        "import fanin, torch",
    ):
        known = "import fanin.torch; print(torch.distributed.Backend('fanin'))"
        assert said(f"{program}; {known}").strip() == "fanin"
