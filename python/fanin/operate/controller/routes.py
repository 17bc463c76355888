# SPDX-License-Identifier: Apache-2.0
"""Route numbers, and the rules that switches have under them.

A number is given out again only after all others; what is installed under it never changes.  A
switch that comes back gets its rules again, under the same numbers.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from . import limits
from .core import NEVER_S, Controller, plain
from .model import Job, Json, Node, Path, Route, Stop
from .turns import in_turns

STOP_BITS = 20  # of an id: number of the stop


def _new_number(c: Controller) -> int:
    """The next unused number; 0: there is none."""
    strays = {number for node in c.nodes.values() for number in node.strays}
    for _ in range(limits.NUMBER_MAX):
        c.last_number = c.last_number % limits.NUMBER_MAX + 1
        if c.last_number not in c.routes and c.last_number not in strays:
            return c.last_number
    return 0


def new(c: Controller, number: int, job: Job, part: int, path: Path) -> Optional[Route]:
    """A route in state "installing", not sent yet.  `number`: its number; 0: the next free one.
    None: no place or number is free."""
    if len(c.routes) >= limits.ROUTES_MAX or number in c.routes:
        return None
    number = number or _new_number(c)
    if not number:
        return None
    route = Route(number, job, part, path, dict.fromkeys(path.stops, Stop.WANTED))
    c.ours.add(number)
    c.routes[number] = route
    job.routes.append(route)
    return route


def free(c: Controller, route: Route) -> None:
    """Forget a route of which no switch has anything."""
    del c.routes[route.number]
    route.job.routes.remove(route)


# ---- lines out ----


def _install(c: Controller, route: Route, switch: str) -> Json:
    quota, rules = route.path.stops[switch]
    entries = [rule.shown(lambda name: c.nodes[name].listen) for rule in rules]
    return {"route": route.number, "quota": quota, "entries": entries}


def _id(route: Route, switch: str, leaves: bool) -> int:
    """Of a request and its answer: the route, its stop, and whether this removes it."""
    stop = list(route.stops).index(switch)
    return (route.number << STOP_BITS | stop) << 1 | leaves


def _push(c: Controller, route: Route, switch: str) -> None:
    """Send the route's rules to a switch that does not have them."""
    conn = c.nodes[switch].conn
    if route.state != "leaving" and route.stops.get(switch) is Stop.WANTED and conn is not None:
        route.stops[switch] = Stop.ASKED
        c.send(conn, {"id": _id(route, switch, False), "install": _install(c, route, switch)})


async def push_all(c: Controller) -> None:
    """Send all routes to the switches that do not have them, one switch after the other."""
    wanted: List[Tuple[str, Route]] = []
    async for route in in_turns(list(c.routes.values())):
        wanted += [(s, route) for s, state in route.stops.items() if state is Stop.WANTED]
    wanted.sort(key=lambda pair: pair[0])
    async for switch, route in in_turns(wanted):
        _push(c, route, switch)


def leave(c: Controller, route: Route, seconds: float) -> None:
    """Remove the route in so many seconds."""
    if route.state == "leaving":
        return
    route.state, route.leave_s = "leaving", c.now_s + seconds
    for switch, state in route.stops.items():
        if state is Stop.ASKED:  # ignore its answer to the installation
            route.stops[switch] = Stop.THERE
    c.wake(route.leave_s)


def _free_if_removed(c: Controller, route: Route) -> None:
    if all(state is Stop.WANTED for state in route.stops.values()):
        free(c, route)


def _push_leave(c: Controller, route: Route) -> None:
    """Remove a route from its switches.  One that is down has lost it, or removes it when it is
    back."""
    for switch, state in route.stops.items():
        if state is not Stop.THERE:
            continue
        conn = c.nodes[switch].conn
        route.stops[switch] = Stop.WANTED if conn is None else Stop.ASKED
        c.send(conn, {"id": _id(route, switch, True), "remove": route.number})
    _free_if_removed(c, route)


def tick(c: Controller) -> float:
    """Remove what is to leave; when to look again."""
    due_s = NEVER_S
    for route in list(c.routes.values()):
        if route.state != "leaving":
            continue
        if c.now_s >= route.leave_s:
            route.leave_s = NEVER_S
            _push_leave(c, route)
        due_s = min(due_s, route.leave_s)
    for node in c.nodes.values():
        if node.strays and c.now_s >= node.stray_s:
            _remove_strays(c, node)
        elif node.strays:
            due_s = min(due_s, node.stray_s)
    return due_s


def _remove_strays(c: Controller, node: Node) -> None:
    c.note(f"{node.name}: removed {len(node.strays)} routes of an earlier controller")
    for number in node.strays:
        if number not in c.ours:  # not restored since then
            c.send(node.conn, {"id": 0, "remove": number})
    node.strays = []


# ---- lines in ----


def _refused(c: Controller, route: Route, node: Node, why: str) -> None:
    """A switch refuses it: another plan, with another number, may be accepted."""
    job = route.job
    c.note(f"{node.name} refuses route {route.number} of {job.name}: {why}")
    job.why = plain(f"{node.name} refuses route {route.number}: {why[:200]}", limits.WHY_BYTES)
    route.broken = True
    job.refusals += 1
    if job.refusals <= limits.REFUSALS_MAX:
        c.plan_in(limits.ARRIVAL_S, f"{node.name} refused a route")


def answer(c: Controller, node: Node, number: int, error: Optional[str]) -> Optional[Job]:
    """Take a daemon's answer to request `number`.  The job of the route that is there now, if it is."""
    leaves, stop = bool(number & 1), number >> 1 & ((1 << STOP_BITS) - 1)
    route = c.routes.get(number >> STOP_BITS + 1)
    if route is None or stop >= len(route.stops) or leaves != (route.state == "leaving"):
        return None  # the answer is outdated
    switch = list(route.stops)[stop]
    if switch != node.name or route.stops[switch] is not Stop.ASKED:
        return None
    if leaves:
        route.stops[switch] = Stop.WANTED
        _free_if_removed(c, route)
    elif error is not None:
        _refused(c, route, node, error)
    else:
        route.stops[switch] = Stop.THERE
        return route.job if route.is_there else None
    return None


def greet(c: Controller, node: Node, numbers: List[int]) -> None:
    """A daemon has come with these routes: it gets what it lacks, and loses what is no more."""
    node.strays, node.stray_s = [], c.now_s + limits.STRAY_S
    for number in filter(None, numbers):
        route = c.routes.get(number)
        if route and route.state != "leaving" and node.name in route.stops:
            route.stops[node.name] = Stop.WANTED  # sent again, which changes nothing there
        elif route or number in c.ours:
            c.send(node.conn, {"id": 0, "remove": number})
        elif len(node.strays) < limits.SWITCH_ROUTES_MAX:
            node.strays.append(number)
    for route in c.routes.values():
        _push(c, route, node.name)


def forget(c: Controller, node: Node) -> None:
    """A daemon has gone, and its routes with it."""
    for route in list(c.routes.values()):
        if node.name in route.stops:
            route.stops[node.name] = Stop.WANTED
        if route.state == "leaving":
            _free_if_removed(c, route)


def count_at(c: Controller, leaving: bool) -> Dict[str, int]:
    """By node: how many routes have rules there, or are to have.  `leaving`: also count routes being
    removed, and those that end at the node."""
    found = dict.fromkeys(c.nodes, 0)
    for route in c.routes.values():
        if route.state == "leaving" and not leaving:
            continue
        if leaving:
            found[route.path.server] += 1
        for switch in route.stops:
            found[switch] += 1
    return found
