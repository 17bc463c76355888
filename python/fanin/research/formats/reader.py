# SPDX-License-Identifier: Apache-2.0
"""Networks as people write them in JSON: checked, and with all defaults filled in.

What network.py describes, with these freedoms: several links between two nodes become one, with the
sum of their rates.  "directed" ones are added up for each direction, and the link has the lower of
both sums.  Jobs may leave out everything but their names; without "jobs" there is one job of all
workers and servers.  Jobs whose servers have parents are split into groups.  "name" and "comment"
of the whole are ignored, and other keys refused.
"""

from __future__ import annotations

from typing import Any, Callable, NoReturn, Optional, Sequence

from ..fields import nearest
from .network import (
    GBPS_MAX,
    GBPS_MIN,
    JOBS_MAX,
    KINDS,
    LINKS_MAX,
    NAME_MAX,
    NODES_MAX,
    SERVER,
    WORKER,
    FormatError,
    Job,
    Link,
    Network,
    Node,
    is_plain,
    split,
)

SHOWN = 40  # characters of a text in an error

ROOT = ("nodes", "links", "jobs", "name", "comment")
_NODE = ("name", "kind", "gbps", "background_gbps", "address", "parent")
_LINK = ("a", "b", "gbps", "delay_us", "background_gbps", "directed")
_JOB = ("name", "workers", "servers", "group", "spares", "weight", "demand_gbps")

_NO_RATE = "; link=10 among hosts to attach, or --rate 10, is what links have that say none"


class _Absent:
    """What stands for the value of a key that is not there."""


_ABSENT = _Absent()


def _found(value: Any) -> str:
    """A short text for a value that is not what was expected."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:SHOWN]}"'
    if isinstance(value, (int, float)):
        return f"{value:g}" if abs(value) < 1e300 or isinstance(value, float) else "a huge number"
    for kind, text in ((dict, "an object"), (list, "a list"), (_Absent, "nothing")):
        if isinstance(value, kind):
            return text
    return "null"


def _is_used_up(background_gbps: float, gbps: float) -> bool:
    """Does a background load leave less than the least rate that is planned?"""
    return background_gbps > 0 and gbps - background_gbps < GBPS_MIN * (1 - 1e-9)


class _Object:
    """An object of the text, and where it is, such as "links[3]"."""

    def __init__(self, place: str, value: Any, keys: Sequence[str]) -> None:
        self.place, self.value = place, value
        for key in value:
            if key not in keys:
                near = nearest(key, keys)
                more = f'; did you mean "{near}"?' if near else ""
                self.fail(key[:NAME_MAX], f"no such key{more}")

    def fail(self, key: str, cause: str) -> NoReturn:
        """Complain about a key or, if it is "", the object."""
        raise FormatError(f"{self.place}{'.' if key and self.place else ''}{key}: {cause}")

    def get(self, key: str) -> Any:
        """The key's value, or _ABSENT."""
        return self.value.get(key, _ABSENT)

    def rate(self, key: str, least: float, missing: Optional[float]) -> float:
        """A rate of at least `least`; `missing` if it is absent, where it may be."""
        value = self.get(key)
        if value is _ABSENT and missing is not None:
            return float(missing)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and least <= value <= GBPS_MAX:
            return float(value)
        if is_number and value > 0:
            self.fail(key, f"expected a number from {least:g} to {GBPS_MAX:g}, got {_found(value)}")
        if least == 0:
            self.fail(key, f"expected a number from 0 on, got {_found(value)}")
        hint = "; leave it out if there is none"
        if missing is None:
            hint = _NO_RATE if value is _ABSENT else ""
        self.fail(key, f"expected a number above 0, got {_found(value)}{hint}")

    def background(self, gbps: float) -> float:
        """What others use of a rate."""
        used = self.rate("background_gbps", 0, 0)
        if _is_used_up(used, gbps):
            self.fail(
                "background_gbps",
                f"{used:g} of {gbps:g} Gb/s are in use, which leaves less than {GBPS_MIN:g} for "
                "any job",
            )
        return used

    def name(self) -> str:
        """Its name."""
        value = self.get("name")
        if not isinstance(value, str) or not 0 < len(value.encode("utf-8", "replace")) <= NAME_MAX:
            self.fail("name", f"expected a name of 1 to {NAME_MAX} bytes, got {_found(value)}")
        if not is_plain(value):
            self.fail("name", f'"{value}": expected a name without control characters')
        return value


