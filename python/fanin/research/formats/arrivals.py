# SPDX-License-Identifier: Apache-2.0
"""Lists of jobs as arrivals: CSV as Tiresias and fanin have it, and the job log of Philly."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Iterable, NamedTuple, Optional

from .collectives import RANKS_MAX, short, whole
from .network import FormatError
from .stream import Item

JOBS_MAX = 1 << 20  # of a file
SECONDS_MAX = 10**9
ITERATIONS_MAX = 10**9
_NEEDED = ("num_gpu", "submit_time")


class Arrival(NamedTuple):
    """A job; what the file does not say is None."""

    place: str
    workers: int
    arrival_ns: int
    iterations: Optional[int] = None
    model: Optional[str] = None


@dataclass
class Arrivals:
    """Jobs of two workers or more, by arrival; others reduce nothing."""

    jobs: list[Arrival]
    alone: int = 0  # jobs of one worker
    notes: list[str] = field(default_factory=list)


def is_csv(text: str) -> bool:
    """Has the first line the columns num_gpu and submit_time?"""
    lines = (line for line in text.split("\n") if line.strip() and not line.startswith("#"))
    columns = [name.strip() for name in next(lines, "").split(",")]
    return all(name in columns for name in _NEEDED)


def is_philly(item: Item, _keys: set[str]) -> bool:
    """Is it a job of Philly's cluster_job_log?"""
    job = item.value
    return not item.key and isinstance(job, dict) and {"jobid", "attempts"} <= set(job)


def _seconds(text: str, what: str) -> int:
    """Nanoseconds of seconds, with or without a fraction."""
    if not re.fullmatch(r"[0-9]{1,10}(\.[0-9]*)?", text) or float(text) > SECONDS_MAX:
        raise FormatError(f"{what}: {short(text)}: expected seconds")
    before, _, after = text.partition(".")
    return int(before) * 10**9 + int((after + "0" * 9)[:9])


def read_csv(text: str) -> Arrivals:
    """Columns by their names: num_gpu, submit_time, and if they are there iterations and a model."""
    lines = enumerate(text.split("\n"), 1)
    used = [(n, line) for n, line in lines if line.strip() and not line.lstrip().startswith("#")]
    rows = csv.reader(io.StringIO("\n".join(line for _, line in used)))
    head = [name.strip() for name in next(rows, [])]
    if not set(_NEEDED) <= set(head):
        raise FormatError(f"expected the columns {','.join(_NEEDED)}")
    found = Arrivals([])
    for (number, _), row in zip(used[1:], rows):
        what = f"line {number}"
        if len(row) != len(head):
            raise FormatError(f"{what}: expected {len(head)} fields")
        given = dict(zip(head, (field.strip(" \t\r") for field in row)))
        workers = whole(given["num_gpu"], f"{what}: num_gpu", RANKS_MAX)
        arrival = _seconds(given["submit_time"], f"{what}: submit_time")
        count = given.get("iterations") or None
        iterations = whole(count, f"{what}: iterations", ITERATIONS_MAX) if count else None
        model = given.get("model") or given.get("model_name") or None
        if len(found.jobs) == JOBS_MAX:
            raise FormatError(f"more than {JOBS_MAX} jobs")
        if workers < 2:
            found.alone += 1
        else:
            found.jobs.append(Arrival(f"line{number}", workers, arrival, iterations, model))
    return found


# ---- Philly ----


def _gpus(job: dict[str, Any], what: str) -> int:
    """GPUs of the last attempt; 0: it never ran."""
    attempts = job["attempts"]
    if not isinstance(attempts, list):
        raise FormatError(f"{what}: attempts: expected a list")
    last = attempts[-1] if attempts else {}
    detail = last.get("detail") if isinstance(last, dict) else None
    hosts = [one for one in detail or [] if isinstance(one, dict)]
    return sum(len(one["gpus"]) for one in hosts if isinstance(one.get("gpus"), list))


def read_philly(items: Iterable[Item]) -> Arrivals:
    """Jobs by the time at which they were submitted, the first one at 0."""
    found: list[tuple[int, str, int]] = []
    never = alone = 0
    for i, item in enumerate(items):
        job, what = item.value, f"[{i}]"
        if not isinstance(job, dict) or not {"jobid", "attempts", "submitted_time"} <= set(job):
            raise FormatError(f"{what}: expected jobid, attempts and submitted_time")
        try:
            at = datetime.strptime(str(job["submitted_time"])[:32], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise FormatError(
                f"{what}: submitted_time: {short(job['submitted_time'])}: expected a time"
            ) from None
        gpus = _gpus(job, what)
        never += gpus == 0
        alone += gpus == 1
        if gpus > 1:
            if len(found) == JOBS_MAX:
                raise FormatError(f"more than {JOBS_MAX} jobs")
            found.append((int((at - datetime(1970, 1, 1)).total_seconds()), f"job{i}", gpus))
    found.sort()
    first = found[0][0] if found else 0
    jobs = [Arrival(name, gpus, (at - first) * 10**9) for at, name, gpus in found]
    return Arrivals(jobs, alone, [f"{never} jobs that never ran left out"] if never else [])
