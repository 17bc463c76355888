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


@dataclass(frozen=True)
class DraftPart:
    """A part of a job as it is to be installed."""

    cut: Tuple[int, int]
    gbps: float
    path: Path


@dataclass
class Draft:
    """A plan: by job its parts, its rate in Gb/s, and trees and assignments, numbered from 0."""

    nodes: int
    gbps: float = 0
    binding: str = "nothing"  # what is full first
    jobs: List[Job] = field(default_factory=list)
    parts: Dict[str, List[DraftPart]] = field(default_factory=dict)
    rates: Dict[str, float] = field(default_factory=dict)
    trees: Dict[str, List[Json]] = field(default_factory=dict)
    assignments: Dict[str, List[Json]] = field(default_factory=dict)


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


def _paths(install: Json) -> Dict[int, Path]:
    """By route number of the installation."""
    joins: Dict[int, List[str]] = {}
    for worker in install["workers"]:  # in the order of ranks
        for join in worker["joins"]:
            joins.setdefault(join["route"], []).append(join["at"])
    stops: Dict[int, Dict[str, Tuple[int, Tuple[Rule, ...]]]] = {}
    for switch in install["switches"]:
        for route in switch["routes"]:
            rules = tuple(Rule.planned(entry) for entry in route["entries"])
            stops.setdefault(route["route"], {})[switch["name"]] = (route["quota"], rules)
    return {
        part["route"]: Path(
            part["server"], tuple(joins[part["route"]]), stops.get(part["route"], {})
        )
        for part in install["parts"]
    }


def read(answer: Json, jobs: List[Job], nodes: int) -> Draft:
    """The planner's answer for these jobs."""
    plan, install = answer["plan"], answer["install"]
    draft = Draft(nodes, plan["feasible_gbps"], plan["binding"] or "nothing", jobs)
    paths = _paths(install)
    for part in install["parts"]:
        cut = (part["cut"][0], part["cut"][1])
        of = draft.parts.setdefault(part["job"], [])
        of.append(DraftPart(cut, part["gbps"], paths[part["route"]]))
    base: Dict[str, int] = {}
    for tree in plan["trees"]:  # a job's trees have numbers in a row
        first = base.setdefault(tree["job"], tree["tree"])
        draft.trees.setdefault(tree["job"], []).append({**tree, "tree": tree["tree"] - first})
    for one in plan["assignments"]:
        of_job = draft.assignments.setdefault(one["job"], [])
        of_job.append({**one, "tree": one["tree"] - base[one["job"]]})
    draft.rates = {job["name"]: job["gbps"] for job in plan["jobs"]}
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


def check(c: Controller, draft: Draft) -> None:
    """Wrong: it does not fit daemons and workers as they are."""
    for job in draft.jobs:
        for part in draft.parts[job.name]:
            _check_threads(c, part)
            _check_parent(c, job, part)
    for job in draft.jobs:
        if job.state != "free" and not fits_parts(draft, job) and not restores(draft, job):
            raise Wrong("its workers go by other parts, and parts stay")


def _keeps(c: Controller, job: Job) -> bool:
    """Is the job's plan to be kept, except for what has failed?"""
    return bool(job.trees) and (job.state != "free" or c.given)


async def make(c: Controller, planner: Planner, jobs: List[Job]) -> Draft:
    """Plan the jobs on what is up; Wrong: why not."""
    there = topology(c, jobs, whole=False)
    look = c.goal == SEARCH or (c.goal == LOOK and not c.given)
    answer = await planner.ask(
        there,
        _slots(c),
        keep=joined([job for job in jobs if _keeps(c, job)]),
        worth=1 if c.goal == SEARCH else limits.WORTH,
        look=look,
    )
    draft = read(answer, jobs, len(there["nodes"]))
    check(c, draft)
    return draft


async def take_given(c: Controller, planner: Planner, plan: Json, jobs: List[Job]) -> Draft:
    """Check a plan against the whole topology; Wrong: it does not fit."""
    there = topology(c, jobs, whole=True)
    answer = await planner.ask(there, plan=plan)
    draft = read(answer, jobs, len(there["nodes"]))
    for job in jobs:
        if job.state != "free" and not fits_parts(draft, job) and not restores(draft, job):
            raise Wrong("its workers go by other parts, and parts stay")
    return draft
