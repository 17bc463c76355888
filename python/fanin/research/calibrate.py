# SPDX-License-Identifier: Apache-2.0
"""A scenario made from a trace of real ranks, as FANIN_TRACE writes it.

An all-reduce occupies the network for as long as it takes on the rank that waits least.  This time
begins with a round trip and rises with the bytes, by the time per byte of the slowest link or host.
An iteration is the shortest repeating series of all-reduces; what of it no all-reduce takes is
computing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median_high
from typing import Any, Optional

from . import files

OPS_MAX = 65536
BYTES_LEAST = 4096  # smaller operations say nothing about rates
HEAD, PAYLOAD, OVERHEAD = 36, 1408, 66  # bytes of a packet
DELAY_US = 15.0  # of a link, if all operations have one size: that of a veth
DELAY_US_MOST = 1e6


@dataclass
class Operation:
    """All-reduce number k, of all ranks that have begun it."""

    size: float  # bytes
    begin_us: float  # on the first rank
    end_us: float
    took_us: float  # on the rank that waited least


def _number(value: Any, key: str) -> float:
    found = value.get(key) if isinstance(value, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else 0.0


def _operations(events: list[Any]) -> tuple[list[Operation], int]:
    """The all-reduces of a trace, and the number of processes that have some."""
    ends: dict[tuple[str, float], float] = {}  # of the next one to end, by id and process
    halves: list[
        tuple[float, float, float, float]
    ] = []  # process, size, begin, end: the last first
    for event in reversed(events):
        of = event if isinstance(event, dict) and event.get("name") == "allreduce" else {}
        name, pid, at_us = of.get("id"), _number(of, "pid"), _number(of, "ts")
        if isinstance(name, str) and of.get("ph") == "e":
            ends[name, pid] = at_us
        elif isinstance(name, str) and of.get("ph") == "b" and (name, pid) in ends:
            halves.append((pid, _number(of.get("args"), "bytes"), at_us, ends[name, pid]))
    found: list[Operation] = []
    begun: Counter[float] = Counter()
    for pid, size, begin_us, end_us in reversed(halves):
        number = begun[pid]
        if size < BYTES_LEAST or number >= OPS_MAX:
            continue
        begun[pid] += 1
        if number == len(found):
            found.append(Operation(size, begin_us, end_us, end_us - begin_us))
        elif found[number].size == size:
            found[number].took_us = min(found[number].took_us, end_us - begin_us)
    return found, len(begun)


def _fit(found: list[Operation]) -> tuple[float, float]:
    """The time for each byte, and the fixed time."""
    low, high = min(op.size for op in found), max(op.size for op in found)
    low_us, high_us = (
        median_high([op.took_us for op in found if op.size == size]) for size in (low, high)
    )
    fixed_us = 2 * DELAY_US
    if low < high and high_us > low_us:
        fixed_us = low_us - low * (high_us - low_us) / (high - low)
        fixed_us = min(max(fixed_us, 0.0), 2 * DELAY_US_MOST)
    return max(high_us - fixed_us, 1e-3) / high, fixed_us


def _period(found: list[Operation]) -> tuple[list[Operation], int]:
    """The series that repeats, by its length; if none does, those of the largest size one by one."""
    sizes = [op.size for op in found]
    for period in range(1, len(sizes) // 2 + 1):
        if sizes[period:] == sizes[:-period]:
            return found, period
    largest = max(sizes)
    return [op for op in found if op.size == largest], 1


def _busy(ops: list[Operation]) -> float:
    """The time that these all-reduces take together."""
    until_us, busy = ops[0].begin_us, 0.0
    for op in ops:
        busy += max(op.end_us - max(until_us, op.begin_us), 0.0)
        until_us = max(until_us, op.end_us)
    return busy


def _measure(found: list[Operation], period: int) -> Optional[tuple[float, float]]:
    """How long an iteration takes and computes, of those that another one follows."""
    starts = range(0, len(found) - period, period)
    if not starts:
        return None
    iteration_us = median_high([found[k + period].begin_us - found[k].begin_us for k in starts])
    busy_us = median_high([_busy(found[k : k + period]) for k in starts])
    return iteration_us, max(iteration_us - busy_us, 0.0)


def scenario(path: str) -> dict[str, Any]:
    """A scenario that takes as long as the trace in a file."""
    given = files.load(path)
    events = given.get("traceEvents") if isinstance(given, dict) else given
    found, processes = _operations(events if isinstance(events, list) else [])
    us_byte, fixed_us = _fit(found) if found else (0.0, 0.0)
    found, period = _period(found) if found else (found, 1)
    measured = _measure(found, period) if len(found) > 1 else None
    if measured is None:
        raise files.FileError(
            f"{path}: expected two all-reduces of one size, at least {BYTES_LEAST} bytes, as "
            "FANIN_TRACE writes them"
        )
    iteration_ms, computing_ms = measured[0] / 1e3, measured[1] / 1e3
    ranks, framed = max(processes, 2), float(PAYLOAD + HEAD + OVERHEAD) / PAYLOAD
    size = 0.0 + sum(op.size for op in found[:period])
    return {
        "name": "calibrated",
        "comment": f"measured: an iteration of {iteration_ms:.3f} ms, {computing_ms:.3f} ms of it "
        "computing",
        "topology": {
            "nodes": [
                {"name": "s0", "kind": "switch"},
                {"name": "w", "kind": "worker", "count": ranks},
            ],
            "links": [
                {"a": "w*", "b": "s0", "gbps": 8e-3 * framed / us_byte, "delay_us": fixed_us / 2}
            ],
        },
        "jobs": [
            {
                "model": {
                    "numel": int(size / 4),
                    "layers": period,
                    "forward_ms": computing_ms,
                    "backward_ms": 0.0,
                },
                "workers": ranks,
                "iterations": 3,
            }
        ],
    }
