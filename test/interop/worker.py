#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fanin worker, written from doc/protocol/base.md and recovery.md, and nothing else.

It exists to find out whether they suffice.  "Section" means a section of them.  It does all
that a worker may do: shards, multicast, sequence numbers, gap rule, probes, timer, congestion
window.

    worker.py PLAN IN OUT       as plans.py says; options by the FANIN_* variables
"""
from __future__ import annotations

import math
import os
import secrets
import select
import socket
import struct
import sys
import time
from typing import Dict, List, Optional, Tuple

from parts import BlockPart, FixedPart, Part
from plans import JobError, Lossy, Options, Request, main, options_from
from window import Window
from wire import (AGGREGATOR, AVG, BEAT, BLOCK8, FLOAT32, GROUP, HEARD, JOIN, LEAVE, MISS, NEED,
                  NUMBERED, NUMBERS, QUAD, QUADS, REFUSE, RESULT, STATE, SUM, SUMMED_JOB,
                  TO_WORKER, VERSION, WAITING, WELCOME, WHO, WIDE, ECN, Message, bitmap_of, decode,
                  encode, ranks_of, sealed)

# Section 4.6: what a worker finds by itself.
UNREACHABLE, TIMEOUT, RANK_LEFT, STALLED, RESTARTED, BAD_VERSION = -5, -6, -8, -9, -16, -17

JOINING, FORMING, READY, LEAVING = "joining", "forming", "ready", "leaving"
STATE_NONE, STATE_FORMING, STATE_READY, STATE_FAILED, STATE_LEFT = range(5)
RETRY = 0.050  # between JOINs, LEAVEs, and BEATs until READY
BEAT_PAUSE = 0.001  # at least, after WHO


class Connection:
    """A worker on one shard: sections 5.1 to 5.4."""

    def __init__(self, o: Options, address: Tuple[str, int], began: float) -> None:
        self.o, self.began, self.address = o, began, address
        self.socket = Lossy(o, address)
        self.group: Optional[socket.socket] = None
        self.nonce = secrets.randbits(64) or 1
        self.window: Optional[Window] = None
        self.state, self.job, self.epoch, self.shards = JOINING, 0, 0, 0
        self.cookie = bytes(8)
        self.alive = self.beat = 0.0
        self.next_control = self.heard = self.progress = self.last_beat = 0.0
        self.missing: List[int] = []
        self.missing_of = -1  # fragment that `missing` is about
        self.group_heard = self.left = False
        self.by_group = 0  # results

    def transmit(self, m: Message) -> None:
        if m.type != JOIN:
            m.job, m.epoch = self.job, self.epoch
        m.sender = self.o.rank
        self.socket.send(encode(m))

    def join(self) -> None:
        o, name = self.o, self.o.job.encode()
        options = (SUMMED_JOB if o.summed else 0) | (WIDE if o.wide else 0) | \
            (QUAD if o.wire == BLOCK8 else 0) | (NUMBERS if o.numbers else 0) | (GROUP if o.group else 0)
        body = struct.pack("<HHHBIB", o.ranks, o.payload, o.window, options, o.alive_ms, len(name))
        self.transmit(Message(JOIN, nonce=self.nonce, body=body + name))

    def send_beat(self, now: float) -> None:
        lowest = self.window.lowest() if self.window and self.state == READY else None
        flags = (WAITING if lowest is not None else 0) | (HEARD if self.group_heard else 0)
        self.last_beat = now
        self.transmit(Message(BEAT, nonce=self.nonce, frag=lowest or 0,
                              body=bytes([flags]) + self.cookie))

    def leave(self, error: Optional[JobError]) -> None:
        blamed = error.blamed if error else ()
        body = struct.pack("<b", error.code if error else 0) + bitmap_of(blamed)
        self.transmit(Message(LEAVE, nonce=self.nonce, body=body))

    def sockets(self) -> List[object]:
        return [self.socket] + ([self.group] if self.group else [])

    def receive(self) -> None:
        """Everything that has arrived, up to a bound."""
        for _ in range(64):
            if not select.select([self.socket], [], [], 0)[0]:
                break
            data = self.socket.receive()
            if data is not None:
                self._take(data, self.socket.congested, False)
        for _ in range(64):
            try:
                data, source = self.group.recvfrom(65536) if self.group else (b"", ("", 0))
            except OSError:
                return
            if source[:2] == self.address and not self.socket.loses():
                self._take(data, False, True)

    def _take(self, data: bytes, congested: bool, by_group: bool) -> None:
        if data[:1] != bytes([VERSION]):
            self._other_version(data)
            return
        m = decode(data)
        if m is None or m.type not in TO_WORKER:
            return
        if m.type in (WELCOME, REFUSE):
            if self.state == JOINING and m.nonce == self.nonce:
                self._answer(m, time.monotonic())
        elif m.type == STATE and self.state == JOINING:
            if m.nonce == self.nonce:  # of the job that this nonce was in: section 5.3
                self._state(m, time.monotonic(), by_group)
        elif (m.job, m.epoch, m.sender) == (self.job, self.epoch, AGGREGATOR):
            m.flags |= ECN if congested and m.type == RESULT else 0
            self.by_group += by_group and m.type == RESULT
            self._handle(m, time.monotonic(), by_group)

    def _other_version(self, data: bytes) -> None:
        """Section 5.6."""
        if self.state == JOINING and len(data) >= 36 and data[1] == REFUSE \
                and struct.unpack_from("<Q", data, 16)[0] == self.nonce and sealed(data) == data:
            raise JobError(BAD_VERSION, f"the aggregator speaks version {data[0]}")

    def _handle(self, m: Message, now: float, by_group: bool) -> None:
        if m.type == STATE:
            if m.nonce not in (0, self.nonce):
                return
            self._state(m, now, by_group)
        elif m.type == WHO and self.state in (FORMING, READY):
            if now - self.last_beat >= BEAT_PAUSE:
                self.send_beat(now)
        elif self.state == READY and self.window:
            if m.type == NEED:
                self.window.need(m, now)
            elif m.type == MISS:
                self.window.miss(m, now)
            elif m.type == RESULT and self.window.result(m, now):
                self.progress = now
        self.heard = now

    def _answer(self, m: Message, now: float) -> None:
        if m.type == REFUSE:
            code, rank, have, want = struct.unpack_from("<bHII", m.body)
            if code < 0:
                raise JobError(code, f"refused: rank {rank}, have {have:#x}, want {want:#x}")
            return
        slots, shards, beat_ms, alive_ms, family, port = struct.unpack_from("<HHIIBH", m.body)
        burst, flags = struct.unpack_from("<HB", m.body, 31)
        if not 2 <= slots <= (self.o.window or 4096) or not 1 <= shards <= 64 or burst or m.path \
                or not 1 <= beat_ms <= 600000 or not 100 <= alive_ms <= 600000 \
                or family not in (0, 4, 6):
            return
        if self.o.wire == BLOCK8 and not flags & QUADS:
            raise JobError(BAD_VERSION, "an aggregator without BLOCK8")
        self.job, self.epoch, self.shards, self.cookie = m.job, m.epoch, shards, m.body[34:42]
        self.beat = max(min(beat_ms / 1000, self.o.timeout / 4), 0.001)
        self.alive = alive_ms / 1000
        self.window = Window(slots, self.transmit, self.o.rank, self.o.ranks,
                             bool(self.o.numbers and flags & NUMBERED))
        self.state, self.heard, self.next_control = FORMING, now, now  # BEAT at once
        if self.o.group and family == 4 and self.group is None:
            self._listen(m.body[15:19], port)

    def _listen(self, group: bytes, port: int) -> None:
        """Section 5.2, IPv4 only."""
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            s.bind((socket.inet_ntoa(group), port))
            here = socket.inet_aton(self.socket.socket.getsockname()[0])
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + here)
            s.setblocking(False)
        except OSError:
            s.close()
            return
        self.group = s

    def _state(self, m: Message, now: float, by_group: bool) -> None:
        frag, state, code = struct.unpack_from("<QBb", m.body)
        missing = [r for r in ranks_of(m.body[25:57]) if r < self.o.ranks]
        if self.state == LEAVING:
            self.left |= state == STATE_LEFT and m.nonce == self.nonce
            return
        if state == STATE_FAILED and by_group:  # no aggregator says it so
            return
        if self.state == FORMING and m.nonce == 0 and state in (STATE_READY, STATE_FAILED):
            self.next_control = now  # who is no member may know the epoch yet
            return
        if state == STATE_FAILED and code < 0:
            raise JobError(code, f"the job failed: error {code}, ranks {missing}", missing)
        if self.state == JOINING:
            return
        if state == STATE_NONE and m.nonce == 0:
            return
        if state == STATE_NONE:
            if self.state == READY:
                raise JobError(RESTARTED, "the aggregator does not know the job any more")
            self.state, self.window, self.next_control = JOINING, None, now
            self.group_heard = False
        elif state == STATE_READY and self.state == FORMING:
            told = struct.unpack_from("<I", m.body, 57)[0] if len(m.body) >= 61 else 0
            self.o.workers = told or self.o.ranks
            self.state, self.progress, self.next_control = READY, now, now + self.beat
        elif state == (STATE_READY if self.state == READY else STATE_FORMING):
            self.missing, self.missing_of = missing, frag
            if by_group and self.state == FORMING:
                self.group_heard = True
                self.send_beat(now)

    def tick(self, now: float) -> float:
        """Do what is due; return when there is more to do."""
        if self.state != READY and now - self.began > self.o.timeout:
            if self.state == JOINING:
                raise JobError(UNREACHABLE, "the aggregator does not answer")
            raise JobError(TIMEOUT, f"waiting for ranks {self.missing}", self.missing)
        if now >= self.next_control:
            self.next_control = now + (self.beat if self.state == READY else RETRY)
            if self.state == JOINING:
                self.join()
            else:
                self.send_beat(now)
        if self.state != READY or self.window is None:
            return self.next_control
        self._check_times(now)
        self.window.fill(now)
        if now >= self.window.due():
            self.window.expire(now)
        return min(self.next_control, self.window.due())

    def _check_times(self, now: float) -> None:
        lowest = self.window.lowest() if self.window else None
        if now - self.heard > self.alive:
            raise JobError(UNREACHABLE, "nothing heard of the aggregator")
        if lowest is not None and now - self.progress > self.o.timeout:
            blamed = self.missing if self.missing_of == lowest else []
            raise JobError(STALLED, f"no result; waiting for ranks {blamed}", blamed)

    def start(self, request: Request, begin: int, end: int, now: float) -> Part:
        assert self.window is not None
        if self.window.lowest() is None:
            self.progress = now
        if self.o.fixed and request.dtype == FLOAT32 and request.op in (SUM, AVG):
            part: Part = FixedPart(self.o, request, begin, end, self.window.groups)
        elif BlockPart.carries(self.o, request):
            part = BlockPart(self.o, request, begin, end)
        else:
            part = Part(self.o, request, begin, end)
        self.window.add(part)
        return part


class Worker:
    def __init__(self, o: Options) -> None:
        self.o = o
        self.connections = [Connection(o, o.address, time.monotonic())]

    def _pump(self) -> None:
        due = math.inf
        for connection in self.connections:
            due = min(due, connection.tick(time.monotonic()))
        wait = max(0.0, min(due - time.monotonic(), 0.1))
        select.select([s for connection in self.connections for s in connection.sockets()], [], [], wait)
        for connection in self.connections:
            connection.receive()

    def join(self) -> None:
        """All shards, until the job is READY on each."""
        host, port = self.o.address
        while any(connection.state != READY for connection in self.connections):
            self._pump()
            shards, began = self.connections[0].shards, self.connections[0].began
            if len(self.connections) == 1 and shards > 1:
                self.connections += [Connection(self.o, (host, port + i), began) for i in range(1, shards)]

    def start(self, request: Request) -> List[Part]:
        c, s, now = request.count, len(self.connections), time.monotonic()
        return [connection.start(request, c * i // s, c * (i + 1) // s, now)
                for i, connection in enumerate(self.connections)]

    def wait(self, parts: List[Part]) -> bytes:
        while any(part.left for part in parts):
            self._pump()
        return b"".join(part.result() for part in parts)

    def idle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._pump()

    def leave(self, error: Optional[JobError]) -> None:
        """Section 5.4.  After a failure that the aggregator told of, a LEAVE is a courtesy."""
        connections = [connection for connection in self.connections if connection.state != JOINING]
        for connection in connections:
            connection.state = LEAVING
        for _ in range(5):
            staying = [connection for connection in connections if not connection.left]
            for connection in staying:
                connection.leave(error)
            end = time.monotonic() + RETRY
            while any(not connection.left for connection in staying) and time.monotonic() < end:
                sockets = [connection.socket for connection in staying]
                select.select(sockets, [], [], max(0.0, end - time.monotonic()))
                for connection in staying:
                    connection.receive()
        for connection in self.connections:
            connection.socket.close()

    @property
    def counters(self) -> Dict[str, int]:
        total = {"by_group": sum(connection.by_group for connection in self.connections)}
        for connection in self.connections:
            for name, value in (connection.window.counters if connection.window else {}).items():
                total[name] = total.get(name, 0) + value
        return total


if __name__ == "__main__":
    sys.exit(main(sys.argv, Worker(options_from(dict(os.environ)))))
