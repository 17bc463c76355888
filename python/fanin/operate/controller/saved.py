# SPDX-License-Identifier: Apache-2.0
"""The state that a controller saves for the next one to go on from.

    {"last": NUMBER, "jobs": [{"name", "life", "bound", "routes": [NUMBER], "trees", "assignments"}],
     "loads": [...], "drained": [NODE]}

Trees and assignments are the job's part of a plan (planner/plan/plan_json.h); routes are the route
numbers of its parts.  What is installed under them follows from the plan: switches that have it
accept it again; one that has something else refuses it, and the part gets a new number.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from ...research import files
from ..shape import Bad, checked
from . import drains, limits, lines, load
from .core import MEND, Controller
from .model import Job, Json, Wrong

TREES_MAX = 1 << 20  # and assignments, of a job


def text(c: Controller) -> str:
    """The state as JSON."""
    jobs = ",\n".join(_job_text(job) for job in c.jobs.values() if job.parts and job.trees)
    rest = json.dumps({"loads": load.saved(c), "drained": drains.saved(c)})[1:-1]
    return f'{{"last": {c.last_number}, "jobs": [\n{jobs}\n], {rest}}}'


def _job_text(job: Job) -> str:
    head = {
        "name": job.name,
        "life": job.life,
        "bound": job.state != "free",
        "routes": [part.route.number for part in job.parts],
    }
    return json.dumps(head)[:-1] + ", " + job.plan_text[1:]


# What of a job's state is checked; trees and assignments are taken as they are.
_TREE: Json = {"tree!": lines.INT, "job!": lines.text}
_JOB: Json = {
    "life": lambda life: life if type(life) is int and life >= 0 else 0,
    "routes!": [(1, limits.NUMBER_MAX), limits.PARTS_MAX],
    "trees!": [{**_TREE, "server!": lines.text}, TREES_MAX],
    "assignments!": [_TREE, TREES_MAX],
}


def _restore(c: Controller, job: Job, said: Json) -> None:
    """Restore a job.  Its ranks have ABSENT_S to reconnect.  Bad: it makes no sense."""
    fields = checked(said, _JOB)
    if not fields["routes"]:
        raise Bad("expected routes")
    job.restore, job.life, job.state = fields["routes"], fields["life"], "restored"
    plan = {key: said[key] for key in ("trees", "assignments")}
    job.keep(plan["trees"], plan["assignments"], json.dumps(plan))
    for rank in job.ranks:
        rank.absent_s = c.now_s
    c.note(f"{job.name}: {len(job.restore)} parts as an earlier controller left them")


def _load_loads(c: Controller, loads: Any) -> None:
    """Read loads, except of links and nodes that no longer exist or have too low a rate now."""
    for number, said in enumerate(loads if isinstance(loads, list) else []):
        try:
            load.order(c, said)
        except Wrong as wrong:
            c.note(f"loads[{number}] of an earlier controller: {wrong}")
    c.wanted = MEND  # the saved plans were made with these loads


def restore(c: Controller, state: Any) -> None:
    """Go on with what an earlier controller has written; Wrong: it is something else."""
    said = state if isinstance(state, dict) else {}
    last, jobs = said.get("last"), said.get("jobs")
    if not isinstance(jobs, list) or type(last) is not int or not 0 <= last <= limits.NUMBER_MAX:
        raise Wrong("expected what a controller has written: last, jobs")
    c.last_number = last
    for number, one in enumerate(jobs):
        fields = one if isinstance(one, dict) else {}
        name = fields.get("name")
        job = c.jobs.get(name) if isinstance(name, str) else None
        if job is None or fields.get("bound") is not True:
            continue  # no worker has its parts: it is planned again
        try:
            _restore(c, job, fields)
        except Bad:
            raise Wrong(f"jobs[{number}]: expected trees, assignments and routes") from None
    _load_loads(c, said.get("loads"))
    drains.restore(c, said.get("drained"))


class Kept:
    """A file of an option that is written again and again; the first failure and the recovery are
    logged."""

    def __init__(self, option: str, path: str, log: Callable[[str], None], again_s: float) -> None:
        self._option, self._path, self._log, self._again_s = option, path, log, again_s
        self._failed = False
        self._text = ""

    def write(self, text: str) -> bool:
        """Write it unless it is there already; False: it could not be."""
        if text == self._text and not self._failed:
            return True
        try:
            files.renew(self._path, text + "\n")
        except OSError as error:
            if not self._failed:
                self._log(
                    f"--{self._option}: {self._path}: {error.strerror}; it is tried again every "
                    f"{self._again_s:g} s"
                )
            self._failed = True
            return False
        if self._failed:
            self._log(f"--{self._option}: it is written again")
        self._failed, self._text = False, text
        return True
