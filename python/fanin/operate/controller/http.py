# SPDX-License-Identifier: Apache-2.0
"""Metrics over HTTP: /metrics, and a page at /, which begins with the last two minutes of jobs from
/history.

Connections, their memory and their time are bounded, and a new client is always accepted: it
replaces the one of its host, or of all, that has waited longest.  Anyone who reaches the port can
read the metrics; nobody can change anything.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Tuple

from .addresses import plain_host

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
        if len(same) >= HOST_MAX:
            self._send_away(same)
        elif len(self._clients) >= CONNECTIONS_MAX:
            self._send_away(list(self._clients))

    def _send_away(self, writers: List[asyncio.StreamWriter]) -> None:
        longest = min(writers, key=lambda writer: self._clients[writer][1])
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
