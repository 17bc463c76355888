# SPDX-License-Identifier: Apache-2.0
"""Networks of other simulators and emulators: HPCC's and SimAI's text, ASTRA-sim's and
containerlab's YAML."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from .graph import Attributes, Graph, rate_gbps, time_us
from .network import LINKS_MAX, NODES_MAX, FormatError

BITS_A_BYTE = 8
_HEAD = re.compile(r"\s*\d{1,9}(?:[ \t]+\d{1,9}){2,4}(?:[ \t]+[A-Za-z]\w{0,31})?[ \t]*\r?\n")
_LINK = re.compile(r"\d{1,9}\s+\d{1,9}\s+[\d.]{1,18}[kMGT]?bps\s")
DIMENSIONS_MAX = 8

# ---- HPCC, SimAI: a line of counts, one of switches, one a link ----


def is_text(text: str) -> bool:
    """Does it look like a topology of HPCC or SimAI?"""
    head = text[: 1 << 20].lstrip().split("\n", 3)
    return bool(_HEAD.match(head[0] + "\n")) and any(_LINK.match(line) for line in head[1:])


def read_text(text: str) -> Graph:
    """Nodes by number: those that are no switches are workers."""
    lines = [line.split() for line in text.split("\n", LINKS_MAX + 3) if line.strip()]
    counts = [int(word) for word in lines[0] if word.isdigit()]
    # HPCC: nodes, switches, links; SimAI: nodes, GPUs a host, NVSwitches, switches, links, GPU
    nodes, switches = counts[0], counts[1] if len(counts) < 5 else counts[2] + counts[3]
    if nodes > NODES_MAX or counts[-1] > LINKS_MAX:
        raise FormatError(f"more than {NODES_MAX} nodes or {LINKS_MAX} links")
    numbers = {int(word) for word in lines[1] if word.isdigit()} if switches else set()
    rows = lines[2:] if switches or not _LINK.match(" ".join(lines[1]) + " ") else lines[1:]
    if len(numbers) != switches or len(rows) < counts[-1]:
        raise FormatError(
            f"{len(numbers)} switches and {len(rows)} links in it, where its first line has "
            f"{switches} and {counts[-1]}"
        )
    graph, more = Graph(), len(rows) - counts[-1]
    if more:
        graph.notes.append(f"{more} lines behind the last link left out, as the simulator does")
    for i in range(nodes):
        graph.node(i, {"label": f"S{i}"} if i in numbers else {"label": f"W{i}", "kind": "worker"})
    for row in rows[: counts[-1]]:
        gbps = rate_gbps(row[2]) if len(row) > 3 and row[0].isdigit() and row[1].isdigit() else None
        if gbps is None or not int(row[0]) < nodes > int(row[1]):
            raise FormatError(f'"{" ".join(row)[:60]}": expected two nodes, a rate and a delay')
        graph.edge(
            int(row[0]), int(row[1]), False, {"gbps": gbps, "delay_us": time_us(row[3]) or 0}
        )
    return graph


# ---- ASTRA-sim: dimensions, each a ring, a switch, or all linked with all ----


def is_astra(root: Any) -> bool:
    """Is it a network of ASTRA-sim's analytical simulator?"""
    return isinstance(root, dict) and "npus_count" in root and "topology" in root


def _ends(shape: str, count: int) -> list[tuple[int, int]]:
    """The links among members 0, 1, ... of a group; `count` stands for its switch."""
    if shape == "Ring":
        return [(i, (i + 1) % count) for i in range(count if count > 2 else count - 1)]
    if shape == "FullyConnected":
        return [(i, j) for i in range(count) for j in range(i + 1, count)]
    if shape == "Switch":
        return [(i, count) for i in range(count)]
    raise FormatError(f'topology: "{shape[:40]}": expected Ring, FullyConnected or Switch')


