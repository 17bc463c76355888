# SPDX-License-Identifier: Apache-2.0
"""`import torch` alone knows the backend "fanin", by the package's metadata."""

import concurrent.futures
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


def said(program, folder=ROOT / "python", *arguments, **variables):
    """What a Python program prints."""
    environment = dict(os.environ, PYTHONPATH=str(folder), OMP_NUM_THREADS="1", **variables)
    environment["USE_LIBUV"] = "0"  # of which nothing need be said then
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
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


CAPABLE = """
import torch, torch.distributed as dist
print(dist.Backend.backend_capability["fanin"], torch.cuda.is_initialized())
"""


@LOADS
def test_devices_are_those_of_the_machine():
    has = bool(torch.version.hip) or (bool(torch.version.cuda) and torch.cuda.is_available())
    assert said(CAPABLE).strip() == f"{['cpu', 'cuda'] if has else ['cpu']} False"


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


@pytest.mark.skipif(
    not hasattr(torch.distributed.Backend, "_ensure_backend_registered"),
    reason="PyTorch before 2.15 looks for no backends by their entry points",
)
def test_the_name_is_found_by_the_entry_point_of_backends_alone():
    assert (
        said(SUM, TORCH_DEVICE_BACKEND_AUTOLOAD="0").split("\n")[0].startswith("fanin FaninGroup")
    )


# A package that takes all of Gloo's groups, and says so of no other backend.
TORCHCOMMS = {
    "__init__.py": "def is_backend_built(name):\n    return name == 'gloo'\n\n\nnew_comm = None\n",
    "_comms.py": "class _BackendWrapper:\n    pass\n\n\ndef _is_backend_registered(name):\n    return False\n",
    "hooks.py": "class FlightRecorderHook:\n    pass\n",
}
SHARED = """
import sys, torch, torch.distributed as dist
rank, name = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("fanin", init_method=f"file://{name}", rank=rank, world_size=2)
dist.all_reduce(total := torch.ones(3))
part = dist.new_group([1])
if rank == 1:
    dist.all_reduce(total, group=part)
dist.gather(total, [torch.zeros(3), torch.zeros(3)] if rank == 0 else None)
dist.barrier()
print(dist.distributed_c10d._use_torchcomms_enabled(), type(dist.group.WORLD).__name__, total.tolist())
dist.destroy_process_group()
"""


@pytest.mark.skipif(
    not hasattr(torch.distributed.distributed_c10d, "_torchcomms_handles_backend"),
    reason="PyTorch before 2.15 gives torchcomms all backends",
)
def test_programs_that_turn_torchcomms_on_keep_fanin(tmp_path):
    (tmp_path / "torchcomms").mkdir()
    for name, text in TORCHCOMMS.items():
        (tmp_path / "torchcomms" / name).write_text(text)
    path = f"{ROOT / 'python'}{os.pathsep}{tmp_path}"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        outputs = pool.map(
            lambda rank: said(
                SHARED,
                path,
                str(rank),
                str(tmp_path / "store"),
                TORCH_DISTRIBUTED_USE_TORCHCOMMS="1",
            ),
            range(2),
        )
        for output in outputs:
            assert output.startswith("True FaninGroup [2.0, 2.0, 2.0]"), output


def test_either_import_may_come_first():
    for program in (
        "import fanin.torch, torch",
        "import torch, fanin.torch",
        "import fanin, torch",
    ):
        known = "import fanin.torch; print(torch.distributed.Backend('fanin'))"
        assert said(f"{program}; {known}").strip() == "fanin"
