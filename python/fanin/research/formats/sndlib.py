# SPDX-License-Identifier: Apache-2.0
"""SNDlib's networks, native and XML.

A link's capacity is what is pre-installed there.  Where that is 0, links have modules to choose
from, which are no capacity yet: `--rate module=Mb/s` takes the first.  SNDlib has no units, but for
networks of measured demands, whose META section has one.
"""

from __future__ import annotations

import re
from typing import Any

from .graph import Graph, number, unit_gbps
from .network import FormatError
from .xmltree import parse as parse_xml

_TAGS = ("network", "node", "link", "source", "target", "preInstalledModule", "addModule",
         "capacity", "meta", "unit")  # fmt: skip
_HEAD = re.compile(r"\s*\?SNDlib native format\s*;\s*type\s*:\s*(\w+)")


def is_native(text: str) -> bool:
    """Does it look like a native file?"""
    return bool(_HEAD.match(text))


def _attributes(installed: Any, modules: list[Any]) -> dict[str, Any]:
    found = {}
    if number(installed):
        found["capacity"] = number(installed)
    if modules and number(modules[0]):
        found["module"] = number(modules[0])
    return found


def _set_unit(graph: Graph, text: str) -> None:
    unit = unit_gbps(text[:1] + text[1:].replace("BITPERSEC", "bit/s"))
    if unit:
        graph.units["capacity"] = unit


def read_native(text: str) -> Graph:
    """A native file of the type network."""
    head = _HEAD.match(text)
    if head and head[1] != "network":
        raise FormatError(f"an SNDlib {head[1]}: expected a network")
    graph, section = Graph(), ""
    for line in text.split("\n"):
        words = line.partition("#")[0].replace("(", " ( ").replace(")", " ) ").split()
        if not section and len(words) == 2 and words[1] == "(":
            section = words[0]
        elif words == [")"]:
            section = ""
        elif section == "META" and words[:2] == ["unit", "="]:
            _set_unit(graph, words[-1])
        elif section == "NODES" and words:
            graph.node(words[0], {})
        elif section == "LINKS" and words:
            if len(words) < 11 or (words[1], words[4], words[9]) != ("(", ")", "("):
                raise FormatError(f'LINKS: "{line.strip()[:60]}": expected a link')
            graph.edge(words[2], words[3], False, _attributes(words[5], words[10:-1]))
    return graph


def read_xml(data: bytes) -> Graph:
    """An XML file."""
    graph = Graph()
    for one in parse_xml(data, _TAGS).walk():
        if one.tag == "meta":
            _set_unit(graph, one.text_of("unit"))
        elif one.tag == "node":
            graph.node(one.of.get("id", ""), {})
        elif one.tag == "link":
            installed = next((m.text_of("capacity") for m in one.all("preInstalledModule")), "")
            modules = [m.text_of("capacity") for m in one.all("addModule")]
            ends = one.text_of("source"), one.text_of("target")
            graph.edge(*ends, False, _attributes(installed, modules))
    return graph
