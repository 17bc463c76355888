# SPDX-License-Identifier: Apache-2.0
"""Networks as people write them in JSON: checked, and with all defaults filled in.

What network.py describes, with these freedoms: several links between two nodes become one, with the
sum of their rates.  "directed" ones are added up for each direction, and the link has the lower of
both sums.  Jobs may leave out everything but their names; without "jobs" there is one job of all
workers and servers.  Jobs whose servers have parents are split into groups.  "name" and "comment"
of the whole are ignored, and other keys refused.
"""

from __future__ import annotations

from typing import Any, Optional

from ..fields import NAME_MAX, Field, Place, entries, is_plain, read as read_object, type_name
from .network import (
    CABLES_MAX,
    GBPS_MAX,
    GBPS_MIN,
    JOBS_MAX,
    KINDS,
    NODES_MAX,
    SERVER,
    WORKER,
    FormatError,
    Job,
    Link,
    Network,
    Node,
    split,
)

_OTHER, _USED = Field("other"), Field("real", 0, GBPS_MAX)
_GBPS = Field("real", GBPS_MIN, GBPS_MAX)
_ROOT = dict.fromkeys(("nodes", "links", "jobs", "name", "comment"), _OTHER)
ROOT = tuple(_ROOT)
_NODE = {
    "name": Field("label"),
    "kind": Field("word", words=KINDS),
    "gbps": _GBPS,
    "background_gbps": _USED,
    "address": _OTHER,
    "parent": _OTHER,
}
_LINK = {
    "a": _OTHER,
    "b": _OTHER,
    "gbps": _GBPS,
    "delay_us": _USED,
    "background_gbps": _USED,
    "directed": Field("bool"),
}
_JOB = {
    "name": Field("label"),
    **dict.fromkeys(("workers", "servers", "group", "spares"), _OTHER),
    "weight": _GBPS,
    "demand_gbps": _USED,
}

_NO_RATE = (
    "expected a number above 0, got nothing; link=10 among hosts to attach, or --rate 10, is what "
    "links have that say none"
)


def _check_used(place: Place, used: float, gbps: float, between: str = "") -> None:
    """Refuse a background load that leaves less than the least rate that is planned."""
    if used > 0 and gbps - used < GBPS_MIN * (1 - 1e-9):
        of = f"the {gbps:g} Gb/s between {between}" if between else f"{gbps:g} Gb/s"
        left = f"which leaves less than {GBPS_MIN:g} for any job"
        place.fail("background_gbps", f"{used:g} of {of} are in use, {left}")


