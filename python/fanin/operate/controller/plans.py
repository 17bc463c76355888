# SPDX-License-Identifier: Apache-2.0
"""Plans: made from the present state, and turned into routes.

A plan is made by a task beside the loop, one at a time.  If something changes meanwhile, it is given
up and begun again; after limits.OVERTAKEN_MAX times one is completed and taken as far as it still holds.
If no plan has all jobs, those that cannot be planned alone keep what they have.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Set

from . import drafts, jobs, limits, routes
from .core import LOOK, MEND, NEVER_S, Controller, plain
from .drafts import Draft
from .model import Job, Json, Part, Route, Wrong
from .planner import Planner


@dataclass
class Answer:
    """What planning has come to: a plan for some jobs, and why others have none."""

    draft: Optional[Draft] = None
    left: Dict[str, str] = field(default_factory=dict)


# ---- taking a plan ----


class _NoRoute(Exception):
    """There is no number, or no place, for a route."""


def _new_route(c: Controller, number: int, job: Job, part: int, path: Any) -> Route:
    route = routes.new(c, number, job, part, path)
    if route is None:
        raise _NoRoute
    return route


def _new_parts(c: Controller, draft: Draft, job: Job) -> None:
    again = job.restore if drafts.restores(draft, job) else []
    rejoined = set(job.rejoined)
    jobs.unplan(c, job, 0)
    job.restore = []
    for number, part in enumerate(draft.parts[job.name]):
        route = _new_route(c, again[number] if again else 0, job, number, part.path)
        if again:
            route.moved = set(rejoined)
        job.parts.append(Part(part.cut, part.gbps, part.path.server, route))


def _new_paths(c: Controller, draft: Draft, job: Job) -> None:
    """Keep the job's parts; those whose path changes get a new route."""
    for number, (part, planned) in enumerate(zip(job.parts, draft.parts[job.name])):
        other = abs(part.gbps - planned.gbps) > limits.SAME * planned.gbps
        part.gbps = planned.gbps
        if part.route.path.is_like(planned.path) and not part.route.broken:
            if other:
                jobs.pace(c, job, number)
            continue
        route = _new_route(c, 0, job, number, planned.path)
        c.note(f"{job.name}/{number}: from route {part.route.number} to {route.number}")
        if part.route.state == "installing":
            routes.leave(c, part.route, 0)
        part.route = route


def _take_job(c: Controller, draft: Draft, job: Job) -> None:
    try:
        (_new_paths if drafts.fits_parts(draft, job) else _new_parts)(c, draft, job)
    except _NoRoute:
        jobs.unplan(c, job, 0)
        job.why = "no memory, or no number, for its routes"
        return
    draft.give(job)
    job.gbps = draft.rates[job.name]
    how = "the plan that was given" if c.given else c.settings.algorithm
    job.why = plain(
        f"{how}: {c.cause[:120]}; {job.gbps:.4g} Gb/s for each worker, "
        f"bound by {draft.binding[:100]}",
        limits.WHY_BYTES,
    )
    jobs.settle(c, job)


def _leave_out(c: Controller, job: Job, why: str) -> None:
    """Note why a job cannot be planned.  It keeps what it has, since failed nodes may come back."""
    text = plain(f"not planned, since {c.cause[:80]}: {why[:200]}", limits.WHY_BYTES)
    if text != job.why:
        c.note(f"{job.name}: {text}")
    job.why = text


def _check(c: Controller, draft: Draft) -> None:
    """Wrong: the plan does not fit the present state, which has changed since it was begun."""
    for job in draft.jobs:
        if c.jobs.get(job.name) is not job:
            raise Wrong("a job that has ended")
        for part in draft.parts[job.name]:
            daemons = (part.path.server, *part.path.stops)
            if not all(c.nodes[name].is_used for name in daemons):
                raise Wrong("a node that has gone")
    drafts.check(c, draft)


def _take(c: Controller, answer: Answer) -> None:
    """Take an answer, but for sending its routes; Wrong: it does not fit any more, and nothing was
    done."""
    draft = answer.draft
    if draft is not None:
        _check(c, draft)
        c.note(
            f"planned {len(draft.jobs)} jobs on {draft.nodes} nodes, since {c.cause}: "
            f"{draft.gbps:.4g} Gb/s"
        )
        for job in draft.jobs:
            _take_job(c, draft, job)
    for name, why in answer.left.items():
        if name in c.jobs:
            _leave_out(c, c.jobs[name], why)


# ---- making one ----


