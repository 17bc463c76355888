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
import time
from typing import Any, Mapping, Sequence

from .research import engine, settings
from .research.engine import find_program
from .research.fields import ScenarioError
from .research.scenario import Scenario

__all__ = ["ScenarioError", "arrays", "find_program", "run"]


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


def _request(file: str, root: Any, sets: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine is asked for."""
    try:
        for key, value in sets.items():
            settings.put(root, key, value)
        return {"scenario": Scenario(file, root).flat()}
    except settings.SettingError as error:
        raise ScenarioError(f"--set: {error}") from None
    except ScenarioError as error:
        raise ScenarioError(str(error).replace(f"{file}: ", "", 1)) from None


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
    engine.chosen = program or find_program()
    until = None if timeout is None else time.monotonic() + timeout
    file = os.path.join(os.path.abspath(folder), "scenario")
    fixed = {**(sets or {}), **({} if seed is None else {"seed": seed})}
    by = [values for _, values in settings.points({}, list((sweep or {}).items()))]
    requests = [_request(file, settings.copy(scenario), {**fixed, **one}) for one in by]
    try:
        texts = engine.ask_all(requests, parallel, None, until)
    except engine.EngineError as error:
        raise (ScenarioError if error.wrong else RuntimeError)(str(error)) from None
    results = [arrays(json.loads(text)) for text in texts]
    if not sweep:
        result: dict[str, Any] = results[0]
        return result
    runs = [{"set": values, **result} for values, result in zip(by, results)]
    return {"sweep": list(sweep), "runs": runs}
