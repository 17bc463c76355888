# SPDX-License-Identifier: Apache-2.0
"""A plan for some of the controller's jobs on the nodes that are up, and its installation.

Making one does not change the controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from . import drains, limits, load
from .core import LOOK, SEARCH, Controller
from .model import Job, Json, Node, Path, Rule, Wrong
from .planner import Planner
from .turns import in_turns, pieces


@dataclass(frozen=True)
class DraftPart:
    """A part of a job as it is to be installed."""

    cut: Tuple[int, int]
    gbps: float
    path: Path


@dataclass
class Draft:
    """A plan: by job its parts, its rate in Gb/s, and trees and assignments, numbered from 0."""

    jobs: List[Job]
    nodes: int = 0
    gbps: float = 0
    binding: str = "nothing"  # what is full first
    parts: Dict[str, List[DraftPart]] = field(default_factory=dict)
    rates: Dict[str, float] = field(default_factory=dict)
    trees: Dict[str, List[Json]] = field(default_factory=dict)
    assignments: Dict[str, List[Json]] = field(default_factory=dict)
    texts: Dict[str, str] = field(default_factory=dict)  # trees and assignments as JSON

    def give(self, job: Job) -> None:
        """Let the job keep what it has here."""
        job.keep(self.trees[job.name], self.assignments[job.name], self.texts[job.name])


# ---- the topology as it is ----


def _nodes(c: Controller, whole: bool) -> List[Json]:
    found = []
    for node in c.nodes.values():
        if whole or node.is_used:
            said = dict(load.added(node.said, 0 if whole else node.load_gbps))
            said.pop("parent", None)  # the parent may be down
            found.append(said)
    return found


def _links(c: Controller, whole: bool) -> List[Json]:
    if whole:
        return [link.said for link in c.links]
    return [
        load.added(link.said, link.used_gbps)
        for link in c.links
        if not link.is_down and link.ends[0].is_used and link.ends[1].is_used
    ]


def _job(c: Controller, job: Job, whole: bool) -> Json:
    """The job with the servers that it may use; Wrong: there is none."""
    parent: Optional[Node] = None
    if job.groups:
        parent = drains.group_parent(c, job)
        if whole and parent is None:
            parent = c.nodes[job.servers[0]].parent
    servers = []
    for name in job.servers:
        node = c.nodes[name]
        fits = node.parent is parent if job.groups else node.parent is None
        if (whole or node.is_used) and fits and bool(parent) == bool(job.groups):
            if parent is None or whole or parent.is_used:
                servers.append(name)
    if not servers and job.groups:
        raise Wrong(
            f"no parent of its {len(job.servers)} servers is there with all who sum below it"
        )
    if not servers:
        raise Wrong(f"none of its {len(job.servers)} servers is there")
    said = {key: value for key, value in job.said.items() if key != "spares"}
    return {**said, "servers": servers}


def topology(c: Controller, jobs: List[Job], whole: bool) -> Json:
    """What is there; `whole`: the network without failures and other traffic."""
    said = [_job(c, job, whole) for job in jobs]
    return {"nodes": _nodes(c, whole), "links": _links(c, whole), "jobs": said}


def joined(jobs: List[Job]) -> Json:
    """The plans of jobs as one, with trees numbered in a row."""
    trees: List[Json] = []
    assignments: List[Json] = []
    for job in jobs:
        base = len(trees)
        trees += [{**tree, "tree": base + tree["tree"]} for tree in job.trees or []]
        assignments += [{**a, "tree": base + a["tree"]} for a in job.assignments]
    return {"trees": trees, "assignments": assignments}


def _slots(c: Controller) -> int:
    """The least number of slots of a switch in use."""
    switches = (node for node in c.nodes.values() if node.kind == "switch" and node.is_used)
    return min((node.slots for node in switches if node.slots), default=0)


# ---- from the planner's answer ----


class Reading:
    """The planner's answer for some jobs, element by element."""

    def __init__(self, jobs: List[Job]) -> None:
        self.draft = Draft(jobs)
        for job in jobs:
            self.draft.trees[job.name], self.draft.assignments[job.name] = [], []
        self._first: Dict[str, int] = {}  # the number of a job's first tree
        self._joins: Dict[int, List[str]] = {}  # by route number of the installation
        self._stops: Dict[int, Dict[str, Tuple[int, Tuple[Rule, ...]]]] = {}
        self._parts: List[Json] = []

    def take(self, name: str, one: Json) -> None:
        """Take an element of a list; trees come before assignments, and workers by rank."""
        draft = self.draft
        if name == "jobs":
            draft.rates[one["name"]] = one["gbps"]
        elif name == "trees":  # a job's trees have numbers in a row
            one["tree"] -= self._first.setdefault(one["job"], one["tree"])
            draft.trees[one["job"]].append(one)
        elif name == "assignments":
            one["tree"] -= self._first[one["job"]]
            draft.assignments[one["job"]].append(one)
        elif name == "parts":
            self._parts.append(one)
        elif name == "workers":
            for join in one["joins"]:
                self._joins.setdefault(join["route"], []).append(join["at"])
        elif name == "switches":
            for route in one["routes"]:
                rules = tuple(map(Rule.planned, route["entries"]))
                stops = self._stops.setdefault(route["route"], {})
                stops[one["name"]] = (route["quota"], rules)

    async def end(self, answer: Json, nodes: int) -> Draft:
        """The whole."""
        draft = self.draft
        draft.nodes, draft.gbps = nodes, answer["feasible_gbps"]
        draft.binding = answer["binding"] or draft.binding
        for part in self._parts:
            number, (start, end) = part["route"], part["cut"]
            joins, stops = tuple(self._joins[number]), self._stops.get(number, {})
            of = draft.parts.setdefault(part["job"], [])
            of.append(DraftPart((start, end), part["gbps"], Path(part["server"], joins, stops)))
        for job in draft.jobs:
            plan = {"trees": draft.trees[job.name], "assignments": draft.assignments[job.name]}
            draft.texts[job.name] = "".join([piece async for piece in in_turns(pieces(plan), 1)])
        return draft


