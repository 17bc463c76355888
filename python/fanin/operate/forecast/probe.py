# SPDX-License-Identifier: Apache-2.0
"""`fanin probe` as a child process: what it prints, a line of JSON for each finding and for what
is measured, checked in this one place.  src/cmd/doctor prints it."""

from __future__ import annotations

import math
import os
import subprocess
from typing import Any, Dict, Iterator, List, Tuple

from ..shape import COUNT, TEXT, Bad, checked, load
from .findings import COLORS, Finding

LINES_MAX = 256
LINE_BYTES = 1 << 20
HOSTS_MAX = 64
NETWORKS_MAX = 4
ROUNDS_MAX = 25
VALUES_MAX = 32
NAME_MAX = 31

_RANK = (0, 65535)
_BYTES = (1, 65535)  # of a frame's payload
_RATES = [(0, 1 << 31), HOSTS_MAX]
_SHAPES: Dict[str, Any] = {
    "begin": {"rank": _RANK, "ranks": _BYTES},
    "meeting": {"met": True, "first": True},
    "finding": {"name": NAME_MAX, "status": NAME_MAX, "found": TEXT, "advice": [TEXT, 10]},
    "alone": {
        "payload": _BYTES,
        "headers": _RANK,
        "switches": [{"at": TEXT, "per_s": (0.0, 1e12)}, HOSTS_MAX],
    },
    "links": {
        "payload": _BYTES,
        "answer": _BYTES,
        "headers": _RANK,
        "rtt_us": _RATES,
        "mtu": _RATES,
        "hosts": [{"first": _RANK, "ranks": _BYTES}, HOSTS_MAX],
        "rails": [[{"shift": (1, HOSTS_MAX), "per_s": _RATES}, 3], NETWORKS_MAX],
        "switches": [{"at": TEXT, "rail": (0, NETWORKS_MAX - 1), "per_s": _RATES}, HOSTS_MAX],
    },
    "summing": {
        "shares_memory": True,
        "even_shares": True,
        "payload": _BYTES,
        "jumbo_payload": _BYTES,
        "window_bytes": (0.0, 1e15),
        "sums": [True, HOSTS_MAX],
    },
    "allreduce": {"wrong": COUNT, "settled": True, "took_ns": [(1, 1 << 62), ROUNDS_MAX]},
    "end": {"switch": TEXT},
}


class Ended(Exception):
    """The child has ended before it had told everything; `status` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"its probe ended early, with status {status}")
        self.status = status


def _values(values: Any) -> Dict[str, Any]:
    """A finding's figures: texts, truths, numbers, and null."""
    if not isinstance(values, dict) or len(values) > VALUES_MAX:
        raise Bad("expected an object of few values")
    for key, value in values.items():
        number = isinstance(value, (int, float)) and math.isfinite(value) and abs(value) < 1 << 63
        text = isinstance(value, str) and len(value) <= TEXT
        if len(key) > NAME_MAX or not (number or text or value is None):
            raise Bad("expected a text, a number or a truth")
    return values


def _finding(said: Any) -> Finding:
    """One of C's."""
    of = checked(said, _SHAPES["finding"])
    if of["status"] not in COLORS or not of["name"]:
        raise Bad("expected a name, and a status")
    return Finding(**of, values=_values(said.get("values", {})))


def _check_links(links: Dict[str, Any]) -> None:
    """Every list has the length that the others say; Bad: one has another."""
    hosts, networks = len(links["hosts"]), len(links["rails"])
    streams = [stream for rail in links["rails"] for stream in rail]
    lists = [links["rtt_us"], links["mtu"]] + [s["per_s"] for s in streams + links["switches"]]
    fit = all(len(one) == hosts for one in lists)
    if not (
        hosts
        and networks
        and fit
        and all(stream["shift"] < hosts for stream in streams)
        and all(switch["rail"] < networks for switch in links["switches"])
    ):
        raise Bad("expected as many rates as hosts")


def parse(line: bytes) -> Tuple[str, Any]:
    """The kind of a line and what it says, a Finding for "finding"; Bad: it is none."""
    said = load(line)
    if not isinstance(said, dict) or len(said) != 1:
        raise Bad("expected an object with one member")
    ((kind, value),) = said.items()
    if kind not in _SHAPES:
        raise Bad("a line of another kind")
    if kind == "finding":
        return kind, _finding(value)
    of = checked(value, _SHAPES[kind])
    if kind == "links":
        _check_links(of)
    if kind == "allreduce" and not of["took_ns"]:
        raise Bad("expected times")
    return kind, of


def lines(flags: List[str]) -> Iterator[Tuple[str, Any]]:
    """What `fanin probe` with these flags prints, up to "end", and then waits for its end.

    Ended: it has ended before; Bad: it prints something else; OSError: it cannot be started."""
    command = [os.environ.get("FANIN", "fanin"), "probe", *flags]
    env = {name: value for name, value in os.environ.items() if name != "FANIN_VERSION"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        try:
            for _ in range(LINES_MAX):
                line = child.stdout.readline(LINE_BYTES)
                if not line:
                    raise Ended(child.wait())
                kind, of = parse(line)
                yield kind, of
                if kind == "end":
                    child.wait()
                    return
            raise Bad("too many lines")
        except BaseException:
            child.kill()
            raise
