# SPDX-License-Identifier: Apache-2.0
"""Networks made from a few numbers and a seed, and hosts for networks that have none.

"fat-tree:k=8,workers=100,programmable=0.2" has a shape and numbers; those that are left out have
the shape's defaults.  Workers are named W1, W2, ..., servers PS1, ..., switches S1, S2, ...; in a
fat-tree racks R1, ..., aggregation switches A1, ..., and cores C1, ...; routers of a dragonfly D1,
..., and switches that hosts of rails are linked with T1, ...
"""

from __future__ import annotations

import math
from typing import Callable, NamedTuple

from .graph import number
from .network import (
    GBPS_MAX,
    GBPS_MIN,
    NODES_MAX,
    SERVER,
    SWITCH,
    WORKER,
    FormatError,
    Link,
    Network,
    Node,
)

PLACES_MAX = 1 << 20  # for hosts
_MASK = (1 << 64) - 1
_SHOWN, _WORD = 20, 32  # characters of a text in an error


class Random:
    """Random numbers from a seed, as src/core/base/rng.h draws them (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def next(self) -> int:
        """0 .. 2^64 - 1"""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        return z ^ z >> 31

    def unit(self) -> float:
        """0 <= x < 1"""
        return (self.next() >> 11) * 2.0**-53

    def shuffle(self, numbers: list[int]) -> None:
        """Permute them at random."""
        for i in range(len(numbers), 1, -1):
            k = self.next() % i
            numbers[k], numbers[i - 1] = numbers[i - 1], numbers[k]


class _Number(NamedTuple):
    """A row: a number's default and bounds."""

    default: float
    least: float
    most: float
    is_whole: bool = True


_NUMBERS = {
    "k": _Number(4, 2, 64),  # fat-tree: ports of a switch, even
    "leaves": _Number(4, 1, 1024),  # leaf-spine
    "spines": _Number(2, 1, 1024),  # leaf-spine, rails
    "groups": _Number(0, 1, 1024),  # dragonfly: of routers; rails: of hosts that share switches
    "routers": _Number(4, 1, 1024),  # dragonfly: routers of a group
    "global": _Number(2, 1, 1024),  # dragonfly: most links of a router to other groups
    "rails": _Number(4, 1, 64),  # rails: links of a host
    "hosts": _Number(0, 0, 4096),  # places under a rack switch; 0: k/2, or as many as needed
    "workers": _Number(8, 1, NODES_MAX),
    "servers": _Number(1, 1, 1024),
    "root": _Number(0, 0, 1),  # 1: one more server, ROOT, is the parent of the others
    "link": _Number(100, GBPS_MIN, GBPS_MAX, False),  # of every link
    "server": _Number(100, GBPS_MIN, GBPS_MAX, False),  # what a server takes in
    "switch": _Number(100, GBPS_MIN, GBPS_MAX, False),  # what a switch can sum, from this
    "switch_max": _Number(0, GBPS_MIN, GBPS_MAX, False),  # to this
    "programmable": _Number(1, 0, 1, False),  # share of switches that can sum; they are drawn
    "seed": _Number(1, 0, 9e15),  # of these drawings, and of the hosts' places
    "largest": _Number(0, 0, 1),  # of hosts to attach: keep only the largest piece of a network
}
_ATTACHED = ("workers", "servers", "link", "server", "switch", "switch_max", "programmable",
             "seed", "largest")  # fmt: skip


class Numbers:
    """The numbers of a shape, by name; those that were given are in `given`."""

    def __init__(self, text: str) -> None:
        self._values = {name: float(row.default) for name, row in _NUMBERS.items()}
        self.given: set[str] = set()
        for word in text.split(","):
            self._take(word)

    def _take(self, word: str) -> None:
        """Take a number, as "k=8"."""
        name, equals, given = word.partition("=")
        if not equals:
            raise FormatError(f'expected NAME=NUMBER at "{word[:_SHOWN]}"')
        if name not in _NUMBERS:
            known = ", ".join(list(_NUMBERS)[:-2])
            raise FormatError(f'"{name[:_WORD]}": expected {known} or seed')
        row, value = _NUMBERS[name], number(given)
        if value is None or not row.least <= value <= row.most or row.is_whole and value % 1:
            kind = "whole number" if row.is_whole else "number"
            raise FormatError(f"{name}: expected a {kind} from {row.least:g} to {row.most:g}")
        self._values[name] = value
        self.given.add(name)

    def set(self, name: str, value: float) -> None:
        """Replace one that was not given."""
        if name not in self.given:
            self._values[name] = float(value)

    def real(self, name: str) -> float:
        """Its value."""
        return self._values[name]

    def whole(self, name: str) -> int:
        """Its value."""
        return int(self._values[name])

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return self.whole("workers") + self.whole("servers") + self.whole("root")


