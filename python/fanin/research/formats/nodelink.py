# SPDX-License-Identifier: Apache-2.0
"""JSON of nodes and links with "source" and "target": networkx's node-link, D3, topohub, FNSS."""

from __future__ import annotations

from typing import Any

from .graph import Attributes, Graph, unit_gbps
from .network import FormatError


def is_node_link(root: Any) -> bool:
    """Is it a graph, rather than a network in the form of network.py?"""
    if not isinstance(root, dict) or not isinstance(root.get("nodes"), list):
        return False
    links = root.get("edges", root.get("links"))
    first = links[0] if isinstance(links, list) and links else {}
    return "edges" in root or "multigraph" in root or isinstance(first, dict) and "source" in first


def _key(place: str, value: Any) -> Any:
    """An identifier: JSON has networkx's tuples as lists."""
    if isinstance(value, list) and len(value) < 64:
        return tuple(_key(place, one) for one in value)
    if value is None or isinstance(value, (dict, list)):
        raise FormatError(f"{place}: expected the identifier of a node")
    return value


def _object(place: str, value: Any) -> Attributes:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object")
    return value


def read(root: Any) -> Graph:
    """Nodes and edges.  FormatError: it is no such graph."""
    graph = Graph()
    whole = root.get("graph")
    if isinstance(whole, list):  # networkx 1 has pairs
        whole = {pair[0]: pair[1] for pair in whole if isinstance(pair, list) and len(pair) == 2
                 and isinstance(pair[0], str)}  # fmt: skip
    unit = unit_gbps(str(whole.get("capacity_unit"))) if isinstance(whole, dict) else None
    if unit:
        graph.units["capacity"] = unit
    by_number = []
    for i, one in enumerate(root["nodes"]):
        of = _object(f"nodes[{i}]", one)
        by_number.append(_key(f"nodes[{i}].id", of.get("id", of.get("name"))))
        graph.node(by_number[-1], of)
    key = "edges" if "edges" in root else "links"
    links = root.get(key)
    if not isinstance(links, list):
        raise FormatError(f"{key}: expected a list")
    for i, one in enumerate(links):
        of = _object(f"{key}[{i}]", one)
        ends = [_key(f"{key}[{i}].{end}", of.get(end)) for end in ("source", "target")]
        if all(type(end) is int and end not in graph.nodes for end in ends):
            ends = [by_number[end] if 0 <= end < len(by_number) else end for end in ends]  # D3
        graph.edge(ends[0], ends[1], root.get("directed") is True, of)
    return graph
