# SPDX-License-Identifier: Apache-2.0
"""Traces of ranks (FANIN_TRACE) and of torch.profiler in one file, on one clock, for Perfetto.

    with torch.profiler.profile() as profile:
        fanin.trace.mark()
        train()
    profile.export_chrome_trace(f"torch-{rank}.json")

    python3 -m fanin.trace OUT.json trace-*.json torch-*.json

Ranks' times are microseconds since 1970.  torch.profiler counts from where its version and build like:
1970, a time that the file names, or the start of the profile.  A mark says both times of one moment.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any, Iterable, Sequence

from . import _launcher

MARKS = 3  # a mark may lose its core between its two looks at the clock; the best one counts
EPOCH_US = 1e15  # 2001: times above it count from 1970
TORCH_PIDS = (
    200_000  # process ids of what torch.profiler shows; ranks and `fanin sim` have smaller ones
)
PIDS_EACH = 16  # of one file: "CPU functions", GPUs

_MARK = re.compile(r"fanin clock (\d+) rank (\d+)")

Event = dict[str, Any]


class TraceError(ValueError):
    """A file that cannot be laid beside others; the text names it and says why."""


def mark(rank: int | None = None) -> None:
    """Within a profile: note the time, and the rank that torch.distributed or the launcher gave this process."""
    import torch  # who merges files needs none

    if rank is None:
        env = dict(os.environ)
        _launcher.complete(env)
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if ready else int(env.get("RANK", "0"))
    for _ in range(MARKS):
        with torch.profiler.record_function(f"fanin clock {time.time_ns()} rank {rank}"):
            pass


def _marks(events: Iterable[Event]) -> list[tuple[float, int]]:
    """Of each mark what is to be added to times, in microseconds, and its rank."""
    found = []
    for event in events:
        match = _MARK.fullmatch(str(event.get("name")))
        if match and event.get("ph") in ("X", "B"):
            found.append((int(match[1]) / 1000 - event["ts"], int(match[2])))
    return found


def _placed(path: str, data: Any, events: list[Event]) -> tuple[float, int]:
    """What is to be added to the times of a file of torch.profiler, and its rank."""
    marks = _marks(events)
    if marks:  # time was taken before the event began: the least delay counts
        return max(marks)
    about = data if isinstance(data, dict) else {}
    rank = about.get("distributedInfo", {}).get("rank")
    times = [event["ts"] for event in events if "ts" in event]
    if rank is not None and times:
        if "baseTimeNanoseconds" in about:
            return about["baseTimeNanoseconds"] / 1000, int(rank)
        if min(times) > EPOCH_US:
            return 0.0, int(rank)
    raise TraceError(
        f"{path}: its clock or rank is unknown: call fanin.trace.mark() within the profile"
    )


def _torch_events(path: str, data: Any, events: list[Event]) -> list[Event]:
    """With times since 1970, and processes that are named after the rank and lie below its own."""
    offset, rank = _placed(path, data, events)
    pids: dict[Any, int] = {}
    named = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    out = []
    for event in events:
        if event.get("ph") == "M" and str(event.get("name")).startswith("process_"):
            continue
        event = dict(event)
        if "pid" in event:
            pid = pids.setdefault(event["pid"], min(len(pids), PIDS_EACH - 1))
            event["pid"] = TORCH_PIDS + PIDS_EACH * rank + pid
        if "ts" in event:
            event["ts"] += offset
        out.append(event)
    for pid, number in pids.items():
        new = TORCH_PIDS + PIDS_EACH * rank + number
        name = f"PyTorch rank {rank}: {named.get(pid, pid)}"
        out.append({"ph": "M", "name": "process_name", "pid": new, "args": {"name": name}})
        out.append(
            {"ph": "M", "name": "process_sort_index", "pid": new, "args": {"sort_index": rank}}
        )
    return out


def merge(paths: Sequence[str]) -> list[Event]:
    """All events of these files, in their order.  TraceError for one that is no trace or has no known clock."""
    out: list[Event] = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            try:
                data = json.load(file)
            except ValueError as error:
                raise TraceError(f"{path}: no JSON: {error}") from error
        events = data.get("traceEvents") if isinstance(data, dict) else data
        if not isinstance(events, list) or not all(isinstance(one, dict) for one in events):
            raise TraceError(f"{path}: expected a trace in Chrome's format")
        ours = any(one.get("cat") == "fanin" for one in events)
        out += events if ours else _torch_events(path, data, events)
    return out


def main() -> int:
    """`python3 -m fanin.trace OUT FILE...`; 2 for a wrong command, 1 for a file that does not fit."""
    if len(sys.argv) < 3:
        print("usage: python3 -m fanin.trace OUT.json FILE.json...", file=sys.stderr)
        return 2
    try:
        events = merge(sys.argv[2:])
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(json.dumps(one) for one in events) + "\n]\n")
    except (OSError, TraceError) as error:
        print(f"fanin.trace: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
