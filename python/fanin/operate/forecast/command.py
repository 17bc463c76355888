# SPDX-License-Identifier: Apache-2.0
"""`fanin doctor`: its flags, which src/cmd/doctor/doctor.c has read, and what it does with what
`fanin probe` prints."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, List, Optional

from ..shape import Bad
from . import measured, probe
from .findings import Report


BYTES = 8 << 20  # of the tensor


@dataclass
class Doctor:
    """One run."""

    report: Report
    tensor_bytes: int
    no_join: bool
    job: Optional[measured.Job] = None

    def take(self, kind: str, said: Any) -> None:
        """A line of the probe that is not its end."""
        if kind == "begin":
            self.report.rank = said["rank"]
        elif kind == "meeting":
            self.report.known, self.report.met = True, said["met"]
            self.report.first = said["first"]
            self.report.flush()
        elif kind == "finding":
            self.report.add(said)
        else:
            self._compute(kind, said)

    def _compute(self, kind: str, said: Any) -> None:
        """Add findings about what is measured."""
        if kind == "alone":
            found = measured.alone(said, not self.no_join)
        elif kind == "links":
            self.job, found = measured.job(said, self.tensor_bytes)
        elif kind == "allreduce":
            of = self.job.forecast if self.job else None
            found = [measured.proof(of, said, self.tensor_bytes)]
        elif self.job and len(said["sums"]) == len(self.job.net.ranks):
            found = [measured.summing(self.job, said)]
            foreseen = measured.foresee(self.job)
            found += [foreseen] if foreseen else []
        else:
            raise Bad("expected links first, and as many hosts")
        for finding in found:
            self.report.add(finding)


def _run(arguments: List[str]) -> int:
    """Run the probe and print; the exit status."""
    given = dict(argument[2:].partition("=")[::2] for argument in arguments)
    file = given.pop("json", "")
    doctor = Doctor(Report(file == "-"), int(given.get("bytes", BYTES)), "no-join" in given)
    flags = [a for a in arguments if not a.startswith("--json=") and a != "--mtu=0"]
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


def main(arguments: List[str]) -> int:
    """`fanin doctor`; the exit status: 1 if a finding FAILs, 2 if an option is wrong."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return _run(arguments)
    except (Bad, probe.Ended) as error:
        print(f"fanin doctor: fanin probe: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on
    except OSError as error:
        where = error.filename or "standard output"  # the program, which cannot be started
        print(f"fanin doctor: {where}: {error.strerror}", file=sys.stderr)
    return 1
