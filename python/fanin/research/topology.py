# SPDX-License-Identifier: Apache-2.0
"""Nodes and links of a scenario, trees of switches, and paths."""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator, Optional, Sequence

from . import engine
from .fields import NAME_MAX, Field, Place, entries, read, stored

NODES_MAX, LINKS_MAX = 16384, 65536
RANKS_MAX = 256  # children of one switch in one job
WINDOW_MAX, WINDOW_QUOTA, AHEAD_MAX = 4096, 512, 32768
PAYLOAD_MIN, PAYLOAD_MAX, PAYLOAD_1500 = 64, 8832, 1408
SLOTS_MAX, JOBS_MAX = 65536, 64
HOPS_MAX = 24  # switches in a row
QUEUE_MAX = 0x7FFFFFFF

KINDS = ("worker", "switch", "server", "router")
POLICIES = ("switchml", "atp", "esa", "grid", "none")

_NODE = {
    "name": Field("name"),
    "kind": Field("word", words=KINDS),
    "count": Field("u32", 1, NODES_MAX),
    "gbps": Field("gbps", 1e-6, 1e5),
    "sums_gbps": Field("gbps", 1e-6, 1e5),
    "ecn_bytes": Field("u32", 0, QUEUE_MAX),
    "policy": Field("word", words=POLICIES),
    "server": Field("name"),
    "quota": Field("u32", 0, SLOTS_MAX),
    "free_early": Field("bool"),
    "preemption": Field("bool"),
    "ageing": Field("bool"),
    "priorities": Field("bool"),
    "reminders": Field("bool"),
    "slots": Field("u32", 1, SLOTS_MAX),
    "memory_frags": Field("u32", 0, 2 * SLOTS_MAX),
    "window": Field("u32", 2, WINDOW_MAX),
    "ahead_max": Field("u16", 0, AHEAD_MAX),
    "jobs": Field("u32", 1, JOBS_MAX),
    "buffer_bytes": Field("u32"),
    "multicast": Field("bool"),
    "parent": Field("name"),
    "payload_bytes": Field("u16", PAYLOAD_MIN, PAYLOAD_MAX),
}

_LINK = {
    "a": Field("names"),
    "b": Field("names"),
    "gbps": Field("gbps", 1e-6, 1e5),
    "back_gbps": Field("gbps", 1e-6, 1e5),
    "delay_us": Field("us", 0, 1e7),
    "queue_bytes": Field("u32", 64, QUEUE_MAX),
    "ecn_bytes": Field("u32", 0, QUEUE_MAX),
    "overhead_bytes": Field("u32", 0, 1000),
    "loss": Field("share", 0, 1),
    "loss_burst": Field("share", 0, 1),
    "loss_burst_us": Field("us", 0, 1e7),
    "duplicate": Field("share", 0, 1),
    "reorder": Field("share", 0, 1),
    "reorder_us": Field("us", 0, 1e7),
    "corrupt": Field("share", 0, 1),
    "jitter_us": Field("us", 0, 1e7),
}

# Keys that some kinds of nodes have no use for, and what is said of them there.
_SUMMING = "slots window jobs buffer_bytes multicast ahead_max parent".split()
_SWITCH = (
    "policy server quota free_early preemption ageing priorities sums_gbps memory_frags".split()
)
_ONLY: dict[str, tuple[Sequence[str], str]] = {
    **dict.fromkeys(_SUMMING, (("switch", "server"), "has none")),
    "reminders": (("switch", "server"), "sends none"),
    **dict.fromkeys(_SWITCH, (("switch",), "has none: only switches do")),
}


def words(table: dict[str, Field], key: str, given: Any) -> dict[str, Field]:
    """The table, with the words of `key` that this program knows beyond the usual ones."""
    value = given.get(key) if isinstance(given, dict) else None
    if not isinstance(value, str) or value in table[key].words:
        return table
    known = json.loads(engine.ask({"words": key}))
    return {**table, key: table[key]._replace(words=known["words"])}


