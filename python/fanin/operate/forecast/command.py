# SPDX-License-Identifier: Apache-2.0
"""`fanin doctor`: its flags, which src/cmd/doctor/doctor.c has read, and what it does with what
`fanin probe` prints."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from ..shape import Bad
from . import local, measured, path, probe, settings
from .findings import Finding, Path, Report


BYTES = 8 << 20  # of the tensor
FOUND: Dict[str, Callable[[Path, Dict[str, Any]], Any]] = {
    **{"config": local.config, "machine": local.machine, "named": path.named},
    **{"meeting": path.meeting, "lost": path.lost, "switch": path.switch},
    **{"no_socket": path.no_socket, "train": path.train, "mtu": path.mtu, "burst": path.burst},
    **{"shards": path.shards, "sum": path.two_ranks, "skip": path.skip},
    **{"failure": path.failure, "unready": path.unready},
}


@dataclass
class Doctor:
    """One run."""

    report: Report
    tensor_bytes: int
    no_join: bool
    job: Optional[measured.Job] = None
    path: Path = field(default_factory=Path)

    def take(self, kind: str, said: Any) -> None:
        """A line of the probe that is not its end."""
        if kind == "begin":
            self.report.rank, self.path.rank = said["rank"], said["rank"]
            self.path.ranks = said["ranks"]
            return
        if kind == "meeting":
            self.report.known, self.report.met = True, said["met"]
            self.report.first = said["first"]
            self.report.flush()
        elif kind == "lost":
            self.report.met = False
        found = FOUND[kind](self.path, said) if kind in FOUND else self._compute(kind, said)
        for finding in [found] if isinstance(found, Finding) else found:
            self.report.add(finding)

    def _compute(self, kind: str, said: Any) -> List[Finding]:
        """Findings about what all ranks have measured."""
        if kind == "alone":
            return measured.alone(said, not self.no_join)
        if kind == "links":
            self.job, found = measured.job(said, self.tensor_bytes)
            return found
        if kind == "allreduce":
            of = self.job.forecast if self.job else None
            return [measured.proof(of, said, self.tensor_bytes)]
        if kind == "summing" and self.job and len(said["sums"]) == len(self.job.net.ranks):
            found = [measured.summing(self.job, said)]
            foreseen = measured.foresee(self.job)
            return found + ([foreseen] if foreseen else [])
        raise Bad("expected links first, and as many hosts")


def _run(arguments: List[str]) -> int:
    """Run the probe and print; the exit status."""
    given = dict(argument[2:].partition("=")[::2] for argument in arguments)
    file = given.pop("json", "")
    doctor = Doctor(Report(file == "-"), int(given.get("bytes", BYTES)), "no-join" in given)
    flags = [a for a in arguments if not a.startswith("--json=")]
    try:
        for kind, said in probe.lines(flags):
            if kind != "end":
                doctor.take(kind, said)
                continue
            status = doctor.report.end(said["switch"], file)
    except probe.Ended as error:
        if error.status == 2:  # wrong usage, as it has said
            return 2
        raise
    return status


def _settings(arguments: List[str]) -> int:
    given = dict(argument[2:].partition("=")[::2] for argument in arguments)
    return settings.show(given.get("json", ""), "all" in given)


def _guarded(name: str, run: Callable[[List[str]], int], arguments: List[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return run(arguments)
    except (Bad, probe.Ended) as error:
        print(f"fanin {name}: fanin probe: {error}", file=sys.stderr)
    except KeyError as error:
        print(f"fanin {name}: fanin probe: it is another version: no {error}", file=sys.stderr)
    return 1


def main(arguments: List[str]) -> int:
    """`fanin doctor`; the exit status: 1 if a finding FAILs, 2 if an option is wrong."""
    is_settings = "--settings" in arguments
    return _guarded("doctor", _settings if is_settings else _run, arguments)


def info(arguments: List[str]) -> int:
    """`fanin info`; the exit status: 1 if a rank that starts here would fail."""
    return _guarded("info", _settings, arguments)
