# SPDX-License-Identifier: Apache-2.0
"""A graph as general formats have it: identifiers and attributes, and which of these are rates.

GraphML, GML and networkx's JSON leave names, rates and units to whoever writes them.  A rate is
taken where its unit is certain: from the names of network.py, from names that end in their unit
(capacity_mbps), from the Topology Zoo's LinkSpeed, LinkSpeedUnits and LinkSpeedRaw, and from a text
with a unit ("10 Gbit/s").  Other numbers, such as "capacity", need `--rate capacity=Mb/s`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Optional

from ..fields import NAME_MAX, is_plain
from .network import CABLES_MAX, GBPS_MAX, GBPS_MIN, NODES_MAX, FormatError

Attributes = dict[str, Any]

NAMES = ("gbps", "background_gbps", "delay_us")
_RATES = ("capacity", "bandwidth", "speed", "rate", "bw", "LinkSpeed")  # in a unit not known
_LABELS = ("LinkLabel", "label", "EdgeLabel")  # texts that may have a rate and its unit
BITS_A_GBIT = 1e9

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_PREFIX = {"": 1e-9, "k": 1e-6, "m": 1e-3, "g": 1.0, "t": 1e3}
_UNIT = re.compile(
    r"([kKmMgGtT]?)(?:(bps|bits?/s|bits?/sec|b/s|BITPERSEC)|(Bps|bytes?/s|B/s))|([MGT])E?", re.ASCII
)
_WITH_UNIT = re.compile(r"\s*(\d{1,18}(?:\.\d{0,18})?)\s*([A-Za-z/]{1,12})\s*", re.ASCII)
_NAMED = re.compile(r"(?:(?:link_?)?(?:capacity|bandwidth|speed|rate|bw)_?)?([kmgt]?)bps", re.I)
_TIMES = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}  # in microseconds
_TIME = re.compile(r"(\d{1,18}(?:\.\d{0,18})?)(s|ms|us|ns)", re.ASCII)


def unit_gbps(text: str) -> Optional[float]:
    """What one of a unit such as "Mb/s" or "GB/s" is in Gb/s; None: it is no unit of rates."""
    found = _UNIT.fullmatch(text)
    return _PREFIX[(found[1] or found[4] or "").lower()] * (8 if found[3] else 1) if found else None


def rate_gbps(text: str) -> Optional[float]:
    """The rate in Gb/s that a text has with its unit, as "10Gbps" or "2.5 Gbit/s"."""
    found = _WITH_UNIT.fullmatch(text)
    unit = unit_gbps(found[2]) if found else None
    return float(found[1]) * unit if found and unit else None


def time_us(text: str) -> Optional[float]:
    """The microseconds of a text as "1000ns"."""
    found = _TIME.fullmatch(text.strip())
    return float(found[1]) * _TIMES[found[2]] if found else None


def number(value: Any) -> Optional[float]:
    """What a number, or the text of one, is worth."""
    if isinstance(value, str) and len(value) < 64 and NUMBER.fullmatch(value):
        value = float(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None


class Rate:
    """What --rate says: "100", Gb/s of links without a rate; "capacity=Mb/s", the unit of an
    attribute of links that is their rate; or both, with a comma."""

    def __init__(self, text: str = "") -> None:
        self.gbps: Optional[float] = None
        self.attribute, self.unit = "", 0.0
        for word in filter(None, text.split(",")):
            name, equals, unit = word.rpartition("=")
            if equals:
                self.attribute, self.unit = name, unit_gbps(unit) or 0.0
                if not name or not self.unit:
                    raise FormatError(
                        f'"{word[:40]}": expected ATTRIBUTE=UNIT, as capacity=Mb/s, with b/s, kb/s, '
                        "Mb/s, Gb/s, Tb/s, or B for bytes"
                    )
                continue
            self.gbps = number(word)
            if self.gbps is None or not GBPS_MIN <= self.gbps <= GBPS_MAX:
                raise FormatError(
                    f'"{word[:40]}": expected Gb/s, a number from {GBPS_MIN:g} to {GBPS_MAX:g}'
                )


class Graph:
    """Nodes and edges that a reader adds, and the JSON that reader.py checks."""

    def __init__(self) -> None:
        self.nodes: dict[Any, Attributes] = {}  # by identifier
        self.edges: list[tuple[Any, Any, bool, Attributes]] = []
        self.notes: list[str] = []  # what was left out, for people
        self.units: dict[str, float] = {}  # of attributes of links, as the file says, in Gb/s
        self.loops = 0

    def node(self, name: Any, of: Attributes) -> None:
        """Add one.  FormatError: there are too many, or its identifier was there before."""
        if len(self.nodes) == NODES_MAX:
            raise FormatError(f"more than {NODES_MAX} nodes")
        if name in self.nodes:
            raise FormatError(f'node "{str(name)[:NAME_MAX]}" was there before')
        self.nodes[name] = of

    def edge(self, a: Any, b: Any, directed: bool, of: Attributes) -> None:
        """Add one.  Some maps have edges from a node to itself, which carry nothing."""
        if len(self.edges) == CABLES_MAX:
            raise FormatError(f"more than {CABLES_MAX} edges")
        if a == b:
            self.loops += 1
        else:
            self.edges.append((a, b, directed, of))

    def to_json(self, rate: Rate) -> dict[str, Any]:
        """Nodes and links.  FormatError: a link whose rate has no unit."""
        names = self._names()
        nodes = []
        for name, of in self.nodes.items():
            node = {"name": names[name], "kind": of.get("kind", "switch")}
            node.update((key, _value(of[key])) for key in NAMES[:2] if key in of)
            nodes.append(node)
        links = [self._link(names, rate, *edge) for edge in self.edges]
        without = sum("gbps" not in link for link in links)
        if without and rate.gbps:
            self.notes.append(f"{without} of {len(links)} without a rate: {rate.gbps:g} Gb/s")
        if self.loops:
            self.notes.append(f"{self.loops} links from a node to itself left out")
        return {"nodes": nodes, "links": links}

    def _names(self) -> dict[Any, str]:
        """By identifier: its name or label; with the identifier behind it, if others have it."""
        labels = {name: _label(of) for name, of in self.nodes.items()}
        count = Counter(labels.values())
        found = {}
        for name, label in labels.items():
            if label and count[label] > 1:
                label = f"{label}.{name}"
            fits = label and len(label.encode("utf-8", "replace")) <= NAME_MAX
            found[name] = label if fits else str(name)
        if len({*found.values()}) < len(found):
            return {name: str(name) for name in found}
        return found

    def _link(
        self, names: dict[Any, str], rate: Rate, a: Any, b: Any, directed: bool, of: Attributes
    ) -> Attributes:
        link: Attributes = {"a": names.get(a, str(a)), "b": names.get(b, str(b))}
        gbps = self._gbps(rate, of, link)
        if gbps is not None:
            link["gbps"] = gbps
        link.update((key, _value(of[key])) for key in NAMES[1:] if key in of)
        delay = of.get("delay")
        if isinstance(delay, str) and time_us(delay) is not None:
            link.setdefault("delay_us", time_us(delay))
        if directed:
            link["directed"] = True
        return link

    def _gbps(self, rate: Rate, of: Attributes, link: Attributes) -> Any:
        """The rate of a link; None: it says none.  What is no number stays, and is refused."""
        if "gbps" in of:
            return _value(of["gbps"])
        if rate.attribute and rate.attribute in of:
            value = of[rate.attribute]
            found = number(value)
            if found is not None:
                return found * rate.unit
            return rate_gbps(value) if isinstance(value, str) else None
        speed, raw = number(of.get("LinkSpeed")), number(of.get("LinkSpeedRaw"))
        unit = unit_gbps(str(of.get("LinkSpeedUnits", ""))[:12] + "b/s")
        if raw is not None:
            return raw / BITS_A_GBIT
        if speed is not None and unit and of.get("LinkSpeedUnits"):
            return speed * unit
        for key, value in of.items():
            found, unit = number(value), self.units.get(key)
            named = _NAMED.fullmatch(key)
            if named:
                unit = _PREFIX[named[1].lower()]
            if found is not None and unit:
                return found * unit
        for key in (*_RATES, *_LABELS):
            if isinstance(of.get(key), str) and rate_gbps(of[key]):
                return rate_gbps(of[key])
        return self._unclear(rate, of, link)

    def _unclear(self, rate: Rate, of: Attributes, link: Attributes) -> None:
        """Refuse a rate without a unit, unless all have the rate that is given."""
        for key in _RATES:
            found = number(of.get(key))
            if found is not None and rate.gbps is None:
                raise FormatError(
                    f'the link between "{link["a"]}" and "{link["b"]}": {key} {found:g}: in which '
                    f"unit? --rate {key}=Mb/s (or kb/s, Gb/s, MB/s ...) says so, --rate 10 gives "
                    "links 10 Gb/s instead"
                )


def _label(of: Attributes) -> str:
    """What a node is called, if a name or label of it can be a name."""
    for key in ("name", "label"):
        text = of.get(key)
        if isinstance(text, str) and text.strip() and is_plain(text):
            return text.strip()
    return ""


def _value(value: Any) -> Any:
    """A text's number, if it has one."""
    found = number(value)
    return value if found is None else found
