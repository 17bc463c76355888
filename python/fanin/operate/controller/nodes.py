# SPDX-License-Identifier: Apache-2.0
"""Daemons: which are up, since when, and their health."""

from __future__ import annotations

from . import drains, jobs, limits, links, load, routes
from .core import NEVER_S, Controller
from .model import HEALTH, Conn, Json, Node, Refused


def _is_gone(c: Controller, node: Node, cause: str) -> None:
    """A node is lost: forget its routes and plan without it; jobs with an aggregator there begin
    again."""
    drains.went(c, node)
    node.state, node.since_s = "gone", c.now_s
    node.cut_s, node.strays = None, []
    c.note(f"{node.kind} {node.name} is gone: {cause}")
    routes.forget(c, node)
    links.gone(c, node)
    c.plan_in(limits.SETTLE_S, f"{node.kind} {node.name} is gone")
    if node.kind == "server":
        jobs.lost_aggregator(c, node, "is gone")


def _hang_up(c: Controller, node: Node) -> None:
    conn, node.conn = node.conn, None
    if conn is not None:
        c.hang_up(conn)


# ---- hello ----


def _node_of(c: Controller, conn: Conn, said: Json) -> Node:
    """The node that a daemon may be; Refused otherwise."""
    node, file = c.nodes.get(said["name"]), c.settings.file
    if node is None:
        raise Refused(f'hello: no node "{said["name"]:.63}" in {file}')
    if not node.is_daemon or node.kind != said["hello"]:
        raise Refused(
            f'hello: "{node.name}" is a {node.kind} in {file}, and the daemon a {said["hello"]:.16}'
        )
    jobs.check_from(c, conn, node)
    if node.conn is not None and c.now_s - node.heard_s < limits.SILENT_S:
        raise Refused(f'hello: {node.kind} "{node.name}" is connected already')
    return node


def _is_same(node: Node, said: Json) -> bool:
    """Is it the same process, at the same address, with as many shards?"""
    before = (node.started, node.listen, node.shards)
    return before == (said["started"], said["listen"], said["shards"])


def hello(c: Controller, conn: Conn, said: Json) -> None:
    """A daemon has come."""
    node = _node_of(c, conn, said)
    _hang_up(c, node)  # the old connection is silent
    if node.state == "up" and not _is_same(node, said):
        _is_gone(c, node, "it began anew")
    elsewhere = node.state != "never" and node.listen != said["listen"]
    conn.node, node.conn = node, conn
    c.name(conn)
    node.heard_s, node.cut_s = c.now_s, None
    for key in ("listen", "shards", "slots", "started"):
        setattr(node, key, said[key])
    above = said["above"]
    node.above, node.index, node.siblings = above["at"], above["index"], above["siblings"]
    numbers = said["routes"] or []
    there = "is there" if node.state == "never" else "is back"
    c.note(f"{node.kind} {node.name} {there} at {node.listen}, with {len(numbers)} routes")
    if node.state != "up":
        node.state, node.since_s = "up", c.now_s
        drains.came(c, node)
        where = " to another address" if elsewhere else ""
        c.plan_in(limits.ARRIVAL_S, f"{node.kind} {node.name} came{where}")
    links.came(c, node)
    routes.greet(c, node, numbers)


# ---- later lines ----


def line(c: Controller, conn: Conn, name: str, said: Json) -> None:
    """A daemon's message."""
    node = conn.node
    assert node is not None
    node.heard_s = c.now_s
    if name == "health":
        report = said["health"]
        node.health = {key: report[key] for key in HEALTH}
        links.health(c, node, report)
        load.health(c, node, report)
    elif name in ("ok", "error"):
        job = routes.answer(c, node, said[name], said["why"] if name == "error" else None)
        if job is not None and job.name in c.jobs:
            jobs.settle(c, job)
    elif said["stopping"]:
        _hang_up(c, node)
        _is_gone(c, node, "it is being stopped")
    else:
        raise Refused(f'"{node.name}": expected health, ok, error or stopping')


def closed(c: Controller, node: Node) -> None:
    """A daemon's connection has ended."""
    node.conn = None
    if node.state != "up":
        return
    if node.kind == "server":  # waiting costs less than losing an aggregator
        node.cut_s = c.now_s
    else:
        _is_gone(c, node, "its line was cut")


def slept(c: Controller, late_s: float) -> None:
    """Leave out a time in which the controller did not run from the silence of nodes, and from the
    wait for workers of an earlier controller's routes."""
    for node in c.nodes.values():
        node.heard_s = min(node.heard_s + late_s, c.now_s)
        if node.cut_s is not None:
            node.cut_s = min(node.cut_s + late_s, c.now_s)
        node.stray_s += late_s


def tick(c: Controller) -> float:
    """Miss who is silent; when to look again."""
    due_s = NEVER_S
    for node in c.nodes.values():
        if node.conn is not None:
            if c.now_s - node.heard_s >= limits.SILENT_S:
                _hang_up(c, node)
                _is_gone(c, node, "it is silent")
            else:
                due_s = min(due_s, node.heard_s + limits.SILENT_S)
        elif node.cut_s is not None:
            if c.now_s - node.cut_s >= limits.BACK_S:
                _is_gone(c, node, "its line was cut")
            else:
                due_s = min(due_s, node.cut_s + limits.BACK_S)
    return due_s
