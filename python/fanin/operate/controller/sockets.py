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
from typing import Callable, Dict, List, Optional, Set

from . import orders
from .lines import plain_host
from .dispatch import Dispatch
from .limits import (
    ASK_S,
    ASKERS_MAX,
    CONNECTIONS_MAX,
    DESCRIPTORS_SPARE,
    LINE_BYTES,
    NAMELESS_BYTES,
    NAMELESS_MAX,
    OUT_BYTES,
    PAUSE_S,
)
from .model import Conn
from .sign import Signer, Unsigned

BACKLOG = 128
ACCEPTS_MAX = 32
READ_BYTES = 65536
SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
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


class Peer(Conn):
    """A connection with its socket."""

    def __init__(self, s: socket.socket, host: str, now_s: float, signer: Optional[Signer]) -> None:
        super().__init__(host, now_s)
        self.socket = s
        self.fd = s.fileno()
        self.signer = signer
        self.heard = bytearray()  # of a line whose end has not come
        self.left = b""  # to be sent
        self.is_broken = False
        self.is_stuck = False  # the loop waits until more can be sent

    def pack(self) -> bool:
        """Move queued lines to what is sent; False: more waits than is allowed."""
        if not self.out or (self.signer and not self.signer.is_sure):
            return sum(map(len, self.out)) <= OUT_BYTES
        lines = [line.encode() for line in self.out]
        self.out.clear()
        if self.signer:
            lines = [self.signer.sign(line) for line in lines]
        self.left += b"\n".join(lines) + b"\n"
        return len(self.left) <= OUT_BYTES

    def push(self) -> None:
        """Send what can be sent now; OSError: the connection is broken."""
        while self.left:
            try:
                sent = self.socket.send(self.left, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            self.left = self.left[sent:]


class Sockets:
    """All of them.  `changed` is called before lines are sent, when something has happened, and
    returns in how many seconds to call it again even if nothing happens; None: it need not."""

    def __init__(
        self, dispatch: Dispatch, keys: List[bytes], changed: Callable[[], Optional[float]]
    ) -> None:
        self._dispatch, self._c, self._keys, self._changed = dispatch, dispatch.c, keys, changed
        self._loop = asyncio.get_running_loop()
        self._peers: Dict[Peer, None] = {}
        self._ready: Set[Peer] = set()  # with something to send, or to be closed
        self._askers: Set[asyncio.Task[None]] = set()
        self._listener: Optional[socket.socket] = None
        self._unix: Optional[socket.socket] = None
        self._path = ""
        self._timer: Optional[asyncio.TimerHandle] = None
        self._due_s = float("inf")
        self._is_woken = False  # a flush follows
        self._events = 0
        self._again_s: Optional[float] = None
        self._places = CONNECTIONS_MAX
        self._c.wake = self.wake
        self._c.flush = self.flush
        self._c.closes = self._close_later
        self._c.sends = self._send_later

    # ---- opening ----

    def _want_descriptors(self) -> None:
        """Raise the limit of descriptors as needed and allowed."""
        wanted = CONNECTIONS_MAX + 128
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= soft < wanted:
            soft = wanted if hard < 0 else min(hard, wanted)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            except (OSError, ValueError):
                soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._places = max(min(CONNECTIONS_MAX, soft - DESCRIPTORS_SPARE), 1)

    def listen(self, host: str, port: int, family: int) -> int:
        """Listen for daemons and workers; the port.  OSError: it cannot be."""
        self._want_descriptors()
        s = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener = s
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
            s.listen(ASKERS_MAX)
        except OSError:
            s.close()
            raise
        self._unix, self._path = s, path

    def start(self) -> None:
        """Begin to accept, and to run timers."""
        self._accept_again()
        self.wake(time.monotonic())

    def shut(self) -> None:
        """Close everything."""
        self._dispatch.drafting.stop()
        for task in self._askers:
            task.cancel()
        for s in (self._listener, self._unix):
            if s is not None:
                self._loop.remove_reader(s)
                s.close()
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        for peer in list(self._peers):
            self._drop(peer)

    # ---- accepting ----

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept, self._listener)
        if self._unix is not None:
            self._loop.add_reader(self._unix, self._accept, self._unix)

    def _run_short(self) -> None:
        """Of descriptors: close a connection that has not said who it is, or stop accepting for a
        while."""
        oldest = self._oldest(None)
        if oldest is not None:
            self._hang_up(oldest)
            return
        for s in (self._listener, self._unix):
            if s is not None:
                self._loop.remove_reader(s)
        self._loop.call_later(PAUSE_S, self._accept_again)

    def _accept(self, listener: socket.socket) -> None:
        """Take connections that wait, ACCEPTS_MAX at a time, so that others get their turn."""
        for _ in range(ACCEPTS_MAX):
            try:
                s, at = listener.accept()
            except OSError as error:
                if error.errno in SHORTAGE:
                    self._run_short()
                return
            s.setblocking(False)
            if listener is self._unix:
                self._add_asker(s)
            else:
                self._add_peer(s, plain_host(at[0]))

    def _oldest(self, host: Optional[str]) -> Optional[Peer]:
        """The oldest connection that has not said who it is, of one host or of all."""
        found = [conn for conn in self._dispatch.nameless if host is None or conn.host == host]
        oldest = min(found, key=lambda conn: conn.since_s, default=None)
        return oldest if isinstance(oldest, Peer) else None

    def _find_place(self, host: str) -> bool:
        """Make room for a connection; False: there is none."""
        if sum(conn.host == host for conn in self._dispatch.nameless) >= NAMELESS_MAX:
            oldest = self._oldest(host)
        elif len(self._peers) >= self._places:
            oldest = self._oldest(None)
        else:
            return True
        if oldest is not None:
            self._hang_up(oldest)
        return len(self._peers) < self._places

    def _add_peer(self, s: socket.socket, host: str) -> None:
        self._c.now_s = time.monotonic()
        if not self._find_place(host):
            s.close()
            return
        notice_loss(s)
        signer = Signer(self._keys) if self._keys else None
        peer = Peer(s, host, self._c.now_s, signer)
        self._peers[peer] = None
        self._dispatch.opened(peer)
        self._loop.add_reader(peer.fd, self._hear, peer)

    # ---- lines in ----

    def _hear(self, peer: Peer) -> None:
        """Take what has come."""
        try:
            part = peer.socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            part = b""
        self._c.now_s = time.monotonic()
        if not part:
            peer.is_broken = True
            self._done_with(peer)
            return
        end = part.rfind(b"\n")
        if end >= 0:
            lines = (bytes(peer.heard) + part[:end]).split(b"\n")
            peer.heard = bytearray(part[end + 1 :])
            for line in lines:
                self._take(peer, line)
        else:
            peer.heard += part
        most = LINE_BYTES if peer.is_named else NAMELESS_BYTES
        if len(peer.heard) >= most and not peer.is_closing:
            peer.is_broken = True
            self._done_with(peer)

    def _take(self, peer: Peer, line: bytes) -> None:
        """A whole line."""
        if peer.is_closing or peer.is_broken:
            return
        if len(line) >= (LINE_BYTES if peer.is_named else NAMELESS_BYTES):
            peer.is_broken = True
            self._done_with(peer)
            return
        if peer.signer is None:
            self._dispatch.line(peer, line)
            return
        try:
            said, answer = peer.signer.take(line)
        except Unsigned as unsigned:
            peer.left += str(unsigned).encode() + b"\n"
            peer.out.clear()
            peer.is_broken = True
            self._done_with(peer)
            return
        if answer is not None:
            peer.left += answer + b"\n"
            self._ready.add(peer)
            self.flush()
        if said is not None:
            self._dispatch.line(peer, said)

    # ---- closing ----

    def _close_later(self, conn: Conn) -> None:
        """The controller has ended it: what is queued is sent first."""
        if isinstance(conn, Peer):
            conn.is_closing = True
            self._done_with(conn)

    def _send_later(self, conn: Conn) -> None:
        if isinstance(conn, Peer):
            self._ready.add(conn)

    def _done_with(self, peer: Peer) -> None:
        if peer in self._peers:
            self._loop.remove_reader(peer.fd)
            self._ready.add(peer)
            self.flush()

    def _hang_up(self, peer: Peer) -> None:
        """Close it at once."""
        self._drop(peer)
        self._dispatch.closed(peer)

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer, self) is self:
            return
        self._ready.discard(peer)
        self._loop.remove_reader(peer.fd)
        if peer.is_stuck:
            self._loop.remove_writer(peer.fd)
        peer.socket.close()

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
        self._sweep()
        self._tell_changes()
        self._send_all()

    def _sweep(self) -> None:
        """Tell of connections that have ended by themselves."""
        for peer in [peer for peer in self._ready if peer.is_broken and not peer.is_closing]:
            peer.is_closing = True
            self._dispatch.closed(peer)

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
            try:
                fits = peer.pack()
                peer.push()
            except OSError:
                fits = False
            if peer.is_closing:
                self._drop(peer)
            elif not fits:
                peer.is_broken = True
                self._done_with(peer)
            elif bool(peer.left) != peer.is_stuck:
                self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        """Let the loop wait where not all could be sent, and no longer where it could."""
        peer.is_stuck = bool(peer.left)
        if peer.is_stuck:
            self._loop.add_writer(peer.fd, self._send_more, peer)
        else:
            self._loop.remove_writer(peer.fd)

    def _send_more(self, peer: Peer) -> None:
        """The rest of what was sent in part."""
        try:
            peer.push()
        except OSError:
            peer.is_broken = True
            self._done_with(peer)
            return
        if not peer.left:
            self._watch(peer)

    # ---- people ----

    def _add_asker(self, s: socket.socket) -> None:
        if len(self._askers) >= ASKERS_MAX:
            s.close()
            return
        task = self._loop.create_task(self._ask(s))
        self._askers.add(task)
        task.add_done_callback(self._askers.discard)

    async def _ask(self, s: socket.socket) -> None:
        """One line and its answer; the time of either is bounded."""
        loop, line = self._loop, b""
        try:
            by_s = loop.time() + ASK_S
            while b"\n" not in line and len(line) < LINE_BYTES:
                part = await asyncio.wait_for(loop.sock_recv(s, READ_BYTES), by_s - loop.time())
                if not part:
                    return
                line += part
            said = line.split(b"\n", 1)[0].decode(errors="replace")
            self._c.now_s = time.monotonic()
            answer = await orders.answer(self._c, said, self._dispatch.refuse)
            left = answer.encode(errors="replace") + b"\n"
            while left:
                await asyncio.wait_for(loop.sock_sendall(s, left[:READ_BYTES]), ASK_S)
                left = left[READ_BYTES:]
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            s.close()


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
