# SPDX-License-Identifier: Apache-2.0
"""Daemons that people take out of use before they stop them, and daemons that come while jobs run.

A drained daemon runs on, but plans do not use it: jobs move off it while it still works, so no
packet is lost.  It stays drained over restarts of daemon and controller until it is undrained.

A daemon that comes or is undrained is offered to running jobs, which move for better paths as they
do when load changes.  One that comes must have been up for a while first, which doubles with each
recent loss, so that a flapping daemon does not move jobs every time.
"""

from __future__ import annotations

from typing import Any, List, Optional

from . import jobs, limits, routes
from .core import LOOK, MEND, NEVER_S, Controller
from .model import Job, Node, Wrong

# ---- parents of groups ----


def _adds_up(c: Controller, parent: Node, without: Optional[Node]) -> bool:
    """Are the parent and all servers below it in use, and none of them `without`?"""
    return all(
        node is not without and node.is_used
        for node in c.nodes.values()
        if node is parent or node.parent is parent
    )


def _parent_without(c: Controller, job: Job, node: Optional[Node]) -> Optional[Node]:
    for server in job.servers:
        parent = c.nodes[server].parent
        if parent is not None and _adds_up(c, parent, node):
            return parent
    return None


def group_parent(c: Controller, job: Job) -> Optional[Node]:
    """The parent whose servers sum for the job's groups: that of groups with workers; if there are
    none, the first that is in use with all of its servers."""
    for other in c.jobs.values():
        if other.state == "free" or not other.trees or not job.is_beside(other):
            continue
        server = c.nodes.get(other.trees[0]["server"])
        if server is not None:
            return server.parent
    return _parent_without(c, job, None)


# ---- taking out of use ----


def _has_other(c: Controller, job: Job, node: Node) -> bool:
    """Can the job begin again without this server?"""
    if job.groups:
        return _parent_without(c, job, node) is not None
    return any(c.nodes[s] is not node and c.nodes[s].is_used for s in job.servers)


def _take_out(c: Controller, node: Node) -> None:
    if node.kind == "server":
        for job in c.jobs.values():
            if job.state != "free" and jobs.needs(c, job, node) and not _has_other(c, job, node):
                raise Wrong(
                    f'job "{job.name}" has no other server that is there: end it, or start one'
                )
    if node.drained:
        return
    node.drained, node.empty, node.offer_s = True, False, None
    c.note(f"{node.name} is to be drained")
    c.plan_in(limits.SETTLE_S, f"{node.name} is to be drained")
    if node.kind == "server":
        jobs.lost_aggregator(c, node, "is to be drained")


def _take_back(c: Controller, node: Node) -> None:
    if not node.drained:
        return
    node.drained = False
    node.offer_s = c.now_s if node.state == "up" else None
    c.note(f"{node.name} is to be used again")
    c.plan_in(limits.ARRIVAL_S, f"{node.name} is to be used again")


def order(c: Controller, name: str, drained: bool) -> None:
    """Take a switch or server out of use, or back; Wrong: that cannot be."""
    node = c.nodes.get(name)
    if node is None or not node.is_daemon:
        raise Wrong(f'no switch or server "{name:.63}" in {c.settings.file}')
    if drained:
        _take_out(c, node)
    else:
        _take_back(c, node)


def saved(c: Controller) -> List[str]:
    """The names of drained daemons."""
    return [node.name for node in c.nodes.values() if node.drained]


def restore(c: Controller, names: Any) -> None:
    """Take those of an earlier controller."""
    for name in names if isinstance(names, list) else []:
        node = c.nodes.get(name) if isinstance(name, str) else None
        if node is not None and node.is_daemon:
            node.drained = True


# ---- arrivals ----


def came(c: Controller, node: Node) -> None:
    """A daemon has come."""
    node.empty = False
    if c.phase != "gathering" and not node.drained:
        node.offer_s = c.now_s + limits.OFFER_S * 2 ** min(node.goes, limits.OFFER_DOUBLINGS)


def went(c: Controller, node: Node) -> None:
    """A daemon goes; its state has not changed yet."""
    if c.now_s - node.since_s >= limits.CALM_S:
        node.goes = 0
    node.goes += 1
    node.offer_s = None


def _offer(c: Controller, node: Node) -> None:
    node.offer_s = None
    if c.wanted == MEND:
        c.wanted = LOOK
    c.plan_in(0, f"{node.name} is offered to running jobs")


def tick(c: Controller) -> float:
    """Note which drained daemons nobody needs, and offer those that came; when to look again."""
    due_s = NEVER_S
    counts = None
    for node in c.nodes.values():
        if node.drained and not node.empty:
            counts = counts or routes.count_at(c, leaving=True)
            if not counts[node.name]:
                node.empty = True
                c.note(f"{node.name} is drained: it may be stopped")
        if node.offer_s is None:
            continue
        if c.now_s >= node.offer_s:
            _offer(c, node)
        else:
            due_s = min(due_s, node.offer_s)
    return due_s
