# SPDX-License-Identifier: Apache-2.0
"""Simulations from Python: `fanin sim` on a dictionary (doc/sim.md).

    import fanin.sim

    result = fanin.sim.run(
        {"topology": "fat-tree:k=4,workers=8", "jobs": [{"model": "resnet50"}]},
        sets={"topology.switches.policy": "atp"},
    )
    result["jobs"][0]["jct_s"]
    result["switches"][0]["series"]["occupancy"]        # an array

The program is that of the wheel, of a checkout's folder build, or in PATH.
"""

from __future__ import annotations

import array
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

_HERE = Path(__file__).resolve().parent
WRONG = 2  # exit status of what is wrong in the scenario; 1: jobs failed, and their result is there


class ScenarioError(ValueError):
    """A scenario or option that makes no sense; the text has its path and cause."""


def find_program() -> str:
    """Where `fanin` is; FileNotFoundError names the places that were tried."""
    places = [_HERE / "bin" / "fanin", _HERE.parents[1] / "build" / "fanin"]
    for path in places:
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("fanin")
    if found is None:
        tried = ", ".join(str(path) for path in places)
        raise FileNotFoundError(f"no program fanin: {tried}, or in PATH")
    return found


def arrays(value: Any) -> Any:
    """The same with lists of numbers as arrays: numpy's, or without numpy array.array("d")."""
    if isinstance(value, dict):
        return {key: arrays(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if not value or not all(type(item) in (int, float) for item in value):
        return [arrays(item) for item in value]
    try:
        import numpy
    except ImportError:
        return array.array("d", value)
    return numpy.array(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def run(
    scenario: Mapping[str, Any],
    *,
    seed: int | None = None,
    sets: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    parallel: int = 1,
    folder: str | os.PathLike[str] = ".",
    program: str | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """What `fanin sim --json` writes for `scenario`, with arrays.

    `sets` and `sweep` are by the paths of --set and --sweep; a sweep has its runs in "runs", `parallel`
    at a time.  Files that the scenario names are looked for in `folder`.  A job that failed has its
    "error" in the result.  ScenarioError: the scenario makes no sense; subprocess.TimeoutExpired:
    it took longer than `timeout` seconds.
    """
    with tempfile.TemporaryDirectory() as work:
        for entry in Path(folder).resolve().iterdir() if _names_files(scenario) else ():
            (Path(work) / entry.name).symlink_to(entry)
        given, out = Path(work) / ".scenario.json", Path(work) / ".result.json"
        given.write_text(json.dumps(scenario), encoding="utf-8")
        argv = [program or find_program(), "sim", str(given), "-q", "--json", str(out)]
        argv += ["-j", str(parallel)] + ([] if seed is None else ["--seed", str(seed)])
        for key, value in (sets or {}).items():
            argv += ["--set", f"{key}={_text(value)}"]
        for key, values in (sweep or {}).items():
            argv += ["--sweep", f"{key}={','.join(_text(value) for value in values)}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        said = done.stderr.strip().replace(f"{given}: ", "").replace("fanin sim: ", "")
        if done.returncode == WRONG:
            raise ScenarioError(said)
        if not out.exists():
            raise RuntimeError(f"fanin sim ended with {done.returncode}: {said}")
        result: dict[str, Any] = arrays(json.loads(out.read_text(encoding="utf-8")))
        return result


def _names_files(value: Any) -> bool:
    """Is there a text in it that may be a file's name?  Folders are large, and most need none."""
    if isinstance(value, Mapping):
        return any(_names_files(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_names_files(item) for item in value)
    return isinstance(value, str) and "." in value