class _Reader:
    """A network that is being read."""

    def __init__(self, link_gbps: Optional[float]) -> None:
        self.network = Network()
        self.link_gbps = link_gbps  # of links without a rate; None: all must have one
        self.by_name: dict[str, int] = {}
        self.cables: dict[tuple[int, int], tuple[Link, list[float], list[float]]] = {}

    def named(self, place: Place, key: str, value: Any) -> int:
        """The node that a text names."""
        if not isinstance(value, str):
            place.fail(key, f"expected the name of a node, got {type_name(value)}")
        if value not in self.by_name:
            place.fail(key, f'no node "{value[:NAME_MAX]}"')
        return self.by_name[value]

    def node(self, place: Place, item: Any) -> None:
        """Read a node, but for its parent."""
        values = read_object(place, item, _NODE, "name", "kind")
        name, address = values["name"], item.get("address", "")
        _check_used(place, values.get("background_gbps", 0), values.get("gbps", 0))
        if not isinstance(address, str) or len(address) > NAME_MAX or not is_plain(address):
            place.fail("address", "expected the address of a host, without a port")
        if name in self.by_name:
            place.fail("name", f'"{name}" is the name of nodes[{self.by_name[name]}] already')
        self.by_name[name] = self.network.add_node(Node(**values, address=address))

    def parents(self, items: list[tuple[Place, Any]]) -> None:
        """Read servers' parents, once all nodes are known."""
        nodes = self.network.nodes
        for i, (place, item) in enumerate(items):
            if "parent" in item:
                parent = self.named(place, "parent", item["parent"])
                if not nodes[i].kind == nodes[parent].kind == SERVER or parent == i:
                    place.fail("parent", "expected another server's name, at a server")
                nodes[i].parent = parent
        for (place, _), node in zip(items, nodes):
            if node.parent is not None and nodes[node.parent].parent is not None:
                name = nodes[node.parent].name
                place.fail("parent", f'"{name}" has a parent itself: expected one level')

    def link(self, place: Place, item: Any) -> None:
        """Read a link, one of several cables it may be."""
        values = read_object(place, item, _LINK, "a", "b")
        a, b = (self.named(place, key, item[key]) for key in ("a", "b"))
        gbps, background = values.get("gbps", self.link_gbps), values.get("background_gbps", 0.0)
        if gbps is None:
            place.fail("gbps", _NO_RATE)
        _check_used(place, background, gbps)
        if a == b:
            place.fail("b", f'a link from "{self.network.nodes[a].name}" to itself')
        ends = (a, b) if a < b else (b, a)
        if ends not in self.cables:
            self.cables[ends] = self.network.add_link(a, b, 0.0), [0.0, 0.0], [0.0, 0.0]
        link, rates, used = self.cables[ends]
        for way in (0, 1):  # a directed cable counts only in its direction
            if not values.get("directed") or (way == 0) == (link.a == a):
                rates[way] += gbps
                used[way] += background
        link.gbps = min(rates) if min(rates) > 0 else max(rates)
        link.background_gbps = max(used)
        link.delay_us = max(link.delay_us, values.get("delay_us", 0.0))
        if link.background_gbps > 0:
            ends_of = (self.network.nodes[i].name for i in (link.a, link.b))
            _check_used(place, link.background_gbps, link.gbps, '"{}" and "{}"'.format(*ends_of))

    # ---- jobs ----

    def members(self, place: Place, item: Any, key: str, kind: str) -> list[int]:
        """The members of one kind: those named, or all."""
        if key not in item:
            return self.network.members(kind)
        found: dict[int, int] = {}
        for i, (_, value) in enumerate(entries(place, item, key, NODES_MAX)):
            number = self.named(place, f"{key}[{i}]", value)
            node = self.network.nodes[number]
            if node.kind != kind:
                place.fail(f"{key}[{i}]", f'"{node.name}" is a {node.kind}, not a {kind}')
            if number in found:
                place.fail(f"{key}[{i}]", f'"{node.name}" is {key}[{found[number]}] already')
            found[number] = i
        return list(found)

    def group(self, place: Place, item: Any, job: Job) -> None:
        """Read "group" and "spares" of a job that is split already."""
        if "group" not in item:
            if "spares" in item:
                place.fail("spares", "not of a group")
            return
        group = item["group"]
        is_pair = isinstance(group, list) and [type(one) for one in group] == [int, int]
        fits = is_pair and 0 <= group[0] < group[1] <= JOBS_MAX
        if not fits or len(job.servers) > 1 or "@" not in job.name:
            place.fail("group", "expected as fanin plan --topology writes it")
        job.group = (group[0], group[1])
        if "spares" in item:
            job.spares = self.members(place, item, "spares", SERVER)
            if set(job.spares) & set(job.servers):
                place.fail("spares", "expected other servers than the group's")

    def job(self, place: Place, item: Any) -> None:
        """Read a job."""
        values, jobs = read_object(place, item, _JOB, "name"), self.network.jobs
        for i, other in enumerate(jobs):
            if other.name == values["name"]:
                place.fail("name", f'"{other.name}" is the name of jobs[{i}] already')
        workers = self.members(place, item, "workers", WORKER)
        servers = self.members(place, item, "servers", SERVER)
        jobs.append(Job(**values, workers=workers, servers=servers))
        self.group(place, item, jobs[-1])


def _read(root: Any, link_gbps: Optional[float], needs_hosts: bool) -> _Reader:
    reader, place = _Reader(link_gbps), Place("")
    read_object(place, root, _ROOT, "nodes", "links")
    if root["nodes"] == []:
        raise FormatError("nodes: there is none: the file is blank")
    nodes = entries(place, root, "nodes", NODES_MAX, 1)
    for at, item in nodes:
        reader.node(at, item)
    reader.parents(nodes)
    kinds = {node.kind for node in reader.network.nodes}
    if needs_hosts and WORKER not in kinds:
        raise FormatError(
            "nodes: no worker among them; --attach workers=8,servers=1 puts hosts on switches"
        )
    if needs_hosts and SERVER not in kinds:
        raise FormatError("nodes: no server among them; --attach servers=1 puts one on a switch")
    for at, item in entries(place, root, "links", CABLES_MAX):
        reader.link(at, item)
    return reader


def read_network(root: Any, link_gbps: Optional[float] = None) -> Network:
    """Nodes and links; jobs are ignored, and no server is needed.

    `link_gbps`: of links that say none; None: that is an error.  FormatError: it makes no sense."""
    return _read(root, link_gbps, False).network


def read(root: Any, link_gbps: Optional[float] = None) -> Network:
    """Nodes, links and jobs; `link_gbps` as above.  FormatError: they make no sense."""
    reader = _read(root, link_gbps, True)
    for at, item in entries(Place(""), root, "jobs", JOBS_MAX):
        reader.job(at, item)
    if "jobs" not in root:
        reader.network.add_all()
    split(reader.network)
    return reader.network
