# SPDX-License-Identifier: Apache-2.0
"""Jobs that follow a plan: routes in switches, and a job for each part.

The plan comes as `fanin plan --install` writes it.  A job of the scenario that the plan names
becomes one job for each of its parts, with its share of every layer, its server and its route.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from . import files
from .fields import U16_MAX, Field, Place, entries, read
from .jobs import CUT_BITS, whole
from .network import data_of
from .topology import HOPS_MAX, RANKS_MAX, SLOTS_MAX, WINDOW_MAX, WINDOW_QUOTA, Topology

ENTRIES_MAX = 64  # of a route, in one switch
ROUTES_MAX = 256  # in one switch
WINDOW_MIN = 4  # the least window of a part, however small
PACE_MIN = 1e-6  # Gb/s: a part whose pace is lower has next to nothing to send

_SWITCH = {"name": Field("other"), "routes": Field("other")}
_ROUTE = {
    "route": Field("u16", 1, U16_MAX),
    "quota": Field("u32", 0, SLOTS_MAX),
    "entries": Field("other"),
}
_ENTRY = {
    **dict.fromkeys(("from", "next", "ranks", "sums"), Field("other")),
    "depth": Field("u32", 1, HOPS_MAX),
}

Json = Any


def _get(value: Json, key: str) -> Json:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Json, key: str) -> list[Json]:
    found = _get(value, key)
    return found if isinstance(found, list) else []


def _item(value: Json, i: int) -> int:
    return whole(value[i]) if isinstance(value, list) and i < len(value) else 0


# ---- parts ----


def _names(plan: Json, job: str, route: int) -> list[Json]:
    """Names in the plan by rank of the job: the workers or, with a `route`, where they join for it."""
    found = []
    for worker in _list(plan, "workers"):
        if _get(worker, "job") != job:
            continue
        if not route:
            found.append(_get(worker, "worker"))
        for join in _list(worker, "joins"):
            if route and whole(_get(join, "route")) == route:
                found.append(_get(join, "at"))
    return found


def _size(part: Json) -> int:
    cut = _get(part, "cut")
    return _item(cut, 1) - _item(cut, 0)


def _is_of(part: Json, job: Optional[str]) -> bool:
    """Is `part` a part of the job, or of a group of it such as "JOB@2"?"""
    name = _get(part, "job")
    if not isinstance(name, str) or not job:
        return False
    return name == job or ("group" in part and name.partition("@")[0] == job)


def _set_window(plan: Json, name: str, job: dict[str, Json], part: Json) -> None:
    """Give the job's window to its largest part, and to others in proportion to their shares.

    Parts divide a shared link by window: with equal windows, small parts would end early, and large
    ones alone cannot fill what the plan has all of them fill."""
    window = whole(job["window"]) if "window" in job else WINDOW_QUOTA
    sizes = [_size(other) for other in _list(plan, "parts") if _is_of(other, name)]
    largest, size = max(sizes + [1]), _size(part)
    if WINDOW_MIN <= window <= WINDOW_MAX and size > 0 and largest >> CUT_BITS <= 1:
        job["window"] = max(WINDOW_MIN, window * size // largest)


def _set_pace(job: dict[str, Json], part: Json) -> None:
    """Set the part's pace to its planned rate, as the library does (`pace`).

    So no part takes capacity of a link that is planned for others."""
    gbps = _get(part, "gbps")
    if isinstance(gbps, (int, float)) and gbps >= PACE_MIN and "pace_gbps" not in job:
        job["pace_gbps"] = float(gbps)


def _part(plan: Json, job: dict[str, Json], name: str, part: Json) -> dict[str, Json]:
    """The job of one part or, if it has groups, of all its groups, which share its workers."""
    groups = _item(_get(part, "group"), 1)
    hosts, joins, routes = [], [], []  # type: list[Json], list[Json], list[int]
    for group in range(max(1, groups)):
        for other in _list(plan, "parts"):
            if groups:
                mine = _is_of(other, name) and _item(_get(other, "group"), 0) == group
            else:
                mine = other is part
            if mine:
                route = whole(_get(other, "route"))
                routes.append(route)
                hosts += _names(plan, other["job"], 0)
                joins += _names(plan, other["job"], route)
    copy = dict(job)
    for key, source in (("name", "name"), ("at", "server"), ("cut", "cut"), ("route", "route")):
        if source in part:
            copy[key] = part[source]
    copy.update(workers=len(hosts), hosts=hosts, joins=joins)
    if groups:
        copy["groups"] = routes
    _set_window(plan, name, copy, part)
    _set_pace(copy, part)
    return copy


def _expand(plan: Json, job: Json, jobs: list[Json]) -> int:
    """Add the parts of a job, or the job itself.  Returns how many parts the plan has of it."""
    parts = _list(plan, "parts")
    name = _get(job, "name")
    if not isinstance(name, str):  # a job without a name is the plan's only one
        name = _get(parts[0], "job") if parts else None
    mine = [part for part in parts if _is_of(part, name)]
    if not mine:
        jobs.append(job)
    for part in mine:
        if _item(_get(part, "group"), 0) == 0:  # this job has all groups' workers
            jobs.append(_part(plan, job if isinstance(job, dict) else {}, name, part))
    return len(mine)


def _load(place: Place, value: Json) -> Json:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        place.fail("plan", "expected an object, or the name of a file")
    data = data_of(place, "plan", value)
    with place.of("plan", value):
        return files.parse(data)


def planned(place: Place, root: Json) -> Json:
    """The scenario with its plan worked in: a job for each part, and "routes"."""
    if _get(root, "plan") is None:
        return root
    plan = _load(place, root["plan"])
    jobs: list[Json] = []
    used = sum(_expand(plan, job, jobs) for job in _list(root, "jobs"))
    parts = len(_list(plan, "parts"))
    if not parts or not isinstance(_get(plan, "switches"), list):
        place.fail("plan", 'expected "parts" and "switches", as fanin plan --install writes them')
    if used != parts:
        place.fail("plan", f"{used} of its {parts} parts are of jobs of this scenario")
    copy = {key: value for key, value in root.items() if key != "plan"}
    return {**copy, "jobs": jobs, "routes": plan["switches"]}


# ---- routes of switches ----


def _ranks(place: Place, text: Json) -> list[int]:
    """A set of ranks such as "0-3,7"."""
    one, found = r"(\d{1,9})(?:-(\d{1,9}))?", []  # type: str, list[int]
    fits = isinstance(text, str) and bool(re.fullmatch(f"({one}(,(?!$)|$))*", text, re.ASCII))
    for first, last in re.findall(one, text) if fits else ():
        low, high = int(first), int(last or first)
        fits = fits and low <= high < RANKS_MAX
        found += range(low, high + 1) if fits else ()
    if not fits:
        place.fail("ranks", 'expected a text like "0-3,7"')
    return found


def _entry(place: Place, top: Topology, node: int, given: Json) -> dict[str, Any]:
    found = read(place, given, _ENTRY, "depth", "ranks", "next")
    for key in ("from", "next"):
        if given.get(key) is not None or key == "next":
            found[key] = top.find(given[key])
            if found[key] is None:
                place.fail(key, f'"{str(given[key])[:63]}": no node of that name')
    found["ranks"] = _ranks(place, given["ranks"])
    found["sums"] = given.get("sums", False) is not False
    if found["sums"] and top.nodes[node].kind == "router":
        place.fail("sums", f'"{top.nodes[node].name}" cannot sum')
    return found


def _route(place: Place, top: Topology, node: int, given: Json) -> dict[str, Any]:
    values = read(place, given, _ROUTE, "route")
    found = [_entry(at, top, node, e) for at, e in entries(place, given, "entries", ENTRIES_MAX, 1)]
    quota = values.get("quota", 0)
    return {"path": place.path, "node": node, "number": values["route"], "quota": quota,
            "entries": found}  # fmt: skip


def routes(place: Place, top: Topology, root: dict[str, Json]) -> list[dict[str, Any]]:
    """The routes of all switches, flat.  Switches on routes share slots."""
    found: list[dict[str, Any]] = []
    for at, switch in entries(place, root, "routes", len(top.nodes)):
        read(at, switch, _SWITCH, "name")
        node = top.find(switch["name"])
        if node is None or not top.nodes[node].forwards:
            at.fail("name", f'"{str(switch["name"])[:63]}": no switch of that name')
        if not top.nodes[node].shares:
            top.nodes[node].policy = "atp"
        listed = entries(at, switch, "routes", ROUTES_MAX, 1)
        found += [_route(inside, top, node, route) for inside, route in listed]
    if not found:
        for one in top.nodes:
            if "sums_gbps" in one.values:
                place.fail("", f'node "{one.name}" has sums_gbps: goes with a plan')
    return found
