# SPDX-License-Identifier: Apache-2.0
"""The sockets around the controller: daemons and workers connect by TCP, people by a Unix socket.

All lines that have come are handled before timers run, and what is sent waits until the state is
written: if this controller is killed, the next one knows what it has sent.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import stat
import time
from typing import Any, Callable, Dict, List, Optional, Set, Union, cast

from . import limits, orders
from .lines import plain_host
from .dispatch import Dispatch
from .model import Conn
from .sign import Signer, Unsigned

BACKLOG = 128
ACCEPTS_MAX = 32  # at a time, fewer than there are spare descriptors
READ_BYTES = 65536
TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
IDLE_S = 5  # of silence before TCP probes the other host


def notice_loss(s: socket.socket) -> None:
    """Let TCP notice soon that the other host has gone."""
    values = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, IDLE_S),
        (socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 2 * IDLE_S * 1000),
    ]
    for level, option, value in values:
        try:
            s.setsockopt(level, option, value)
        except OSError:
            pass


class Peer(Conn, asyncio.BufferedProtocol):
    """A connection with its socket."""

    def __init__(self, sockets: Sockets, signer: Optional[Signer]) -> None:
        super().__init__("", 0.0)
        self._sockets = sockets
        self._transport: Optional[asyncio.Transport] = None
        self.signer = signer
        self.heard = bytearray()  # of a line whose end has not come
        self.is_cut = False  # nothing of it counts any more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("",)
        self.host, self.since_s = plain_host(peer[0]), time.monotonic()
        if self._sockets.opened(self):
            notice_loss(transport.get_extra_info("socket"))

    def get_buffer(self, _: int) -> memoryview:
        return self._sockets.buffer

    def buffer_updated(self, count: int) -> None:
        self._sockets.hear(self, bytes(self._sockets.buffer[:count]))

    def eof_received(self) -> None:
        self.cut()

    def connection_lost(self, _: Optional[Exception]) -> None:
        self._sockets.lost(self)

    def cut(self) -> None:
        """Close it at once; what the kernel has is sent."""
        self.is_cut = True
        if self._transport is not None:
            self._transport.abort()

    def write(self, text: bytes) -> None:
        """Send a line, which stands above those that are queued."""
        if self._transport is not None:
            self._transport.write(text + b"\n")

    def push(self) -> None:
        """Send what is queued, once it may be; cut the line of a peer that takes too little."""
        assert self._transport is not None
        if self.out and (not self.signer or self.signer.is_sure):
            lines = [line.encode() for line in self.out]
            self.out.clear()
            self.write(b"\n".join(map(self.signer.sign, lines) if self.signer else lines))
        waiting = sum(map(len, self.out)) + self._transport.get_write_buffer_size()
        if waiting > limits.OUT_BYTES:
            self.cut()


class Sockets:
    """All of them.  `changed` is called before lines are sent, when something has happened, and
    returns in how many seconds to call it again even if nothing happens; None: it need not."""

    def __init__(
        self, dispatch: Dispatch, keys: List[bytes], changed: Callable[[], Optional[float]]
    ) -> None:
        self._dispatch, self._c, self._keys, self._changed = dispatch, dispatch.c, keys, changed
        self._loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_BYTES))  # of what comes, for a moment
        self._peers: Dict[Peer, None] = {}
        self._ready: Set[Peer] = set()  # with something to send, or to be closed
        self._askers: Set[Optional[asyncio.Task[Any]]] = set()
        self._listeners: List[socket.socket] = []  # for daemons, and for people
        self._servers: List[asyncio.AbstractServer] = []
        self._path = ""
        self._timer: Optional[asyncio.TimerHandle] = None
        self._due_s = float("inf")
        self._is_woken = False  # a flush follows
        self._events = 0
        self._again_s: Optional[float] = None
        self._places = limits.CONNECTIONS_MAX
        self._c.wake = self.wake
        self._c.flush = self.flush
        self._c.closes = self._close_later
        self._c.sends = self._send_later

    # ---- opening ----

    def _want_descriptors(self) -> None:
        """Raise the limit of descriptors as needed and allowed."""
        wanted = limits.CONNECTIONS_MAX + 128
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= soft < wanted:
            soft = wanted if hard < 0 else min(hard, wanted)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            except (OSError, ValueError):
                soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._places = max(min(limits.CONNECTIONS_MAX, soft - limits.DESCRIPTORS_SPARE), 1)

    def listen(self, host: str, port: int, family: int) -> int:
        """Listen for daemons and workers; the port.  OSError: it cannot be."""
        self._want_descriptors()
        s = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listeners.append(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
        s.listen(BACKLOG)
        return int(s.getsockname()[1])

    def listen_unix(self, path: str) -> None:
        """Listen for people.  It replaces the socket of an ended controller, but not one that
        answers.  OSError: it cannot be."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            _check_free(path)
            s.bind(path)
            s.listen(limits.ASKERS_MAX)
        except OSError:
            s.close()
            raise
        self._listeners.append(s)
        self._path = path

    def new_peer(self) -> Peer:
        """A connection that begins."""
        return Peer(self, Signer(self._keys) if self._keys else None)

    async def start(self) -> None:
        """Begin to accept, and to run timers."""
        listener, *people = self._listeners
        create = self._loop.create_server(self.new_peer, sock=listener, backlog=ACCEPTS_MAX)
        self._servers.append(await create)
        listener.listen(BACKLOG)  # that may wait
        for s in people:
            serve = asyncio.start_unix_server(self._ask, sock=s, limit=limits.LINE_BYTES)
            self._servers.append(await serve)
        self.wake(time.monotonic())

    def shut(self) -> None:
        """Close everything."""
        self._dispatch.drafting.stop()
        for task in self._askers:
            if task is not None:
                task.cancel()
        for server in self._servers:
            server.close()
        for s in self._listeners:
            s.close()
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        for peer in list(self._peers):
            del self._peers[peer]
            peer.cut()

    # ---- accepting ----

    def _oldest(self, host: Optional[str]) -> Optional[Peer]:
        """The oldest connection that has not said who it is, of one host or of all."""
        found = [conn for conn in self._dispatch.nameless if host is None or conn.host == host]
        oldest = min(found, key=lambda conn: conn.since_s, default=None)
        return oldest if isinstance(oldest, Peer) else None

    def _find_place(self, host: str) -> bool:
        """Make room for a connection; False: there is none."""
        if sum(conn.host == host for conn in self._dispatch.nameless) >= limits.NAMELESS_MAX:
            oldest = self._oldest(host)
        elif len(self._peers) >= self._places:
            oldest = self._oldest(None)
        else:
            return True
        if oldest is not None:
            self._hang_up(oldest)
        return len(self._peers) < self._places

    def opened(self, peer: Peer) -> bool:
        """Take a connection; False: there is no place."""
        self._c.now_s = peer.since_s
        if not self._find_place(peer.host):
            self._loop.call_soon(peer.cut)  # after asyncio begins to read, which would outlive it
            return False
        self._peers[peer] = None
        self._dispatch.opened(peer)
        return True

    # ---- lines in ----

    def hear(self, peer: Peer, part: bytes) -> None:
        """Take what has come."""
        self._c.now_s = time.monotonic()
        end = part.rfind(b"\n")
        if end >= 0:
            lines = (bytes(peer.heard) + part[:end]).split(b"\n")
            peer.heard = bytearray(part[end + 1 :])
            for line in lines:
                self._take(peer, line)
        else:
            peer.heard += part
        if self._is_long(peer, peer.heard):
            peer.cut()

    @staticmethod
    def _is_long(peer: Peer, line: Union[bytes, bytearray]) -> bool:
        return len(line) >= (limits.LINE_BYTES if peer.is_named else limits.NAMELESS_BYTES)

    def _take(self, peer: Peer, line: bytes) -> None:
        """A whole line."""
        if peer.is_closing or peer.is_cut:
            return
        if self._is_long(peer, line):
            peer.cut()
            return
        if peer.signer is None:
            self._dispatch.line(peer, line)
            return
        try:
            said, answer = peer.signer.take(line)
        except Unsigned as unsigned:
            peer.write(str(unsigned).encode())
            peer.cut()
            return
        if answer is not None:
            peer.write(answer)
        if said is not None:
            self._dispatch.line(peer, said)

    # ---- closing ----

    def lost(self, peer: Peer) -> None:
        """A connection has ended, or was cut."""
        if self._peers.pop(peer, self) is not self:
            self._c.now_s = time.monotonic()
            self._dispatch.closed(peer)

    def _close_later(self, conn: Conn) -> None:
        """The controller has ended it: what is queued is sent first."""
        conn.is_closing = True
        self._send_later(conn)
        self.flush()

    def _send_later(self, conn: Conn) -> None:
        if isinstance(conn, Peer):
            self._ready.add(conn)

    def _hang_up(self, peer: Peer) -> None:
        """Close it at once."""
        self.lost(peer)
        peer.cut()

    # ---- timers, and what is sent ----

    def wake(self, at_s: float) -> None:
        """A tick is due at that time at the latest."""
        if at_s < self._due_s:
            self._due_s = at_s
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(at_s, self._tick)

    def _tick(self) -> None:
        """Run timers, after the lines that have come."""
        self._c.now_s = time.monotonic()
        self._due_s = -1.0  # whatever is due meanwhile is seen to
        due_s = self._dispatch.tick()
        self._due_s = float("inf")
        self.wake(due_s if self._again_s is None else min(due_s, self._again_s))
        self.flush()

    def flush(self) -> None:
        """Write what has changed, and send, after the lines that have come."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_woken = False
        self._c.now_s = time.monotonic()
        self._tell_changes()
        self._send_all()

    def _tell_changes(self) -> None:
        c = self._c
        due = self._again_s is not None and c.now_s >= self._again_s
        if c.events == self._events and not c.told and not due:
            return
        self._events, c.told = c.events, False
        again_s = self._changed()
        self._again_s = None if again_s is None else c.now_s + again_s
        if self._again_s is not None:
            self.wake(self._again_s)

    def _send_all(self) -> None:
        ready, self._ready = self._ready, set()
        for peer in ready:
            if peer not in self._peers:
                continue
            peer.push()
            if peer.is_closing:
                del self._peers[peer]
                peer.cut()

    # ---- people ----

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One line and its answer; the time of either is bounded."""
        task = asyncio.current_task()
        try:
            if len(self._askers) >= limits.ASKERS_MAX:
                return
            self._askers.add(task)
            line = await asyncio.wait_for(reader.readuntil(b"\n"), limits.ASK_S)
            self._c.now_s = time.monotonic()
            said = line[:-1].decode(errors="replace")
            answer = await orders.answer(self._c, said, self._dispatch.refuse)
            left = answer.encode(errors="replace") + b"\n"
            writer.transport.set_write_buffer_limits(0)
            for at in range(0, len(left), READ_BYTES):
                writer.write(left[at : at + READ_BYTES])
                await asyncio.wait_for(writer.drain(), limits.ASK_S)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            self._askers.discard(task)
            writer.transport.abort()


def _check_free(path: str) -> None:
    """Remove the socket of a controller that has ended; OSError: one answers there."""
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    except OSError as error:
        if error.errno is None:  # the path is too long
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from None
    else:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    finally:
        probe.close()
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass
