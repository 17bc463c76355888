# SPDX-License-Identifier: Apache-2.0
"""GML, as networkx, igraph, yEd, Gephi and the Topology Zoo write it: graph [ node [ ] edge [ ] ]."""

from __future__ import annotations

import re
from typing import Any

from .graph import Graph
from .network import FormatError

DEPTH_MAX, VALUES_MAX, TEXT_MAX = 32, 1 << 21, 255

_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(\#[^\n]*)|([A-Za-z_]\w*)(?=[\s\[])|(\[)|(\])|\"([^\"]*)\"|([+-]?[\d.][\w.+-]*)|)",
    re.ASCII,
)
_BEGIN = re.compile(r"(?:^|\s)graph\s*\[")

_List = dict[str, list[Any]]  # values by key, each key once or more often


def is_gml(text: str) -> bool:
    """Does it look like GML?"""
    return bool(_BEGIN.search(text))


def _lists(text: str) -> _List:
    """The values by key, lists among them."""
    stack: list[_List] = [{}]
    key, at, count = "", 0, 0
    while True:
        found = _TOKEN.match(text, at)
        if not found or not found[0].strip():
            break
        at, count = found.end(), count + 1
        if count > VALUES_MAX:
            raise FormatError(f"more than {VALUES_MAX} keys and values")
        _, name, opens, closes, string, word = found.groups()
        if name is not None and not key:
            key = name
        elif opens and key and len(stack) < DEPTH_MAX:
            inside: _List = {}
            stack[-1].setdefault(key, []).append(inside)
            stack.append(inside)
            key = ""
        elif closes and not key and len(stack) > 1:
            stack.pop()
        elif key and (string is not None or word or name):
            stack[-1].setdefault(key, []).append(_value(string, word or name))
            key = ""
        elif found[1] is None:
            at = found.start()
            break
    if text[at:].strip() or len(stack) > 1:
        raise FormatError(
            f"line {text.count(chr(10), 0, at) + 1}: not GML: {text[at:].strip()[:20]!r}"
        )
    return stack[0]


def _value(string: Any, word: str) -> Any:
    if string is not None:
        import html  # which takes a while, for a few files

        return html.unescape(string[:TEXT_MAX])
    if re.fullmatch(r"[+-]?\d{1,18}", word):
        return int(word)
    return word[:TEXT_MAX]


def _last(of: _List) -> dict[str, Any]:
    return {key: values[-1] for key, values in of.items()}


def read(text: str) -> Graph:
    """Nodes and edges.  FormatError: it is no GML."""
    graphs = _lists(text).get("graph", [])
    if len(graphs) != 1 or not isinstance(graphs[0], dict):
        raise FormatError(f"{len(graphs)} graphs in it: expected one")
    whole, graph = graphs[0], Graph()
    directed = _last(whole).get("directed") == 1
    for kind in ("node", "edge"):
        for one in whole.get(kind, []):
            if not isinstance(one, dict):
                raise FormatError(f"{kind}: expected a list of its attributes")
            of = _last(one)
            ends = [of.get(key) for key in (("id",) if kind == "node" else ("source", "target"))]
            if any(end is None or isinstance(end, dict) for end in ends):
                raise FormatError(f"{kind}: one without {'id' if kind == 'node' else 'its ends'}")
            if kind == "node":
                graph.node(ends[0], {key: str(v) if key == "label" else v for key, v in of.items()})
            else:
                graph.edge(ends[0], ends[1], directed, of)
    return graph