def _dimensions(root: Any) -> list[tuple[str, int, float, float]]:
    lists = [root.get(key) for key in ("topology", "npus_count", "bandwidth", "latency")]
    count = len(lists[0]) if isinstance(lists[0], list) else 0
    for key, items in zip(("topology", "npus_count", "bandwidth", "latency"), lists):
        kinds = {"topology": str, "npus_count": int}.get(key, (int, float))
        if not isinstance(items, list) or len(items) != count or not 0 < count <= DIMENSIONS_MAX:
            raise FormatError(f"{key}: expected a list, as long as topology's")
        if not all(isinstance(item, kinds) and item is not True for item in items):
            raise FormatError(f"{key}: expected a list of {'names' if kinds is str else 'numbers'}")
    found = [(s, n, b * BITS_A_BYTE, t / 1e3) for s, n, b, t in zip(*lists)]
    if not all(2 <= n <= NODES_MAX for _, n, _, _ in found) or prod(lists[1]) > NODES_MAX // 2:
        raise FormatError(f"npus_count: expected 2 to {NODES_MAX // 2}, all dimensions multiplied")
    if any(
        shape == "FullyConnected" and n * prod(lists[1]) > 2 * LINKS_MAX for shape, n, _, _ in found
    ):
        raise FormatError(f"FullyConnected: more than {LINKS_MAX} links")
    return found


def read_astra(root: Any) -> Graph:
    """NPUs, and a switch for each that passes on what is for others: with several dimensions, or
    without a switch, NPUs do that, and workers here do not.  GB/s are of a link's direction."""
    rows, graph = _dimensions(root), Graph()
    npus = prod(count for _, count, _, _ in rows)
    passes = len(rows) > 1 or rows[0][0] != "Switch"
    own = "npu%d.port" if passes else "npu%d"
    for i in range(npus):
        graph.node(f"npu{i}", {"kind": "worker"})
        if passes:
            graph.node(own % i, {})
    of_npu, stride = 0.0, 1
    for d, (shape, count, gbps, delay_us) in enumerate(rows):
        ends = _ends(shape, count)
        of_npu += gbps * {"Ring": min(2, count - 1), "Switch": 1}.get(shape, count - 1)
        of: Attributes = {"gbps": gbps, "delay_us": delay_us}
        for first in range(npus):
            if first // stride % count:
                continue
            switch = f"dim{d}.switch{first}"
            if shape == "Switch":
                graph.node(switch, {})
            names = [own % (first + i * stride) for i in range(count)] + [switch]
            for a, b in ends:
                graph.edge(names[a], names[b], False, of)
        stride *= count
    for i in range(npus if passes else 0):
        graph.edge(f"npu{i}", own % i, False, {"gbps": of_npu})
    if passes:
        graph.notes.append("each NPU is a worker at a port of its own, which passes traffic on")
    return graph


# ---- containerlab ----

_OUTSIDE = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")


def is_containerlab(root: Any) -> bool:
    """Is it a topology of containerlab?"""
    topology = root.get("topology") if isinstance(root, dict) else None
    return isinstance(topology, dict) and "nodes" in topology


def _end(end: Any) -> str:
    """The node of "node:interface", or of an object with both."""
    if isinstance(end, dict):
        end = f'{end.get("node")}:'
    node = end.partition(":")[0] if isinstance(end, str) else ""
    if not node:
        raise FormatError("links: expected endpoints: [NODE:INTERFACE, NODE:INTERFACE]")
    return node


def read_containerlab(root: Any) -> Graph:
    """Nodes and links; those of the kind linux with one link are workers."""
    topology, graph, outside = root["topology"], Graph(), 0
    nodes = topology["nodes"]
    if not isinstance(nodes, dict):
        raise FormatError("topology.nodes: expected an object")
    defaults = topology.get("defaults")
    kind = defaults.get("kind") if isinstance(defaults, dict) else None
    for name, of in nodes.items():
        own = of.get("kind", kind) if isinstance(of, dict) else kind
        graph.node(name, {"linux": own == "linux"})
    degree: dict[str, int] = {}
    for link in topology.get("links") or []:
        ends = link.get("endpoints") if isinstance(link, dict) else None
        if isinstance(link, dict) and link.get("type", "veth") in _OUTSIDE:
            outside += 1
            continue
        if not isinstance(ends, list) or len(ends) != 2:
            raise FormatError("links: expected endpoints: [NODE:INTERFACE, NODE:INTERFACE]")
        a, b = map(_end, ends)
        if {a, b} & {*_OUTSIDE} - {*graph.nodes}:
            outside += 1
            continue
        graph.edge(a, b, False, {})
        for end in (a, b):
            degree[end] = degree.get(end, 0) + 1
    for name, of in graph.nodes.items():
        if of["linux"] and degree.get(name) == 1:
            of["kind"] = "worker"
    if outside:
        graph.notes.append(f"{outside} links to what is outside of the lab left out")
    return graph
