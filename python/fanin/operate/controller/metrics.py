# SPDX-License-Identifier: Apache-2.0
"""The status as metrics, in Prometheus' text format.

The family of links has only those that are down, so that the number of labels stays small.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Tuple

from .model import Json

BYTES_PER_GBIT = 125e6
NODES_MAX = 4096  # samples of nodes
LABEL_BYTES = 400
WIRE_VERSION = 2
_START_S = time.time()
_odd = re.compile(r'\\(?=x[0-9a-fA-F]{2})|[\x00-\x1f\x7f-\x9f\ud800-\udfff]|["\\]')

Sample = Tuple[Dict[str, str], float]


def _escape(value: str) -> str:
    def one(found: re.Match[str]) -> str:
        char = found[0]
        if char in '"\\' and not re.match(r"\\x[0-9a-fA-F]{2}", value[found.start() :]):
            return "\\" + char
        return "".join(f"\\\\x{byte:02x}" for byte in char.encode(errors="surrogatepass"))

    return _odd.sub(one, value[:LABEL_BYTES])


def _number(value: float) -> str:
    whole = abs(value) < 2**53 and value == int(value)
    return str(int(value)) if whole else f"{value:.14g}"


class Exposed:
    """Metrics as text, family by family."""

    def __init__(self) -> None:
        self._lines: List[str] = []

    def family(self, name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
        """Add a family and its samples."""
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for labels, value in samples:
            inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{inside}}} {_number(value)}" if inside else
                               f"{name} {_number(value)}")  # fmt: skip

    def one(self, name: str, kind: str, about: str, value: float) -> None:
        """Add a family of one sample without labels."""
        self.family(name, kind, about, [({}, value)])

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _resident_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _process(x: Exposed, version: str, lost: int) -> None:
    labels = {"version": version, "protocol": str(WIRE_VERSION), "role": "controller"}
    x.family("fanin_build_info", "gauge", "1; labels tell the build.", [(labels, 1)])
    x.one("process_cpu_seconds_total", "counter", "Processor time of all threads.",
          time.process_time())  # fmt: skip
    x.one("process_resident_memory_bytes", "gauge", "Memory in use.", _resident_bytes())
    x.one("fanin_log_lost_lines_total", "counter", "Lines of the log that nobody read in time.",
          lost)  # fmt: skip
    x.one("process_start_time_seconds", "gauge", "Time of the start, since 1970.", _START_S)


def _nodes(x: Exposed, nodes: List[Json]) -> None:
    daemons = [
        ({"node": n["name"], "kind": n["kind"]}, n)
        for n in nodes[:NODES_MAX]
        if n["kind"] != "worker"
    ]
    x.family("fanin_controller_node_up", "gauge", "1: the node's daemon is there; 0: it is not.",
             [(labels, n["state"] == "up") for labels, n in daemons])  # fmt: skip
    x.family("fanin_controller_node_routes", "gauge", "Routes that the node knows.",
             [(labels, n["routes"]) for labels, n in daemons])  # fmt: skip


def _off_route(job: Json) -> float:
    return float(sum(part["ranks"] - part["moved"] for part in job["parts"]))


JOB_FAMILIES: List[Tuple[str, str, Callable[[Json], Any]]] = [
    ("ready", "1: the job's ranks have their plan.", lambda job: job["ready"]),
    ("ranks", "Ranks of the job.", lambda job: job["ranks"]),
    ("joined_ranks", "Ranks that are connected.", lambda job: job["joined"]),
    ("parts", "Parts that are summed separately.", lambda job: len(job["parts"])),
    (
        "ranks_off_route",
        "Ranks of parts that are not on the planned route yet.",
        _off_route,
    ),
    (
        "planned_bytes_per_second",
        "Planned rate.",
        lambda job: job["planned_gbps"] * BYTES_PER_GBIT,
    ),
]


def text(status: Json, version: str, lost: int) -> str:
    """All metrics, of what `status json` shows.  `lost`: lines of the log."""
    x = Exposed()
    _process(x, version, lost)
    x.one("fanin_controller_plans_total", "counter", "Plans made so far.", status["epoch"])
    _nodes(x, status["nodes"])
    down = [link for link in status["links"][:NODES_MAX] if link["state"] == "down"]
    x.family("fanin_controller_link_down", "gauge",
             "1 for each link that plans leave out because it is down.",
             [({"a": link["a"], "b": link["b"]}, 1) for link in down])  # fmt: skip
    for name, about, value in JOB_FAMILIES:
        x.family(f"fanin_controller_job_{name}", "gauge", about,
                 [({"fanin_job": job["name"]}, value(job)) for job in status["jobs"]])  # fmt: skip
    return x.text()
