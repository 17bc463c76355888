# SPDX-License-Identifier: Apache-2.0
"""NCCL's and RCCL's topology XML (NCCL_TOPO_DUMP_FILE): the inside of a host.

CPUs and PCI switches are switches, GPUs workers, and each network card a switch named after it.  A
PCI link has the rate of its lanes after line coding, a card the rate that it reports.  CPUs are
linked with each other at --rate: the file has no rate of these links, nor of NVLink and XGMI, which
are left out.
"""

from __future__ import annotations

import re

from .graph import Graph, number
from .network import FormatError
from .xmltree import Element, parse as parse_xml

MBITS_A_GBIT = 1e3
_TAGS = ("system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c")
_OTHER = ("nvlink", "xgmi", "c2c")  # links between GPUs
_GT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?GT/s")
_CODED = {2.5: 0.8, 5.0: 0.8}  # 8b/10b of PCI 1 and 2; the others 128b/130b


def _pci_gbps(one: Element) -> dict[str, float]:
    speed, width = _GT.match(one.of.get("link_speed", "")), number(one.of.get("link_width", ""))
    if not speed or not width:
        return {}
    lane = float(speed[1])
    return {"gbps": lane * _CODED.get(lane, 128 / 130) * width}


class _Reader:
    def __init__(self) -> None:
        self.graph, self.cards, self.left_out = Graph(), [""], 0
        self.cards.clear()

    def below(self, parent: str, one: Element, rate: dict[str, float]) -> None:
        """Add what is inside of a CPU or PCI device named `parent`; `rate`: of the link to it."""
        for child in one.inside:
            if child.tag == "pci":
                self._pci(parent, child)
            elif child.tag == "gpu":
                self._add(parent, f"gpu{child.of.get('dev', '')}", {"kind": "worker"}, rate)
                self.left_out += sum(link.tag in _OTHER for link in child.inside)
            elif child.tag == "nic":
                self.below(parent, child, rate)
            elif child.tag == "net":
                self._card(parent, child)

    def _pci(self, parent: str, one: Element) -> None:
        rate, name = _pci_gbps(one), f"pci{one.of.get('busid', '')}"
        if [child.tag for child in one.inside] == ["gpu"]:  # the device itself
            self.below(parent, one, rate)
            return
        self._add(parent, name, {}, rate)
        self.below(name, one, rate)

    def _card(self, parent: str, one: Element) -> None:
        name, speed = one.of.get("name") or f"net{one.of.get('dev', '')}", number(
            one.of.get("speed")
        )
        port = one.of.get("port", "1")
        name = name if port in ("0", "1") else f"{name}.{port}"
        rate = {"gbps": speed / MBITS_A_GBIT} if speed else {}
        self.cards.append(f"{name} {rate['gbps']:g}" if rate else name)
        self._add(parent, name, {}, rate)

    def _add(self, parent: str, name: str, of: dict[str, str], rate: dict[str, float]) -> None:
        self.graph.node(name, dict(of))
        self.graph.edge(parent, name, False, dict(rate))


def read(data: bytes) -> Graph:
    """The host.  FormatError: it has no GPU and no card."""
    reader = _Reader()
    systems = [one for one in parse_xml(data, _TAGS).inside if one.tag == "system"]
    if len(systems) != 1:
        raise FormatError(f"{len(systems)} hosts in it: expected one <system>")
    cpus = list(systems[0].all("cpu"))
    for i, cpu in enumerate(cpus):
        reader.graph.node(f"cpu{cpu.of.get('numaid', i)}", {})
    names = list(reader.graph.nodes)
    for i, a in enumerate(names):
        for b in names[:i]:
            reader.graph.edge(b, a, False, {})
    for name, cpu in zip(names, cpus):
        reader.below(name, cpu, {})
    if len(reader.graph.nodes) == len(names):
        raise FormatError("no GPU and no card in it")
    if reader.cards:
        reader.graph.notes.append("cards in Gb/s: " + ", ".join(reader.cards))
    if reader.left_out:
        reader.graph.notes.append(
            f"{reader.left_out} ends of NVLink or XGMI, without a rate, left out"
        )
    return reader.graph
