# SPDX-License-Identifier: Apache-2.0
"""A simulated trace laid over one of real ranks, whose first operation sets the time of its start."""

from __future__ import annotations

import re
from typing import Any

from . import files
from .flow import buckets_of

TIME_US = re.compile(r'"ts":([0-9]{1,18})(?:\.([0-9]+))?[,}]')


def real_lines(path: str) -> tuple[list[str], int]:
    """The events of a trace, a line each, and when its first operation began, in nanoseconds."""
    lines: list[str] = []
    begins: list[int] = []
    for line in files.read(path).decode("utf-8", "replace").split("\n"):
        if not line.startswith("{"):
            continue
        lines.append(line.removesuffix(","))
        found = TIME_US.search(line)
        if '"ph":"b"' in line and found:
            begins.append(int(found[1]) * 1000 + int((found[2] or "")[:3].ljust(3, "0")))
    if not begins:
        raise files.FileError(f"{path}: no operations of ranks in it")
    return lines, min(begins)


def _first_ready_ns(flat: dict[str, Any]) -> int:
    """The earliest time at which any job's first bucket can be ready: its gradients computed."""
    found: list[int] = []
    for job in flat["jobs"]:
        numbers = flat["models"][job["model"]]["layers"]
        layers = list(zip(numbers[0::3], numbers[1::3], numbers[2::3]))
        buckets = buckets_of(layers, job.get("bucket_bytes", 0))
        low = buckets[0][0] if buckets else len(layers)
        computed = sum(layer[1] for layer in layers) + sum(layer[2] for layer in layers[low:])
        found.append(int(job["arrival_ns"]) + computed)
    return min(found)


def start_ns(first_ns: int, flat: dict[str, Any]) -> int:
    """When the simulation begins, so that its first operation does when the real one did."""
    return max(0, first_ns - _first_ready_ns(flat))


def joined(lines: list[str], simulated: str) -> str:
    """Both traces in one."""
    return "[\n" + "".join(line + ",\n" for line in lines) + simulated.removeprefix("[\n")