class _Reader:
    """A network that is being read."""

    def __init__(self, link_gbps: Optional[float]) -> None:
        self.network = Network()
        self.link_gbps = link_gbps  # of links without a rate; None: all must have one
        self.by_name: dict[str, int] = {}
        self.cables: dict[tuple[int, int], tuple[Link, list[float], list[float]]] = {}

    def all_of(
        self,
        root: dict[str, Any],
        section: str,
        keys: Sequence[str],
        one: Callable[[_Object], None],
    ) -> None:
        """Read a list of objects."""
        place, items = _Object(section, {}, ()), root.get(section, _ABSENT)
        if not isinstance(items, list):
            place.fail("", f"expected a list, got {_found(items)}")
        if section == "nodes" and not items:
            place.fail("", "there is none: the file is blank")
        for i, item in enumerate(items):
            if not isinstance(item, dict):
                _Object(f"{section}[{i}]", {}, ()).fail(
                    "", f"expected an object, got {_found(item)}"
                )
            one(_Object(f"{section}[{i}]", item, keys))

    def named(self, of: _Object, key: str, value: Any) -> int:
        """The node that a text names."""
        if not isinstance(value, str):
            of.fail(key, f"expected the name of a node, got {_found(value)}")
        if value not in self.by_name:
            of.fail(key, f'no node "{value}"')
        return self.by_name[value]

    def node(self, of: _Object) -> None:
        """Read a node, but for its parent."""
        name, kind = of.name(), of.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            of.fail("kind", f'expected "worker", "switch" or "server", got {_found(kind)}')
        gbps = of.rate("gbps", GBPS_MIN, 0)
        background, address = of.background(gbps), of.value.get("address", "")
        if not isinstance(address, str) or len(address) > NAME_MAX or not is_plain(address):
            of.fail("address", "expected the address of a host, without a port")
        if name in self.by_name:
            of.fail("name", f'"{name}" is the name of nodes[{self.by_name[name]}] already')
        if len(self.network.nodes) == NODES_MAX:
            of.fail("", f"more than {NODES_MAX} nodes")
        node = Node(name, kind, gbps, background, address)
        self.by_name[name] = self.network.add_node(node)

    def parents(self, items: list[dict[str, Any]]) -> None:
        """Read servers' parents, once all nodes are known."""
        nodes = self.network.nodes
        places = [_Object(f"nodes[{i}]", item, _NODE) for i, item in enumerate(items)]
        for i, (of, node) in enumerate(zip(places, nodes)):
            if "parent" in of.value:
                parent = self.named(of, "parent", of.value["parent"])
                if not node.kind == nodes[parent].kind == SERVER or parent == i:
                    of.fail("parent", "expected another server's name, at a server")
                node.parent = parent
        for of, node in zip(places, nodes):
            if node.parent is not None and nodes[node.parent].parent is not None:
                name = nodes[node.parent].name
                of.fail("parent", f'"{name}" has a parent itself: expected one level')

    def link(self, of: _Object) -> None:
        """Read a link, one of several cables it may be."""
        a, b = (self.named(of, key, of.get(key)) for key in ("a", "b"))
        gbps, delay = of.rate("gbps", GBPS_MIN, self.link_gbps), of.rate("delay_us", 0, 0)
        background, directed = of.background(gbps), of.value.get("directed", False)
        if not isinstance(directed, bool):
            of.fail("directed", f"expected true or false, got {_found(directed)}")
        if a == b:
            of.fail("b", f'a link from "{self.network.nodes[a].name}" to itself')
        ends = (a, b) if a < b else (b, a)
        if ends not in self.cables:
            if len(self.network.links) == LINKS_MAX:
                of.fail("", f"more than {LINKS_MAX} links")
            self.cables[ends] = self.network.add_link(a, b, 0.0), [0.0, 0.0], [0.0, 0.0]
        link, rates, used = self.cables[ends]
        for way in (0, 1):  # a directed cable counts only in its direction
            if not directed or (way == 0) == (link.a == a):
                rates[way] += gbps
                used[way] += background
        link.gbps = min(rates) if min(rates) > 0 else max(rates)
        link.background_gbps = max(used)
        link.delay_us = max(link.delay_us, delay)
        if _is_used_up(link.background_gbps, link.gbps):
            names = [self.network.nodes[end].name for end in (link.a, link.b)]
            of.fail(
                "background_gbps",
                f"{link.background_gbps:g} of the {link.gbps:g} Gb/s between "
                '"{}" and "{}" are in use, which leaves less than '.format(*names)
                + f"{GBPS_MIN:g} for any job",
            )

    # ---- jobs ----

    def members(self, of: _Object, key: str, kind: str) -> list[int]:
        """The members of one kind: those named, or all."""
        names = of.get(key)
        if names is _ABSENT:
            return self.network.members(kind)
        if not isinstance(names, list):
            of.fail(key, f"expected a list of names, got {_found(names)}")
        found: dict[int, int] = {}
        for i, value in enumerate(names):
            number = self.named(of, f"{key}[{i}]", value)
            node = self.network.nodes[number]
            if node.kind != kind:
                of.fail(f"{key}[{i}]", f'"{node.name}" is a {node.kind}, not a {kind}')
            if number in found:
                of.fail(f"{key}[{i}]", f'"{node.name}" is {key}[{found[number]}] already')
            found[number] = i
        return list(found)

    def group(self, of: _Object, job: Job) -> None:
        """Read "group" and "spares" of a job that is split already."""
        group = of.get("group")
        if group is _ABSENT:
            if "spares" in of.value:
                of.fail("spares", "not of a group")
            return
        is_pair = isinstance(group, list) and [type(one) for one in group] == [int, int]
        if (
            not is_pair
            or not 0 <= group[0] < group[1] <= JOBS_MAX
            or len(job.servers) > 1
            or "@" not in job.name
        ):
            of.fail("group", "expected as fanin plan --topology writes it")
        job.group = (group[0], group[1])
        if "spares" in of.value:
            job.spares = self.members(of, "spares", SERVER)
            if set(job.spares) & set(job.servers):
                of.fail("spares", "expected other servers than the group's")

    def job(self, of: _Object) -> None:
        """Read a job."""
        name, weight = of.name(), of.rate("weight", GBPS_MIN, 1)
        demand, jobs = of.rate("demand_gbps", 0, 0), self.network.jobs
        for i, other in enumerate(jobs):
            if other.name == name:
                of.fail("name", f'"{name}" is the name of jobs[{i}] already')
        if len(jobs) == JOBS_MAX:
            of.fail("", f"more than {JOBS_MAX} jobs")
        workers, servers = self.members(of, "workers", WORKER), self.members(of, "servers", SERVER)
        found = Job(name, workers, servers, weight, demand)
        jobs.append(found)
        self.group(of, found)