class Node:
    """A node; `given` has its keys as stored, with defaults."""

    def __init__(self, name: str, values: dict[str, Any], entry: int) -> None:
        self.name, self.entry = name, entry  # the entry of "nodes" that it came from
        self.values = values
        self.kind: str = values["kind"]
        self.policy: str = values.get("policy", "switchml")
        self.server: Optional[int] = None  # the next hop; None: it completes its sums itself
        self.parent: Optional[int] = None  # in trees of switches
        self.children: list[int] = []
        self.server_name: str = values.pop("server", "")
        self.parent_name: str = values.pop("parent", "")
        self.placed = 0  # workers placed on it

    @property
    def shares(self) -> bool:
        """Is it a switch with shared slots, or a router on a route of a plan?"""
        return self.policy not in ("switchml", "none")

    @property
    def sums(self) -> bool:
        """Does it sum?"""
        return self.kind == "server" or (self.kind == "switch" and self.policy != "none")

    @property
    def forwards(self) -> bool:
        """Does it forward packets between other nodes?"""
        return self.kind in ("switch", "router")

    def flat(self) -> dict[str, Any]:
        """As the engine reads it."""
        keys = {"server": self.server, "parent": self.parent}
        found = stored(self.values)
        found.update((key, value) for key, value in keys.items() if value is not None)
        found.update(name=self.name, policy=self.policy)
        return found


def depths(to: int, near: Sequence[Sequence[int]], forwards: Sequence[bool]) -> list[int]:
    """By node, the number of links on a shortest path to `to`; -1: there is none.

    `near`: neighbours by node; `forwards`: whether it passes on what is for others."""
    found, level, depth = [-1] * len(near), [to], 0
    found[to] = 0
    while level:
        depth += 1
        after = []
        for at in level:
            for other in near[at]:
                if found[other] < 0:
                    found[other] = depth
                    if forwards[other]:
                        after.append(other)
        level = after
    return found


class Topology:
    """Nodes and links, and the paths between nodes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.by_name: dict[str, int] = {}
        self.links: list[dict[str, Any]] = []  # flat
        self.near: list[list[int]] = []  # neighbours by node
        self._depths: dict[int, list[int]] = {}
        self._parts: list[set[int]] = []

    def find(self, name: Any) -> Optional[int]:
        """The node with this name."""
        return self.by_name.get(name) if isinstance(name, str) else None

    # ---- trees ----

    def above(self, node: int, way: str) -> Iterator[int]:
        """The nodes above, the nearest first: by "parent", or by "server"."""
        up: Optional[int] = getattr(self.nodes[node], way)
        while up is not None:  # ends: no cycle
            yield up
            up = getattr(self.nodes[up], way)

    def root(self, node: int) -> int:
        """The node above all others of its tree."""
        return [node, *self.above(node, "parent")][-1]

    def below(self, root: int) -> list[int]:
        """The nodes of the tree of `root`, in the order of their numbers."""
        found, pending = [], [root]
        while pending:
            node = pending.pop()
            found.append(node)
            pending += self.nodes[node].children
        return sorted(found)

    def aggregator(self, node: int) -> int:
        """The node that completes a switch's sums: a server, or a switch."""
        return [node, *self.above(node, "server")][-1]

    # ---- paths: only switches and routers forward ----

    def index(self) -> None:
        """Prepare for questions about paths."""
        self.near = [[] for _ in self.nodes]
        for link in self.links:
            self.near[link["a"]].append(link["b"])
            self.near[link["b"]].append(link["a"])
        part, self._parts = 0, [set() for _ in self.nodes]
        for start, node in enumerate(self.nodes):
            if not node.forwards or self._parts[start]:
                continue
            part += 1
            self._parts[start] = {part}
            pending = [start]
            while pending:
                for other in self.near[pending.pop()]:
                    if part not in self._parts[other]:
                        self._parts[other].add(part)
                        if self.nodes[other].forwards:
                            pending.append(other)

    def reaches(self, a: int, b: int) -> bool:
        """Is there a path?"""
        return a == b or not self._parts[a].isdisjoint(self._parts[b]) or b in self.near[a]

    def depths(self, to: int) -> list[int]:
        """By node, the number of links on a shortest path to `to`; -1: there is none."""
        if to not in self._depths:
            self._depths[to] = depths(to, self.near, [node.forwards for node in self.nodes])
        return self._depths[to]

    def nearest(self, host: int, among: Iterable[int]) -> Optional[int]:
        """The node that is nearest to `host`, the first of several."""
        steps = ((self.depths(node)[host], node) for node in among)
        return min((one for one in steps if one[0] >= 0), default=(0, None), key=lambda s: s[0])[1]


