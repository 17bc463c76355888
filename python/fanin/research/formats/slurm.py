# SPDX-License-Identifier: Apache-2.0
"""Slurm's topology.conf and topology.yaml: switches of a tree, and the nodes below them.

Nodes become workers.  Slurm says nothing of rates (its LinkSpeed has no unit, and Slurm does not use
it), so --rate gives them.  Blocks, rings and toruses say which nodes are near, not how they are
linked, and are refused.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Optional

from .graph import Graph
from .network import NODES_MAX, FormatError

RANGES_MAX = 64  # brackets of a name

_PART = re.compile(r"(?:[^\[\],]|\[[^\[\]]{0,65536}\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_LINES = re.compile(r"(?mi)^[ \t]*(SwitchName|BlockName|BlockSizes|RingName)=")
_KINDS = ("block", "ring", "torus3d", "flat")


def _numbers(text: str, name: str) -> Iterator[str]:
    """ "0-2,07" as 0, 1, 2, 07: a range keeps the zeros of its first number."""
    for word in text.split(","):
        found = _RANGE.fullmatch(word.strip())
        if not found:
            raise FormatError(f'"{name[:40]}": expected numbers and ranges, as in tux[0-15,20]')
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first >= NODES_MAX:
            raise FormatError(f'"{name[:40]}": more than {NODES_MAX} names')
        for value in range(first, last + 1):
            yield f"{value:0{len(found[1])}d}"


def expand(text: str) -> list[str]:
    """The names of a hostlist, as "tux[0-15,20],login" or "r[1-2]n[1-4]"."""
    found: list[str] = []
    for part in _PART.findall(text):
        names = [""]
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        if len(pieces) > 2 * RANGES_MAX:
            raise FormatError(f'"{part[:40]}": more than {RANGES_MAX} brackets')
        for i, piece in enumerate(pieces):
            ends = list(_numbers(piece, part)) if i % 2 else [piece]
            if len(names) * len(ends) + len(found) > NODES_MAX:
                raise FormatError(f'"{part[:40]}": more than {NODES_MAX} names')
            names = [name + end for name in names for end in ends]
        found += [name for name in names if name.strip()]
    if "[" in re.sub(r"\[[^\[\]]*\]", "", text):
        raise FormatError(f'"{text[:40]}": a bracket that is not closed')
    return found


def _tree(rows: list[tuple[str, str, str]]) -> Graph:
    """The graph of switches, each with its children and its nodes as hostlists."""
    graph = Graph()
    for name, _, _ in rows:
        graph.node(name, {})
    for name, children, nodes in rows:
        for child in expand(children):
            if child not in graph.nodes:
                raise FormatError(f'switch "{name[:63]}": no switch "{child[:63]}"')
            graph.edge(name, child, False, {})
        for node in expand(nodes):
            if node not in graph.nodes:
                graph.node(node, {"kind": "worker"})
            elif "kind" not in graph.nodes[node]:
                raise FormatError(f'"{node[:63]}" is a switch and a node')
            graph.edge(name, node, False, {})
    return graph


def _refuse(kind: str) -> None:
    raise FormatError(
        f"a topology of the kind {kind}: it says which nodes are near, not how they are linked; "
        "a tree of switches is read"
    )


def is_conf(text: str) -> bool:
    """Does it look like topology.conf?"""
    return bool(_LINES.search(text))


def read_conf(text: str) -> Graph:
    """topology.conf of topology/tree."""
    rows = []
    lines = text.replace("\\\n", " ").split("\n")
    for i, line in enumerate(lines):
        words = (word.partition("=") for word in line.partition("#")[0].split())
        pairs = {key.lower(): value.strip('"') for key, _, value in words}
        if "blockname" in pairs or "ringname" in pairs:
            _refuse("block" if "blockname" in pairs else "ring")
        if "switchname" in pairs:
            if "[" in pairs["switchname"]:
                raise FormatError(f"line {i + 1}: SwitchName: expected one name")
            rows.append((pairs["switchname"], pairs.get("switches", ""), pairs.get("nodes", "")))
    return _tree(rows)


def is_yaml(root: Any) -> bool:
    """Is it topology.yaml?"""
    return isinstance(root, list) and bool(root) and isinstance(root[0], dict) and (
        "topology" in root[0]
    )  # fmt: skip


def _text(switch: dict[str, Any], key: str) -> str:
    value: Optional[Any] = switch.get(key)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value or "")


def read_yaml(root: Any) -> Graph:
    """The tree of topology.yaml; of several topologies, that which is cluster_default."""
    trees = [one for one in root if isinstance(one, dict) and isinstance(one.get("tree"), dict)]
    if not trees:
        _refuse(next((kind for kind in _KINDS for one in root if kind in one), "none"))
    chosen = next((one for one in trees if one.get("cluster_default") is True), trees[0])
    switches = chosen["tree"].get("switches")
    if not isinstance(switches, list) or not all(isinstance(one, dict) for one in switches):
        raise FormatError("tree.switches: expected a list of switches")
    rows = [(str(s.get("switch", "")), _text(s, "children"), _text(s, "nodes")) for s in switches]
    graph = _tree(rows)
    if len(root) > 1:
        graph.notes.append(f'topology "{chosen.get("topology")}" of {len(root)}')
    return graph