def _read(root: Any, link_gbps: Optional[float], needs_hosts: bool) -> _Reader:
    if not isinstance(root, dict):
        raise FormatError("expected an object with nodes and links")
    reader = _Reader(link_gbps)
    _Object("", root, ROOT)
    reader.all_of(root, "nodes", _NODE, reader.node)
    reader.parents(root["nodes"])
    kinds = {node.kind for node in reader.network.nodes}
    if needs_hosts and WORKER not in kinds:
        raise FormatError(
            "nodes: no worker among them; --attach workers=8,servers=1 puts hosts on switches"
        )
    if needs_hosts and SERVER not in kinds:
        raise FormatError("nodes: no server among them; --attach servers=1 puts one on a switch")
    reader.all_of(root, "links", _LINK, reader.link)
    return reader


def read_network(root: Any, link_gbps: Optional[float] = None) -> Network:
    """Nodes and links; jobs are ignored, and no server is needed.

    `link_gbps`: of links that say none; None: that is an error.  FormatError: it makes no sense."""
    return _read(root, link_gbps, False).network


def read(root: Any, link_gbps: Optional[float] = None) -> Network:
    """Nodes, links and jobs; `link_gbps` as above.  FormatError: they make no sense."""
    reader = _read(root, link_gbps, True)
    if "jobs" in root:
        reader.all_of(root, "jobs", _JOB, reader.job)
    else:
        reader.network.add_all()
    split(reader.network)
    return reader.network
