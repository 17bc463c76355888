# SPDX-License-Identifier: Apache-2.0
"""GraphML, as the Topology Zoo and graph editors write it.

Nodes become switches unless their attribute "kind" is worker or server.  Attributes of nodes and
edges with the names of network.py are used (gbps, background_gbps, delay_us), and LinkSpeedRaw, in
bit/s, of an edge without gbps.  A node's name is its attribute "name", or else its id.  Edges that
are directed, by their own attribute or by edgedefault, become directed links; an edge from a node
to itself is ignored.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn, Optional
from xml.parsers import expat

from .network import FormatError

NAME_MAX = 31  # bytes of an attribute's name; longer ones are not used
TEXT_MAX = 255  # bytes of an attribute's value; more is cut off
BITS_A_GBIT = 1e9

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def _cut(text: str, most: int) -> str:
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


class _Reader:
    """The state of the parser."""

    def __init__(self) -> None:
        self.xml = expat.ParserCreate()
        self.xml.buffer_text = True
        self.xml.StartElementHandler = self._begin
        self.xml.EndElementHandler = self._end
        self.xml.CharacterDataHandler = self._characters
        self.xml.EntityDeclHandler = self._entity
        self.keys: dict[str, str] = {}  # names of attributes by the id of their key
        self.ids: dict[str, dict[str, Any]] = {}  # nodes
        self.links: list[dict[str, Any]] = []
        self.item: Optional[dict[str, Any]] = None  # the present node or link
        self.name = ""  # of the present attribute; "": it is not used
        self.text = ""
        self.is_graph = self.is_directed = False

    def fail(self, cause: str) -> NoReturn:
        """Stop: the text makes no sense."""
        raise FormatError(f"line {self.xml.CurrentLineNumber}: {cause}")

    def _entity(self, *_: Any) -> None:
        self.fail("an entity, of which GraphML needs none")

    def _begin(self, element: str, of: dict[str, str]) -> None:
        if element == "graph":
            self.is_graph, self.is_directed = True, of.get("edgedefault") == "directed"
        elif element == "key" and "id" in of and "attr.name" in of:
            self.keys[of["id"]] = _cut(of["attr.name"], NAME_MAX)
        elif element == "node":
            self._node(of)
        elif element == "edge":
            self._edge(of)
        elif element == "data" and self.item is not None:
            self.name, self.text = self.keys.get(of.get("key", ""), ""), ""

    def _node(self, of: dict[str, str]) -> None:
        name = of.get("id")
        if not name or name in self.ids:
            self.fail(
                "a node without an id" if name is None else "a node whose id was there before"
            )
        self.item = self.ids[name] = {"name": name, "kind": "switch"}

    def _edge(self, of: dict[str, str]) -> None:
        if "source" not in of or "target" not in of:
            self.fail("an edge without source and target")
        if of["source"] == of["target"]:
            return  # some maps have such edges, which carry nothing
        self.item = {"a": of["source"], "b": of["target"]}
        if of["directed"] == "true" if "directed" in of else self.is_directed:
            self.item["directed"] = True
        self.links.append(self.item)

    def _characters(self, text: str) -> None:
        if self.name and len(self.text) <= TEXT_MAX:
            self.text += text[: TEXT_MAX + 1]

    def _end(self, element: str) -> None:
        if element == "data" and self.name and self.item is not None:
            self._data(self.item, self.name, _cut(self.text, TEXT_MAX))
            self.name = ""
        elif element in ("node", "edge"):
            self.item = None

    @staticmethod
    def _data(item: dict[str, Any], name: str, text: str) -> None:
        number = float(text) if _NUMBER.fullmatch(text) else None
        if name in ("gbps", "background_gbps", "delay_us"):
            item[name] = text if number is None else number
        elif name == "LinkSpeedRaw" and number is not None:
            item.setdefault("gbps", number / BITS_A_GBIT)
        elif name in ("kind", "name"):
            item[name] = text


def is_graphml(data: bytes) -> bool:
    """Does it look like XML rather than JSON?"""
    return data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n").startswith(b"<")


def parse(data: bytes) -> dict[str, Any]:
    """Nodes and links as JSON, which reader.py checks; FormatError: it is no GraphML."""
    reader = _Reader()
    try:
        reader.xml.Parse(data, True)
    except expat.ExpatError as error:
        raise FormatError(f"line {error.lineno}: {expat.ErrorString(error.code)}") from None
    except LookupError as error:  # its encoding
        raise FormatError(f"line 1: {error}") from None
    if not reader.is_graph:
        raise FormatError("no <graph> in it: is this GraphML?")
    for link in reader.links:
        for end in ("a", "b"):  # unknown ids stay
            link[end] = reader.ids.get(link[end], {}).get("name", link[end])
    return {"nodes": list(reader.ids.values()), "links": reader.links}