# ---- what must hold ----


def fits_parts(draft: Draft, job: Job) -> bool:
    """Are its parts those that the job's workers have?"""
    planned = [(part.cut, part.path.server) for part in draft.parts[job.name]]
    return bool(planned) and planned == [(part.cut, part.server) for part in job.parts]


def restores(draft: Draft, job: Job) -> bool:
    """Has it as many parts as the job's workers have from an earlier controller?"""
    return bool(job.restore) and len(draft.parts[job.name]) == len(job.restore)


def _check_threads(c: Controller, part: DraftPart) -> None:
    """A part's daemons have as many threads: thread i talks to thread i of the others."""
    server = c.nodes[part.path.server]
    for name in part.path.stops:
        node = c.nodes[name]
        if node.shards != server.shards:
            raise Wrong(
                f'switch "{name}" has {node.shards} threads and server "{server.name}" '
                f"{server.shards}: start all with the same --threads"
            )


def _check_parent(c: Controller, job: Job, part: DraftPart) -> None:
    """The part's server was started with the parent, if any, that the topology gives it."""
    node = c.nodes[part.path.server]
    parent = node.parent if job.groups else None
    if not job.groups and not node.above:
        return
    if parent is None:
        raise Wrong(
            f'server "{node.name}": expected a parent here and in {c.settings.file}, or in neither'
        )
    if (node.above, node.siblings, node.index) != (parent.listen, job.groups, job.group):
        raise Wrong(
            f'server "{node.name}": start it with --parent {parent.listen}'
            f" --child {job.group}/{job.groups}"
        )


def _check_parts(draft: Draft) -> None:
    for job in draft.jobs:
        if job.state != "free" and not fits_parts(draft, job) and not restores(draft, job):
            raise Wrong("its workers go by other parts, and parts stay")


def check(c: Controller, draft: Draft) -> None:
    """Wrong: it does not fit daemons and workers as they are."""
    for job in draft.jobs:
        for part in draft.parts[job.name]:
            _check_threads(c, part)
            _check_parent(c, job, part)
    _check_parts(draft)


def _keeps(c: Controller, job: Job) -> bool:
    """Is the job's plan to be kept, except for what has failed?"""
    return bool(job.trees) and (job.state != "free" or c.given)


async def make(c: Controller, planner: Planner, jobs: List[Job]) -> Draft:
    """Plan the jobs on what is up; Wrong: why not."""
    there = topology(c, jobs, whole=False)
    look = c.goal == SEARCH or (c.goal == LOOK and not c.given)
    reading = Reading(jobs)
    answer = await planner.ask(
        there,
        _slots(c),
        reading.take,
        keep=joined([job for job in jobs if _keeps(c, job)]),
        worth=1 if c.goal == SEARCH else limits.WORTH,
        look=look,
    )
    draft = await reading.end(answer, len(there["nodes"]))
    check(c, draft)
    return draft


async def take_given(c: Controller, planner: Planner, plan: Json, jobs: List[Job]) -> Draft:
    """Check a plan against the whole topology; Wrong: it does not fit."""
    there = topology(c, jobs, whole=True)
    reading = Reading(jobs)
    answer = await planner.ask(there, 0, reading.take, plan=plan)
    draft = await reading.end(answer, len(there["nodes"]))
    _check_parts(draft)
    return draft
