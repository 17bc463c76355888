# SPDX-License-Identifier: Apache-2.0
"""What is known about a run when it is over: figures, the JSON file, the last lines."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import torch

from . import FAILED, ExampleError
from .options import Options
from .ranks import World

KIND = "fanin-train-1"
GIT_TIMEOUT_S = 5


class StepTime(TypedDict):
    """Over all timed steps of all ranks."""

    p50_s: float
    mean_s: float
    steps: int


def step_time(world: World, times_s: list[float]) -> StepTime:
    """Every rank calls it with as many steps, and gets the same."""
    if not times_s:
        return {"p50_s": 0.0, "mean_s": 0.0, "steps": 0}
    times = world.gather(torch.tensor(times_s, dtype=torch.float64))
    return {"p50_s": float(times.median()), "mean_s": float(times.mean()), "steps": len(times_s)}


def revision() -> str:
    """Of the checkout that this file is in; "" where there is none."""
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def write(path: str, options: Options, results: dict[str, Any]) -> None:
    """The JSON file, whole or not at all."""
    content = {
        "kind": KIND,
        "settings": asdict(options),
        "revision": revision(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        **results,
    }
    part = Path(path + ".part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise ExampleError(f"{path}: cannot be written: {error.strerror}", FAILED) from error
