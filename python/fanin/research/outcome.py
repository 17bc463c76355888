# SPDX-License-Identifier: Apache-2.0
"""Tables of results, and runs of a sweep that differ only in their seed: mean and spread."""

from __future__ import annotations

import json
import math
from typing import Any, Iterator

from .files import plain, real


class Outcome:
    """Completion times of a group of runs; one in which a job failed has none."""

    def __init__(self, name: str) -> None:
        self.name = name  # "ring, slots=64": all of "set" except the seed
        self.times: list[float] = []  # the runs' mean completion times, s
        self.runs = self.failed = self.jobs = 0
        self.why = ""  # the first failed job and its error

    def add(self, run: dict[str, Any]) -> None:
        """Count one more run."""
        mean, failed = run.get("avg_jct_s"), int(run.get("failed_jobs") or 0)
        for job in run["jobs"]:
            if not self.why and isinstance(job, dict) and job.get("error"):
                self.why = f"{job.get('name') or 'a job'}: {job['error']}"
        self.runs += 1
        self.failed += failed
        self.jobs += len(run["jobs"])
        if not failed and isinstance(mean, (int, float)):
            self.times.append(mean)

    @property
    def mean(self) -> float:
        """Of the runs that have a time."""
        return sum(self.times) / len(self.times) if self.times else math.nan


def _name(settings: dict[str, Any]) -> str:
    parts = []
    for key, value in settings.items():
        text = value if isinstance(value, str) else _text(value)
        if key == "variant":  # needs no key before it
            parts.append(text[:60])
        elif key != "seed":
            parts.append(f"{key.rpartition('.')[2][:40]}={text[:60]}")
    return plain(", ".join(parts))


def _text(value: Any) -> str:
    return real(value, 9) if isinstance(value, float) else json.dumps(value)


def outcomes(sweep: dict[str, Any]) -> list[Outcome]:
    """The groups of a sweep's runs, in the order of their first ones."""
    found: dict[str, Outcome] = {}
    for run in sweep["runs"]:
        name = _name(run["set"])
        found.setdefault(name, Outcome(name)).add(run)
    return list(found.values())


def sweep_rows(sweep: dict[str, Any]) -> Iterator[str]:
    """The lines of a sweep's table; means relative to the first."""
    yield "%-40s %5s %12s %12s %12s %9s %8s" % (
        "set", "runs", "avg jct (s)", "least (s)", "most (s)", "by first", "failed",
    )  # fmt: skip
    groups = outcomes(sweep)
    for one in groups:
        found = (one.mean, min(one.times), max(one.times)) if one.times else ("-",) * 3
        times = " ".join(f"{t:>12}" if isinstance(t, str) else f"{t:12.6f}" for t in found)
        ratio = one.mean / (groups[0].mean or math.nan)
        by_first = f"{'-':>9}" if math.isnan(ratio) else f"{ratio:9.3f}"
        why = f"  {one.why}" if one.why else ""
        yield f"{one.name:<40} {one.runs:5d} {times} {by_first} {one.failed:8d}{why}"


def job_rows(run: dict[str, Any]) -> Iterator[str]:
    """The lines of the table of a run's jobs."""
    yield "%-20s %-12s %-10s %7s %10s %10s %10s %9s %8s" % (
        "job", "model", "at", "workers", "jct (s)", "comm (s)", "wait (s)", "Gb/s", "resent",
    )  # fmt: skip
    for job in run["jobs"]:
        jct = f"{'-':>10}" if job["error"] else f"{job['jct_s'] or 0:10.6f}"
        yield "%-20s %-12s %-10s %7.0f %s %10.6f %10.6f %9.3f %8.0f%s" % (
            job["name"], job["model"], job["at"], job["workers"], jct, job["comm_s"], job["wait_s"],
            job["throughput_gbps_per_worker"], job["retransmissions"],
            f"  {job['error']}" if job["error"] else "",
        )  # fmt: skip
