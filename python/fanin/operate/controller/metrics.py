# SPDX-License-Identifier: Apache-2.0
"""The status as metrics, in Prometheus' text format.

The family of links has only those that are down, so that the number of labels stays small.

Over HTTP: /metrics, and a page at /, which begins with the last two minutes of jobs from /history.
Connections, their memory and their time are bounded, and a new client is always accepted: it
replaces the one of its host, or of all, that has waited longest.  Anyone who reaches the port can
read the metrics; nobody can change anything.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Tuple

from .lines import plain_host
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


def _family(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of a family."""
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _resident_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0


JOB_FAMILIES: List[Tuple[str, str, Callable[[Json], Any]]] = [
    ("ready", "1: the job's ranks have their plan.", lambda job: job["ready"]),
    ("ranks", "Ranks of the job.", lambda job: job["ranks"]),
    ("joined_ranks", "Ranks that are connected.", lambda job: job["joined"]),
    ("parts", "Parts that are summed separately.", lambda job: len(job["parts"])),
    (
        "ranks_off_route",
        "Ranks of parts that are not on the planned route yet.",
        lambda job: sum(part["ranks"] - part["moved"] for part in job["parts"]),
    ),
    (
        "planned_bytes_per_second",
        "Planned rate.",
        lambda job: job["planned_gbps"] * BYTES_PER_GBIT,
    ),
]


def text(status: Json, version: str, lost: int) -> str:
    """All metrics, of what `status json` shows.  `lost`: lines of the log."""
    build = {"version": version, "protocol": str(WIRE_VERSION), "role": "controller"}
    nodes = [
        ({"node": n["name"], "kind": n["kind"]}, n)
        for n in status["nodes"][:NODES_MAX]
        if n["kind"] != "worker"
    ]
    down = [link for link in status["links"][:NODES_MAX] if link["state"] == "down"]
    families: List[Tuple[str, str, str, Iterable[Sample]]] = [
        ("fanin_build_info", "gauge", "1; labels tell the build.", [(build, 1)]),
        ("process_cpu_seconds_total", "counter", "Processor time of all threads.",
         [({}, time.process_time())]),
        ("process_resident_memory_bytes", "gauge", "Memory in use.", [({}, _resident_bytes())]),
        ("fanin_log_lost_lines_total", "counter", "Lines of the log that nobody read in time.",
         [({}, lost)]),
        ("process_start_time_seconds", "gauge", "Time of the start, since 1970.", [({}, _START_S)]),
        ("fanin_controller_plans_total", "counter", "Plans made so far.", [({}, status["epoch"])]),
        ("fanin_controller_node_up", "gauge", "1: the node's daemon is there; 0: it is not.",
         [(labels, n["state"] == "up") for labels, n in nodes]),
        ("fanin_controller_node_routes", "gauge", "Routes that the node knows.",
         [(labels, n["routes"]) for labels, n in nodes]),
        ("fanin_controller_link_down", "gauge",
         "1 for each link that plans leave out because it is down.",
         [({"a": link["a"], "b": link["b"]}, 1) for link in down]),
    ]  # fmt: skip
    for name, about, value in JOB_FAMILIES:
        samples = [({"fanin_job": job["name"]}, value(job)) for job in status["jobs"]]
        families.append((f"fanin_controller_job_{name}", "gauge", about, samples))
    return "".join(f"{line}\n" for family in families for line in _family(*family))


# ---- over HTTP ----

CONNECTIONS_MAX = 48
HOST_MAX = 4  # of one host
TIMEOUT_S = 10  # for a request and its answer, and for idling
REQUEST_BYTES = 16384
POINT_S = 2.0  # from one point of the history to the next
POINTS_MAX = 61
KEPT = ("ready", "ranks", "joined_ranks", "planned_bytes_per_second")
_kept = re.compile(rf"fanin_controller_job_(?:{'|'.join(KEPT)})[{{ ]")
PLAIN = "text/plain; charset=utf-8"


def _policy(page: str) -> str:
    """Only the page's own script and style run, and they ask only this controller."""
    hashes = {}
    for tag in ("script", "style"):
        found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = hashlib.sha256((found[1] if found else "").encode()).digest()
        hashes[tag] = f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'"
    rest = "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    return (
        f"default-src 'none'; {hashes['script']}; {hashes['style']}; {rest}; frame-ancestors 'none'"
    )


class Http:
    """The server; `source` gives all metrics as text."""

    def __init__(self, source: Callable[[], str], page: str) -> None:
        self._source, self._page, self._policy = source, page, _policy(page)
        self._points: Deque[Tuple[float, str]] = deque(maxlen=POINTS_MAX)
        self._clients: Dict[asyncio.StreamWriter, Tuple[str, float]] = {}
        self._server: Optional[asyncio.AbstractServer] = None
        self._ticker: Optional[asyncio.Task[None]] = None

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError: it cannot."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES)
        self._ticker = asyncio.get_running_loop().create_task(self._keep_points())

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        if self._ticker is not None:
            self._ticker.cancel()

    async def _keep_points(self) -> None:
        while True:
            kept = [line for line in self._source().split("\n") if _kept.match(line)]
            self._points.append((time.monotonic(), "".join(line + "\n" for line in kept)))
            await asyncio.sleep(POINT_S)

    def _history(self) -> str:
        now_s = time.monotonic()
        return "".join(f"# ago {now_s - at_s:.3f}\n{text}" for at_s, text in self._points)

    def _answer(self, method: str, path: str) -> Tuple[str, str, str]:
        """Status, type and text."""
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", PLAIN, "only GET and HEAD\n"
        if path == "/metrics":
            return "200 OK", "text/plain; version=0.0.4; charset=utf-8", self._source()
        if path == "/history":
            return "200 OK", PLAIN, self._history()
        if path == "/" and self._page:
            return "200 OK", "text/html; charset=utf-8", self._page
        return "404 Not Found", PLAIN, "there are /, /metrics and /history\n"

    def _make_room(self, host: str) -> None:
        """Close who has waited longest, of the host or of all."""
        same = [w for w, (other, _) in self._clients.items() if other == host]
        among = same if len(same) >= HOST_MAX else list(self._clients)
        if len(same) >= HOST_MAX or len(among) >= CONNECTIONS_MAX:
            longest = min(among, key=lambda writer: self._clients[writer][1])
            del self._clients[longest]
            longest.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername") or ("",)
        host = plain_host(str(peer[0]))
        self._make_room(host)
        self._clients[writer] = (host, time.monotonic())
        try:
            while await asyncio.wait_for(self._serve_one(reader, writer), TIMEOUT_S):
                if writer in self._clients:
                    self._clients[writer] = (host, time.monotonic())
        except (OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError,
                asyncio.LimitOverrunError):  # fmt: skip
            pass
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; does the connection go on?"""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, version = lines[0].split(" ")
        fields = {line.partition(":")[0].lower(): line.partition(":")[2].strip().lower()
                  for line in lines[1:]}  # fmt: skip
        goes_on = version == "HTTP/1.1" and fields.get("connection") != "close"
        if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
            goes_on = False
        status, kind, text = self._answer(method, path.partition("?")[0])
        body = text.encode()
        headers = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {kind}",
            "Cache-Control: no-store",
            f"Content-Security-Policy: {self._policy}",
            "X-Content-Type-Options: nosniff",
            f"Content-Length: {len(body)}",
            f"Connection: {'keep-alive' if goes_on else 'close'}",
        ]
        writer.write("\r\n".join([*headers, "", ""]).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()
        return goes_on
