# SPDX-License-Identifier: Apache-2.0
"""GraphML, as networkx, igraph, Gephi, yEd and the Topology Zoo write it.

Nodes become switches unless their attribute "kind" is worker or server.  Edges that are directed,
by their own attribute or by edgedefault, become directed links.  Ports are of no meaning here, a
group (a node with a graph inside) is left out where no edge names it, and hyperedges are refused.
"""

from __future__ import annotations

from .graph import Attributes, Graph
from .network import FormatError
from .xmltree import Element, parse as parse_xml

NAME_MAX = 31  # characters of an attribute's name; longer ones are not used
TEXT_MAX = 255  # characters of an attribute's value; more is cut off

_TAGS = ("graph", "key", "default", "node", "edge", "hyperedge", "port", "data", "NodeLabel",
         "EdgeLabel")  # fmt: skip
_LABELS = {"NodeLabel": "label", "EdgeLabel": "EdgeLabel"}  # of yEd: no attribute has them


class _Reader:
    def __init__(self, root: Element) -> None:
        self.graph = Graph()
        self.names: dict[str, str] = {}  # of attributes by the id of their key
        self.defaults: dict[str, Attributes] = {"node": {}, "edge": {}}
        self.groups: list[str] = []  # nodes with a graph inside
        self.is_graph = self.is_directed = False
        for one in root.walk():
            if one.tag in ("graph", "key", "node", "edge", "hyperedge"):
                try:
                    getattr(self, "_" + one.tag)(one)
                except FormatError as error:
                    raise FormatError(f"line {one.line}: {error}") from None

    def _graph(self, one: Element) -> None:
        self.is_graph, self.is_directed = True, one.of.get("edgedefault") == "directed"

    def _key(self, one: Element) -> None:
        name = one.of.get("attr.name", "")
        if not name or "id" not in one.of or len(name) > NAME_MAX:
            return
        self.names[one.of["id"]] = name
        for kind, defaults in self.defaults.items():
            if one.of.get("for", "all") in (kind, "all") and any(one.all("default")):
                defaults[name] = one.text_of("default")[:TEXT_MAX]

    def _data(self, one: Element, kind: str) -> Attributes:
        """The attributes of a node or an edge."""
        found = dict(self.defaults[kind])
        for data in one.all("data"):
            name = self.names.get(data.of.get("key", ""))
            if name:
                found[name] = data.text.strip()[:TEXT_MAX]
            for label in data.inside:
                if label.tag in _LABELS:
                    found.setdefault(_LABELS[label.tag], label.text.strip())
        return found

    def _node(self, one: Element) -> None:
        name = one.of.get("id")
        if not name:
            raise FormatError("a node without an id")
        if name in self.graph.nodes:
            raise FormatError("a node whose id was there before")
        self.graph.node(name, self._data(one, "node"))
        if any(one.all("graph")):
            self.groups.append(name)

    def _edge(self, one: Element) -> None:
        if "source" not in one.of or "target" not in one.of:
            raise FormatError("an edge without source and target")
        directed = one.of.get("directed")
        is_directed = directed == "true" if directed else self.is_directed
        self.graph.edge(one.of["source"], one.of["target"], is_directed, self._data(one, "edge"))

    def _hyperedge(self, one: Element) -> None:
        raise FormatError(
            f'a hyperedge{" " + one.of["id"] if "id" in one.of else ""}: a link has two ends; '
            "make it a node, with an edge to each of its ends"
        )

    def leave_out_groups(self) -> None:
        """Take away groups without edges."""
        linked = {end for a, b, *_ in self.graph.edges for end in (a, b)}
        empty = [name for name in self.groups if name not in linked]
        for name in empty:
            del self.graph.nodes[name]
        if empty:
            self.graph.notes.append(f"{len(empty)} groups of nodes left out")


def read(data: bytes) -> Graph:
    """Nodes and edges.  FormatError: it is no GraphML."""
    reader = _Reader(parse_xml(data, _TAGS))
    if not reader.is_graph:
        raise FormatError("no <graph> in it: is this GraphML?")
    reader.leave_out_groups()
    return reader.graph