async def _draft(c: Controller, planner: Planner) -> Answer:
    """Plan all jobs; if that cannot be, those that can be planned alone."""
    wanted, left = list(c.jobs.values()), {}
    if not wanted:
        return Answer()
    try:
        return Answer(await drafts.make(c, planner, wanted))
    except Wrong as wrong:
        whole = str(wrong)
    some: List[Job] = []
    for job in wanted:
        if len(wanted) == 1:
            left[job.name] = whole
            break
        try:
            await drafts.make(c, planner, [job])
            some.append(job)
        except Wrong as wrong:
            left[job.name] = str(wrong)
    if not some:
        return Answer(None, left)
    try:
        return Answer(await drafts.make(c, planner, some), left)
    except Wrong as wrong:
        return Answer(None, {**left, **{job.name: str(wrong) for job in some}})


class Drafting:
    """The task that makes plans, and what becomes of them."""

    def __init__(self, c: Controller) -> None:
        self._c = c
        self._task: Optional[asyncio.Task[None]] = None
        self.sending: Set[asyncio.Task[None]] = set()  # of routes, which goes on beside all else
        self._failures = 0  # of the planner, in a row

    def tick(self) -> float:
        """Begin a plan if it is time; when to look again."""
        c = self._c
        if c.phase == "gathering":
            return NEVER_S
        if c.now_s >= c.plan_s and not (
            c.phase == "drafting" and c.overtaken >= limits.OVERTAKEN_MAX
        ):
            self._begin()
        return c.plan_s if c.plan_s > c.now_s else NEVER_S

    def _begin(self) -> None:
        c = self._c
        if c.phase == "drafting":
            c.overtaken += 1
            self.stop()
        c.plan_s, c.planned_changes, c.loaded = NEVER_S, c.changes, False
        c.goal = MEND if c.wanted == LOOK and c.now_s < c.look_s else c.wanted
        c.phase = "drafting"
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Give up the plan in progress."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        answer, cause = None, ""
        try:
            async with Planner(self._c.planners) as planner:
                answer = await _draft(self._c, planner)
        except (OSError, ValueError, LookupError, TypeError) as error:
            cause = f"the planner failed: {error}"
        self._task = None
        self._ended(answer, cause)
        self._c.wake(self._c.plan_s)

    def _ended(self, answer: Optional[Answer], cause: str) -> None:
        c = self._c
        c.phase = "watching"
        late = c.changes != c.planned_changes
        if answer is None:
            self._failed(cause)
            return
        self._failures = 0
        if late and c.overtaken < limits.OVERTAKEN_MAX:
            c.overtaken += 1
            return
        try:
            _take(c, answer)
        except Wrong:  # a worker got parts meanwhile, say
            c.overtaken += 1
            c.settle_plan(c.now_s)
            return
        sending = asyncio.get_running_loop().create_task(routes.push_all(c))
        self.sending.add(sending)
        sending.add_done_callback(self.sending.discard)
        self._finish()
        if late:
            c.settle_plan(c.now_s)

    def _failed(self, cause: str) -> None:
        """The planner could not be run, or was killed: once more, then after a while."""
        c = self._c
        self._failures += 1
        if self._failures > 1:
            for job in c.jobs.values():
                _leave_out(c, job, cause)
        c.settle_plan(c.now_s + (limits.PAUSE_S if self._failures > 1 else 0))

    def _finish(self) -> None:
        """A plan is taken: its goal has been reached as far as possible."""
        c = self._c
        if c.goal != MEND:
            c.wanted = LOOK if c.loaded else MEND
            c.look_s = c.now_s + limits.LOOK_S
        if c.loaded:
            c.cause = "loads have changed"
        if c.wanted == LOOK:
            c.settle_plan(c.look_s)
        c.goal, c.overtaken = MEND, 0
        c.plans += 1


# ---- plans from outside ----


def shown(c: Controller) -> Json:
    """The plan of all jobs."""
    how = "given" if c.given else c.settings.algorithm
    planned = [job for job in c.jobs.values() if job.trees]
    return {"algorithm": how, **drafts.joined(planned)}


async def install(c: Controller, plan: Any) -> None:
    """Check a plan against the whole topology, and take it as the plan of all jobs; Wrong: why not."""
    if not isinstance(plan, dict):
        raise Wrong("expected a plan as fanin plan --json writes it")
    async with Planner(c.planners) as planner:
        draft = await drafts.take_given(c, planner, plan, list(c.jobs.values()))
    for job in draft.jobs:
        if c.jobs.get(job.name) is job:
            draft.give(job)
    c.given = True
    c.plan_in(0, "a plan was given")
