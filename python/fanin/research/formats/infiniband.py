# SPDX-License-Identifier: Apache-2.0
"""What `ibnetdiscover` prints: switches, adapters, and the width and speed of each cable.

The adapters of one host, by their descriptions ("node7 mlx5_0", "node7 HCA-1"), are one worker.
Rates are those of data, after line coding: 4xQDR is 32 Gb/s, 4xNDR is 400.
"""

from __future__ import annotations

import re
from collections import Counter

from ..fields import NAME_MAX
from .graph import Graph
from .network import FormatError

_LANE_GBPS = {"SDR": 2, "DDR": 4, "QDR": 8, "FDR10": 10, "FDR": 150 / 11, "EDR": 25, "HDR": 50,
              "NDR": 100, "XDR": 200}  # fmt: skip
_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]{1,40})"\s*#\s*"([^"]*)"')
_PORT = re.compile(
    r'\[(\d{1,5})\](?:\[[^\]]*\])?(?:\([^)]*\))?\s+"([^"]{1,40})"\[(\d{1,5})\](?:\([^)]*\))?\s*(?:#(.*))?'
)
_SPEED = re.compile(r"(\d{1,2})x([A-Z]{3}\d{0,2})\b")
_HOST = re.compile(r"(\S+)\s+(?:HCA-\d+|(?:mlx|hfi|qib|mthca|ib|bnxt_re|irdma)\w*)(?:\s.*)?")
_SUMS = "Aggregation Node"  # an adapter inside a switch, of NVIDIA's SHARP


def is_ibnetdiscover(text: str) -> bool:
    """Does it look like the output?"""
    return bool(re.search(r"(?m)^(?:switchguid|caguid)=", text))


class _Reader:
    def __init__(self) -> None:
        self.described: dict[str, tuple[str, str]] = {}  # kind and description by GUID
        self.cables: dict[tuple[tuple[str, int], tuple[str, int]], str] = {}
        self.node = ""

    def line(self, text: str) -> None:
        node, port = _NODE.match(text), _PORT.match(text)
        if node:
            self.node = node[2]
            self.described[node[2]] = node[1], node[3]
        elif port and self.node:
            ends = sorted(((self.node, int(port[1])), (port[2], int(port[3]))))
            speed = _SPEED.findall(port[4] or "")
            self.cables[ends[0], ends[1]] = "x".join(speed[-1]) if speed else ""

    def names(self) -> dict[str, str]:
        """By GUID: the host or description, or with others of that, the GUID."""
        count = Counter(self.described.values())
        found = {}
        for guid, (kind, text) in self.described.items():
            host = _HOST.fullmatch(text) if kind == "Ca" else None
            name = host[1] if host else text.partition(";")[2].partition(":")[0] or text
            alone = host or count[kind, text] == 1
            found[guid] = name if alone and 0 < len(name.encode()) <= NAME_MAX else guid
        return found


def read(text: str) -> Graph:
    """Switches, hosts and cables."""
    reader, graph = _Reader(), Graph()
    for line in text.split("\n"):
        reader.line(line)
    names, left_out = reader.names(), set()
    for guid, (kind, described) in reader.described.items():
        if _SUMS in described:
            left_out.add(guid)
        elif names[guid] not in graph.nodes:
            graph.node(names[guid], {"kind": "worker"} if kind == "Ca" else {})
    for ends, speed in reader.cables.items():
        guids = [end[0] for end in ends]
        if left_out & {*guids}:
            continue
        missing = [guid for guid in guids if guid not in names]
        if missing:
            raise FormatError(f'a cable to "{missing[0]}", which is not described')
        width, _, lane = speed.partition("x")
        of = {"gbps": int(width) * _LANE_GBPS[lane]} if lane in _LANE_GBPS else {}
        graph.edge(names[guids[0]], names[guids[1]], False, of)
    if left_out:
        graph.notes.append(f"{len(left_out)} aggregation nodes, inside switches, left out")
    return graph