# ---- nodes ----


def _check_keys(place: Place, values: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse keys that a node of this kind has no use for."""
    kind = values["kind"]
    for key in given:
        kinds, text = _ONLY.get(key, (KINDS, ""))
        if kind not in kinds and (given[key] or key not in _SUMMING):
            place.fail(key, f"a {kind} {text}")
    if values.get("ecn_bytes") and not values.get("gbps"):
        place.fail("ecn_bytes", "goes with gbps: else nothing waits there")
    if values.get("sums_gbps") and ("gbps" in values or values.get("ecn_bytes")):
        place.fail("sums_gbps", "goes without gbps and ecn_bytes")


def _shares(values: dict[str, Any]) -> bool:
    return values.get("policy", "switchml") not in ("switchml", "none")


def _count_slots(place: Place, values: dict[str, Any]) -> None:
    """The slots for which the memory has room: switchml has each slot twice."""
    frags, shares = values.pop("memory_frags", 0), _shares(values)
    if frags and values.get("slots"):
        place.fail("memory_frags", "goes without slots: it says how many")
    if frags:
        most = SLOTS_MAX if shares else 2 * SLOTS_MAX
        if frags > most:
            place.fail("memory_frags", f"{frags}: expected at most {most}")
        values["slots"] = frags if shares else frags // 2
    if values.get("slots", 2) < 2 - shares:
        policy = values.get("policy", "switchml")
        key = "memory_frags" if frags else "slots"
        place.fail(key, f"{frags or 1}: the policy {policy} needs two slots")


def _set_defaults(values: dict[str, Any]) -> None:
    server = values["kind"] == "server" or _shares(values)
    given = "window" in values
    values.setdefault("slots", SLOTS_MAX if values["kind"] == "server" else 4096)
    values.setdefault("window", WINDOW_MAX if server else WINDOW_QUOTA)
    share = values["slots"] // values.get("jobs", JOBS_MAX)
    if not server and not given and "jobs" in values and share < values["window"]:
        values["window"] = max(2, share)  # each its share
    values.setdefault("jobs", JOBS_MAX)
    values["payload_bytes"] = values.get("payload_bytes", PAYLOAD_1500) // 8 * 8
    values.setdefault("ahead_max", AHEAD_MAX)
    if "sums_gbps" in values:
        values["gbps"] = values["sums_gbps"]


def _read_node(top: Topology, place: Place, given: Any, entry: int) -> None:
    values = read(place, given, words(_NODE, "policy", given), "name", "kind")
    _check_keys(place, values, given)
    _count_slots(place, values)
    _set_defaults(values)
    name, count = values.pop("name"), values.pop("count", 0)
    for i in range(count or 1):
        mine = f"{name[:50]}{i}" if count else name
        if len(mine) > NAME_MAX:
            place.fail("name", "too long")
        if mine in top.by_name:
            place.fail("name", f'there are two nodes "{mine}"')
        if len(top.nodes) == NODES_MAX:
            place.fail("", f"more than {NODES_MAX} nodes")
        node = Node(mine, dict(values), entry)
        top.by_name[mine] = len(top.nodes)
        top.nodes.append(node)


# ---- parents and servers ----


def _completes(node: Node) -> bool:
    """Does the node complete sums, with or without slots in front of it?"""
    return (
        node.kind == "server" or node.policy == "switchml" or (node.shares and not node.server_name)
    )


def _read_parent(top: Topology, place: Place, i: int) -> None:
    node = top.nodes[i]
    up = top.find(node.parent_name)
    if up is None or top.nodes[up].kind not in ("switch", "server"):
        place.fail("parent", f'"{node.parent_name}": no switch or server of that name')
    if not _completes(node) or not _completes(top.nodes[up]):
        place.fail(
            "parent",
            'goes without "server", here and there: it is for those who complete sums themselves',
        )
    if i in (up, *top.above(up, "parent")):
        place.fail("parent", f'"{node.parent_name}" is below "{node.name}" itself')
    if len(top.nodes[up].children) == RANKS_MAX:
        place.fail("parent", f'"{node.parent_name}" has more than {RANKS_MAX} children')
    node.parent = up
    top.nodes[up].children.append(i)


def _read_parents(top: Topology, place: Place) -> None:
    for i, node in enumerate(top.nodes):
        if node.parent_name:
            _read_parent(top, place.inside(f"nodes[{node.entry}]"), i)
    for node in top.nodes:
        if node.parent is not None and len(top.nodes[node.parent].children) < 2:
            place.inside(f"nodes[{node.entry}]").fail(
                "parent", f'"{node.parent_name}" has one child only: it needs two'
            )


def _may_serve(node: Node, up: Node) -> bool:
    """May "server" of `node` name `up`?

    Switches without shared slots have no use for the key and take one of their own policy, so that
    a sweep over policies needs no other change."""
    if up.kind == "server" or up.shares:
        return True
    return up.kind == "switch" and not node.shares and node.policy == up.policy


def _read_server(top: Topology, place: Place, i: int) -> None:
    node = top.nodes[i]
    up = top.find(node.server_name)
    if up is None or not _may_serve(node, top.nodes[up]):
        place.fail(
            "server", f'"{node.server_name}": no server or switch with shared slots of that name'
        )
    if i in (up, *top.above(up, "server")):
        place.fail("server", f'"{node.server_name}" leads to "{node.name}" itself')
    node.server = None if node.policy == "switchml" else up


def _read_servers(top: Topology, place: Place) -> None:
    named = [
        (i, place.inside(f"nodes[{n.entry}]")) for i, n in enumerate(top.nodes) if n.server_name
    ]
    for i, at in named:
        _read_server(top, at, i)
    for i, at in named:
        if sum(top.nodes[k].shares for k in (i, *top.above(i, "server"))) > HOPS_MAX:
            at.fail("server", f"more than {HOPS_MAX} switches in a row")


# ---- links ----


def _fitting(top: Topology, pattern: str) -> Sequence[int]:
    """The nodes whose names fit "w3" or "w*"."""
    if pattern.endswith("*"):
        return [i for i, node in enumerate(top.nodes) if node.name.startswith(pattern[:-1])]
    found = top.find(pattern)
    return [] if found is None else [found]


def _read_link(top: Topology, place: Place, given: Any) -> None:
    values = read(place, given, _LINK, "a", "b", "gbps")
    a, b = values.pop("a"), values.pop("b")
    flat, before = stored(values), len(top.links)
    ends = _fitting(top, b)
    for i in _fitting(top, a):
        for k in ends:
            if i == k:
                continue
            if len(top.links) == LINKS_MAX:
                place.fail("", f"more than {LINKS_MAX} links")
            top.links.append({"a": i, "b": k, **flat})
    if len(top.links) > before:
        return
    if a == b:
        place.fail("", f'leads from "{a}" to itself')
    for key, name in (("a", a), ("b", b)):
        if not _fitting(top, name):
            place.fail(key, f'no node "{name}"')
    place.fail("", "joins no two nodes")


def _check_links(top: Topology, place: Place) -> None:
    """Check that no two links join the same nodes, and that links connect all, if through hosts."""
    ends = sorted((min(x["a"], x["b"]), max(x["a"], x["b"])) for x in top.links)
    for one, other in zip(ends, ends[1:]):
        if one == other:
            low, high = (top.nodes[i].name for i in one)
            place.fail("links", f'two links between "{low}" and "{high}"')
    reached, pending = {0}, [0]
    while pending:
        for other_end in top.near[pending.pop()]:
            if other_end not in reached:
                reached.add(other_end)
                pending.append(other_end)
    for i, node in enumerate(top.nodes):
        if i not in reached:
            place.fail("links", f'no path from "{top.nodes[0].name}" to "{node.name}"')


def topology(place: Place, given: Any) -> Topology:
    """Read and check nodes and links."""
    top = Topology()
    read(place, given, {"nodes": Field("other"), "links": Field("other")})
    for i, (at, item) in enumerate(entries(place, given, "nodes", NODES_MAX, 1)):
        _read_node(top, at, item, i)
    _read_parents(top, place)
    _read_servers(top, place)
    for at, item in entries(place, given, "links", LINKS_MAX, 1):
        _read_link(top, at, item)
    top.index()
    _check_links(top, place)
    return top