class _Maker:
    """A network that is being built."""

    def __init__(self, network: Network, numbers: Numbers) -> None:
        self.network, self.numbers = network, numbers
        self.random = Random(numbers.whole("seed"))
        self.racks: list[int] = []  # by place for a host: its switch, or the first of its rails
        self.rails = 1  # links of a host

    def switches(self, letter: str, count: int) -> None:
        """Add switches."""
        for i in range(count):
            self.network.add_node(Node(f"{letter}{i + 1}", SWITCH))

    def link(self, a: int, b: int) -> Link:
        """Add a link."""
        return self.network.add_link(a, b, self.numbers.real("link"))

    def choose_capacities(self) -> None:
        """Draw the switches that can sum, and their capacities.  The others cannot."""
        least, most = self.numbers.real("switch"), self.numbers.real("switch_max")
        nodes = self.network.nodes
        order = [i for i, node in enumerate(nodes) if node.kind == SWITCH]
        for i in order:
            nodes[i].gbps = 0.0
        share = self.numbers.real("programmable") * len(order)
        some = math.floor(share) + (share - math.floor(share) >= 0.5)
        self.random.shuffle(order)
        for i in order[:some]:
            u = self.random.unit()
            nodes[i].gbps = least + u * (most - least) if most > least else least

    def places(self, racks: int, each: int) -> None:
        """Places for hosts under the first switches, in turn; `each` 0: as many as are needed."""
        each = each or -(-self.numbers.hosts // racks)
        if each * racks > PLACES_MAX:
            raise FormatError(f"hosts: {each} under each of {racks}, and all have {PLACES_MAX}")
        self.racks = [i % racks * self.rails for i in range(each * racks)]

    def host(self, name: str, kind: str, rack: int) -> None:
        """Add a host and its links."""
        gbps = self.numbers.real("server") if kind == SERVER else 0.0
        number = self.network.add_node(Node(name, kind, gbps))
        for rail in range(self.rails):
            self.link(number, rack + rail)

    def add_hosts(self, racks: int) -> None:
        """Add all hosts at random places."""
        workers, servers = self.numbers.whole("workers"), self.numbers.whole("servers")
        self.random.shuffle(self.racks)
        if self.numbers.whole("root"):
            self.racks[:workers] = sorted(self.racks[:workers])
        for i in range(workers):
            self.host(f"W{i + 1}", WORKER, self.racks[i])
        for i in range(servers):
            self.host(f"PS{i + 1}", SERVER, self.racks[workers + i])
        if self.numbers.whole("root"):
            root = self.network.add_node(Node("ROOT", SERVER, self.numbers.real("server")))
            for node in self.network.nodes[root - servers : root]:
                node.parent = root
            self.link(root, self.racks[workers + servers])

    def check_places(self, racks: int, is_fat_tree: bool) -> None:
        """Refuse more hosts than places, and say which numbers would fit."""
        hosts, places, servers = self.numbers.hosts, len(self.racks), self.numbers.whole("servers")
        if hosts <= places:
            return
        fewer = f"workers={places - servers}, or " if places > servers else ""
        wider = f"hosts={-(-hosts // racks)}"
        if is_fat_tree and not self.numbers.whole("hosts"):
            wider = f"k={next(k for k in range(2, NODES_MAX, 2) if k**3 // 4 >= hosts)}"
        raise FormatError(f"too many: {hosts} hosts, places for {places}; {fewer}{wider}")


# ---- shapes: each adds switches, links and places, and returns how many racks there are ----


def _plain(make: _Maker, count: int) -> int:
    make.switches("S", count)
    for i in range(count):
        for j in range(i + 1, count):
            make.link(i, j)
    make.places(count, make.numbers.whole("hosts"))
    return count


def _star(make: _Maker) -> int:
    return _plain(make, 1)


def _triangle(make: _Maker) -> int:
    return _plain(make, 3)


def _leaf_spine(make: _Maker) -> int:
    leaves, spines = make.numbers.whole("leaves"), make.numbers.whole("spines")
    make.switches("L", leaves)
    make.switches("S", spines)
    for i in range(leaves * spines):
        make.link(i // spines, leaves + i % spines)
    make.places(leaves, make.numbers.whole("hosts"))
    return leaves


def _fat_tree(make: _Maker) -> int:
    """k pods of k/2 racks and k/2 aggregation switches, and (k/2)^2 cores."""
    k = make.numbers.whole("k")
    half, racks = k // 2, k * (k // 2)
    if k % 2:
        raise FormatError("k: expected an even number")
    for letter, count in (("R", racks), ("A", racks), ("C", half * half)):
        make.switches(letter, count)
    for a in range(racks):
        for i in range(half):
            make.link(a // half * half + i, racks + a)
        for i in range(half):
            make.link(racks + a, 2 * racks + a % half * half + i)
    make.places(racks, make.numbers.whole("hosts") or half)
    return racks


def _dragonfly(make: _Maker) -> int:
    """Groups of routers that are all linked, and one link between any two groups."""
    routers, spread = make.numbers.whole("routers"), make.numbers.whole("global")
    most = routers * spread + 1
    groups = make.numbers.whole("groups") or most
    if groups > most:
        raise FormatError(
            f"groups: {routers} routers with {spread} global links each join {most} groups; "
            f"groups={most}, or global={(groups - 2) // routers + 1}"
        )
    make.switches("D", groups * routers)
    for i in range(groups * routers):
        for j in range(i + 1, (i // routers + 1) * routers):
            make.link(i, j)

    def router_to(group: int, other: int) -> int:
        """The router of a group with the link to its `other`th other group, spread evenly."""
        return group * routers + other * routers // (groups - 1)

    for g in range(groups):
        for h in range(g + 1, groups):
            make.link(router_to(g, h - 1), router_to(h, g))
    make.places(groups * routers, make.numbers.whole("hosts"))
    return groups * routers


def _rails(make: _Maker) -> int:
    """Each host linked with several switches, and these with each spine."""
    make.rails, spines = make.numbers.whole("rails"), make.numbers.whole("spines")
    groups = make.numbers.whole("groups") or 1
    switches = groups * make.rails
    make.switches("T", switches)
    make.switches("S", spines)
    for i in range(switches * spines):
        make.link(i // spines, switches + i % spines)
    make.places(groups, make.numbers.whole("hosts"))
    return groups


SHAPES: dict[str, Callable[[_Maker], int]] = {
    "star": _star,
    "triangle": _triangle,
    "leaf-spine": _leaf_spine,
    "fat-tree": _fat_tree,
    "dragonfly": _dragonfly,
    "rails": _rails,
}


def is_made(source: str) -> bool:
    """Does it describe a network made from numbers, rather than name a file?"""
    return source.partition(":")[0] in SHAPES


def make(source: str, needs_server: bool) -> Network:
    """Nodes and links.  Without `needs_server` there is a server only if asked for.

    FormatError: no such shape or number, or no room for that many hosts."""
    shape, colon, text = source.partition(":")
    if shape not in SHAPES:
        raise FormatError("expected star, triangle, leaf-spine, fat-tree, dragonfly or rails")
    numbers = Numbers(text) if colon else Numbers("k=4")
    if numbers.whole("largest"):
        raise FormatError("largest: only where hosts are attached")
    if not needs_server:
        numbers.set("servers", 0)
    maker = _Maker(Network(), numbers)
    racks = SHAPES[shape](maker)
    maker.choose_capacities()
    maker.check_places(racks, shape == "fat-tree")
    maker.add_hosts(racks)
    return maker.network


# ---- hosts for a network that has none ----


class Attach:
    """Hosts such as "workers=8,servers=2,switch=100", put on the switches in turn, in random order.

    A network with workers gets more of them only if "workers" is given."""

    def __init__(self, text: str) -> None:
        for word in filter(None, text.split(",")):
            name = word.partition("=")[0]
            if name not in _ATTACHED:
                known = ", ".join(_ATTACHED[:-1])
                raise FormatError(f'"{name[:_WORD]}": expected {known} or {_ATTACHED[-1]}')
        self.numbers = Numbers(text)
        self.numbers.set("server", 0)  # no limit but its link

    @property
    def link_gbps(self) -> float | None:
        """Of links without a rate; None: a host's link is as fast as the fastest of its switch."""
        return self.numbers.real("link") if "link" in self.numbers.given else None

    def add(self, network: Network) -> None:
        """Add the hosts.  FormatError: no switch, a network in pieces, or too many nodes."""
        _keep_whole(network, bool(self.numbers.whole("largest")))
        make = _Maker(network, self.numbers)
        make.racks = [i for i, node in enumerate(network.nodes) if node.kind == SWITCH]
        if not make.racks:
            raise FormatError("no switch that hosts could be attached to")
        if "switch" in self.numbers.given:
            make.choose_capacities()
        make.random.shuffle(make.racks)
        fastest: dict[int, float] = {}
        for link in network.links:
            for end in (link.a, link.b):
                fastest[end] = max(fastest.get(end, 0.0), link.gbps)
        servers, workers = self.numbers.whole("servers"), self.numbers.whole("workers")
        if "workers" not in self.numbers.given and network.members(WORKER):
            workers = 0
        self._add(make, fastest, "PS", servers, 0)
        self._add(make, fastest, "W", workers, servers)

    def _add(
        self, make: _Maker, fastest: dict[int, float], word: str, count: int, first: int
    ) -> None:
        """Add hosts to the switches in turn, from place `first` on, with unused numbers."""
        names, number = {node.name for node in make.network.nodes}, 0
        for i in range(count):
            number += 1
            while f"{word}{number}" in names:
                number += 1
            rack = make.racks[(first + i) % len(make.racks)]
            make.numbers.set("link", fastest.get(rack, _NUMBERS["link"].default))
            make.host(f"{word}{number}", SERVER if word == "PS" else WORKER, rack)


def _pieces(network: Network) -> list[int]:
    """By node: the first node of its piece."""
    near: list[list[int]] = [[] for _ in network.nodes]
    for link in network.links:
        near[link.a].append(link.b)
        near[link.b].append(link.a)
    of = [-1] * len(near)
    for first in range(len(near)):
        pending = [first] if of[first] < 0 else []
        while pending:
            node = pending.pop()
            if of[node] < 0:
                of[node] = first
                pending += near[node]
    return of


def _keep_whole(network: Network, largest: bool) -> None:
    """Check that the network is connected or, if `largest`, keep only its largest piece."""
    of = _pieces(network)
    size: dict[int, int] = {}
    kept = 0
    for piece in of:  # of several as large, the one whose last node comes first
        size[piece] = size.get(piece, 0) + 1
        kept = piece if size[piece] > size.get(kept, 0) else kept
    if len(size) == 1:
        return
    if not largest:
        nodes = network.nodes
        other = nodes[next(i for i, piece in enumerate(of) if piece != kept)].name
        raise FormatError(
            f"the network is in {len(size)} pieces: {size[kept]} of its {len(nodes)} nodes hang "
            f'together with "{nodes[kept].name}", but not "{other}"; add links, or attach hosts '
            "with largest=1 and leave out the rest"
        )
    now = {old: new for new, old in enumerate(i for i, piece in enumerate(of) if piece == kept)}
    network.links = [link for link in network.links if of[link.a] == kept]
    for link in network.links:
        link.a, link.b = now[link.a], now[link.b]
    network.nodes = [network.nodes[i] for i in now]
    for node in network.nodes:
        node.parent = None if node.parent is None else now.get(node.parent)
