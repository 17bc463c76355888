#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The smallest worker of doc/protocol/base.md, whose sections and rules are named here.

    small.py PLAN IN OUT        as worker.py

It has neither fixed mode nor half types on the wire; tensors of half types it carries as bytes.  A worker
like it interoperates with libfanin's ranks if those have FANIN_HOSTS=0 and the switch's
address, not its name; else they begin with operations of their own.  Its checklist:

1. One UDP socket, as section 5.1 says.  CRC-32C.  Header codec, all other bytes and flags 0.
2. JOIN every 50 ms until WELCOME or REFUSE, with WIDE, and SUMMED if the others have it, window 0, path 0,
   `alive_ms` 10000, a random nonce, zeros up to 60 bytes; N and P of the others.  One out of range
   (section 2; the name: 4.1) gets no answer.  Check that `shards` is 1, or divide (section 5.1).  Drop a
   WELCOME whose `burst` or `path` is not 0.
3. BEAT, with the cookie, at once after WELCOME, of `job` 0 too, and every 50 ms until STATE READY, then
   every beat_ms, between operations too, until the first LEAVE.  STATE by section 3.7; 8 BEATs without any
   in FORMING: back to 2, with the same nonce.
4. Send fragments in order, with `seq`, place and priority 0: fragment n only when the result of n-W was
   taken, and all lower ones have been sent; so any limit on fragments in flight obeys R4.  The mark
   (section 6.2) is 0 without names, for a reduce or broadcast (root modulo 256) x 32.
5. One timer of 20 ms, which begins when something is in flight and nothing was, and anew with each result
   taken and each expiry.  When it runs out, a PROBE with INSIST, `last` 0xFFFF, for those of the 64 lowest
   fragments in flight that were last sent 20 ms ago or more.  Double the timer, not these 20 ms, as R5
   says; a NEED ends that, but does not start it anew.  On NEED without a bitmap and with the own `to`, or
   with the own bit, send the DATA again, with DIRECT.
6. Take results by section 6.4.  Join time, stall time and silence time, so that every call ends.
7. LEAVE as section 5.4 says: err 0 and nobody blamed when all operations are finished, otherwise the error,
   and the ranks that section 5.4 blames or the STATE FAILED has named.

Behind `fanin switch --policy atp|esa|grid` a worker needs places and WHO as well.
"""
from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional

import plans
from plans import Lossy

DATA, RESULT, PROBE, NEED = 1, 3, 4, 5
JOIN, WELCOME, REFUSE, BEAT, STATE, LEAVE = range(16, 22)
FIRST, LAST, REDUCE, ROOT, EMPTY, SUMMED, DIRECT, INSIST = 1, 2, 4, 8, 0x10, 0x20, 0x100, 0x400
RESULT_FLAGS = FIRST | LAST | REDUCE | EMPTY | SUMMED | 0x40 | 0x80 | 0x200
AGGREGATOR = 0xFFFF
BODY_BYTES = {WELCOME: 42, REFUSE: 11, STATE: 57}
NONE, FORMING, READY, FAILED, LEFT = range(5)  # of STATE; the worker has the middle ones too
JOINING, LEAVING = -1, -2
STEP, TIMER = 0.050, 0.020


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def table_entry(x: int) -> int:
    for _ in range(8):
        x = x >> 1 ^ (0x82F63B78 if x & 1 else 0)
    return x


TABLE = [table_entry(x) for x in range(256)]


class Worker:
    def __init__(self, o: plans.Options) -> None:
        self.o, self.nonce, self.state = o, secrets.randbits(64) or 1, JOINING
        self.socket = Lossy(o, o.address)
        self.job = self.epoch = self.window = self.workers = 0
        self.began = self.progress = self.heard = time.monotonic()
        self.control = 0.0  # when the next JOIN or BEAT is due
        self.missing: List[int] = []
        self.missing_of, self.left, self.cookie = -1, False, bytes(8)
        self.ops: List[plans.Request] = []  # not all sent yet
        self.next = 0  # fragment to send next
        self.end = 0  # behind the last fragment of all operations
        self.flights: Dict[int, List[Any]] = {}  # operation, index there, DATA, time
        self.counters = {"resends": 0, "replays": 0}

    # Messages.

    def send(self, kind: int, fields: bytes, body: bytes = b"", flags: int = 0) -> None:
        job, epoch = (0, 0) if kind == JOIN else (self.job, self.epoch)
        head = struct.pack("<BBHIIHH", 2, kind, flags, job, epoch, self.o.rank, 0) + \
            fields.ljust(16, b"\0")
        if kind in (JOIN, BEAT, LEAVE):
            body = body.ljust(60, b"\0")
        covered = b"" if kind == DATA and not flags & SUMMED else body
        self.socket.send(head + struct.pack("<I", crc32c(head + covered)) + body)

    def receive(self) -> None:
        data = self.socket.receive()
        if data is None or len(data) < 36:  # none there, or lost, or too short
            return
        version, kind, flags, job, epoch, sender, _ = struct.unpack_from("<BBHIIHH", data)
        body, nonce = data[36:], struct.unpack_from("<Q", data, 16)[0]
        covered = b"" if kind == RESULT and not flags & SUMMED else body
        if struct.unpack_from("<I", data, 32)[0] != crc32c(data[:32] + covered):
            return
        if version != 2:
            if kind == REFUSE and nonce == self.nonce and self.state == JOINING:
                raise plans.JobError(-17, f"the aggregator speaks version {version}")
            return
        tag = struct.unpack_from("<H", data, 24)[0] & 0xFFF if kind in (RESULT, NEED) else 0
        if flags & ~(RESULT_FLAGS if kind == RESULT else 0) or tag > 256 or \
                len(body) < BODY_BYTES.get(kind, 0):
            return
        if kind in (WELCOME, REFUSE):
            if self.state == JOINING and nonce == self.nonce:
                self.take_answer(kind, job, epoch, data[24], body)
        elif (job, epoch, sender) == (self.job, self.epoch, AGGREGATOR) and self.state != JOINING:
            self.heard = time.monotonic()
            if kind == STATE and nonce in (0, self.nonce):
                self.take_state(body, nonce)
            elif self.state == READY and kind == NEED:
                self.obey_need(data)
            elif self.state == READY and kind == RESULT:
                self.take_result(data, flags)

    # Membership: section 5.4.

    def take_answer(self, kind: int, job: int, epoch: int, path: int, body: bytes) -> None:
        if kind == REFUSE:
            code, rank, have, want = struct.unpack_from("<bHII", body)
            if code < 0:
                raise plans.JobError(code, f"refused: rank {rank}, have {have:#x}, want {want:#x}")
            return
        window, shards, beat_ms, alive_ms = struct.unpack_from("<HHII", body)
        if not 2 <= window <= 4096 or shards != 1 or not 1 <= beat_ms <= 600000 or \
                not 100 <= alive_ms <= 600000 or any(body[31:33]) or path:
            return
        self.job, self.epoch, self.window, self.alive = job, epoch, window, alive_ms / 1000
        self.beat = max(0.001, min(beat_ms / 1000, self.o.timeout / 4))
        self.state, self.control, self.cookie = FORMING, 0.0, body[34:42]

    def take_state(self, body: bytes, nonce: int) -> None:
        frag, state, code = struct.unpack_from("<QBb", body)
        bits = int.from_bytes(body[25:57], "little")
        missing = [r for r in range(self.o.ranks) if bits >> r & 1]
        if state == LEFT or self.state == LEAVING:
            self.left |= state == LEFT and nonce == self.nonce
        elif self.state == FORMING and nonce == 0 and state in (READY, FAILED):
            self.control = 0.0
        elif state == FAILED and code < 0:
            raise plans.JobError(code, f"failed: error {code}, ranks {missing}", missing)
        elif state == NONE and nonce == 0:
            return
        elif state == NONE and self.state == READY:
            raise plans.JobError(-16, "the aggregator does not know the job any more")
        elif state == NONE:
            self.state, self.control = JOINING, 0.0
        elif state == READY and self.state == FORMING:
            self.workers = struct.unpack("<I", body[57:61])[0] if len(body) >= 61 else 0
            self.state, self.progress = READY, time.monotonic()
        elif state == self.state:
            self.missing, self.missing_of = missing, frag

    def lowest(self) -> Optional[int]:
        if self.flights:
            return min(self.flights)
        return self.next if self.next < self.end else None

    def check_times(self, now: float) -> None:
        if self.state != READY:
            if now - self.began > self.o.timeout and self.state == JOINING:
                raise plans.JobError(-5, "the aggregator does not answer")
            if now - self.began > self.o.timeout:
                raise plans.JobError(-6, f"waiting for ranks {self.missing}", self.missing)
        elif now - self.heard > self.alive:
            raise plans.JobError(-5, "nothing heard of the aggregator")
        elif self.lowest() is not None and now - self.progress > self.o.timeout:
            blamed = self.missing if self.missing_of == self.lowest() else []
            raise plans.JobError(-9, f"no result; waiting for ranks {blamed}", blamed)

    def send_control(self) -> None:
        nonce, o = struct.pack("<Q", self.nonce), self.o
        if self.state == JOINING:
            options = 4 | (2 if o.summed else 0)
            self.send(JOIN, nonce, struct.pack("<HHHBIB", o.ranks, o.payload, 0, options,
                                               o.alive_ms, len(o.job)) + o.job.encode())
            return
        frag = self.lowest() if self.state == READY else None
        self.send(BEAT, nonce + struct.pack("<Q", frag or 0),
                  (b"\0" if frag is None else b"\2") + self.cookie)

    def step(self) -> None:
        """Do what is due, then wait a little for a datagram."""
        now = time.monotonic()
        self.check_times(now)
        if now >= self.control:
            self.control = now + (self.beat if self.state == READY else STEP)
            self.send_control()
        if self.state == READY:
            self.fill(now)
            late = [n for n in sorted(self.flights) if now - self.flights[n][3] >= TIMER]
            for n in late[:64]:
                self.flights[n][3] = now
                self.send(PROBE, struct.pack("<Q", n), flags=INSIST)
        if select.select([self.socket], [], [], 0.005)[0]:
            self.receive()

    def join(self) -> None:
        while self.state != READY:
            self.step()

    def leave(self, error: Optional[plans.JobError]) -> None:
        if self.state == JOINING:
            return
        self.state = LEAVING
        for _ in range(5):
            blamed = sum(1 << r for r in error.blamed) if error else 0
            self.send(LEAVE, struct.pack("<Q", self.nonce),
                      struct.pack("<b", error.code if error else 0) + blamed.to_bytes(32, "little"))
            end = time.monotonic() + STEP
            while not self.left and time.monotonic() < end:
                if select.select([self.socket], [], [], 0.01)[0]:
                    self.receive()
            if self.left:
                return

    # Operations: section 6.

    def start(self, op: plans.Request) -> plans.Request:
        op.full = 1 if op.op == plans.BARRIER else self.o.payload // op.size
        op.first, op.left = self.end, max(1, -(-op.count // op.full))
        op.results = [b""] * op.left
        self.progress = time.monotonic() if self.lowest() is None else self.progress
        self.end += op.left
        self.ops.append(op)
        return op

    def fill(self, now: float) -> None:
        while self.next < self.end and self.next - self.window not in self.flights:
            op = self.ops[0]
            i, mine = self.next - op.first, op.root == self.o.rank
            count = min(op.full, op.count - i * op.full)
            flags = (FIRST if i == 0 else 0) | (LAST if i + 1 == len(op.results) else 0) | \
                (ROOT if mine else 0) | (SUMMED if self.o.summed else 0) | \
                (REDUCE if op.root is not None and op.op != plans.BCAST else 0) | \
                (EMPTY if op.op == plans.BCAST and not mine else 0)
            fields = struct.pack("<QHHhBB", self.next, 0, count, (op.root or 0) << 5,
                                 op.op << 4 | op.dtype, 0)
            begin = i * op.full * op.size
            body = b"" if flags & EMPTY else op.data[begin:begin + count * op.size]
            self.flights[self.next] = [op, i, (fields, body, flags), now]
            self.send(DATA, fields, body, flags)
            self.next += 1
            if flags & LAST:
                self.ops.pop(0)

    def obey_need(self, data: bytes) -> None:
        frag, to, words = struct.unpack_from("<QHxB", data, 16)
        asked = int.from_bytes(data[36:], "little") if words else 1 << to >> 1
        if words not in (0, -(-self.o.ranks // 64)) or len(data) != 36 + 8 * words or \
                asked >> self.o.ranks or not asked >> self.o.rank & 1 or frag not in self.flights:
            return
        fields, body, flags = self.flights[frag][2]
        self.flights[frag][3] = time.monotonic()
        self.counters["resends"] += 1
        self.send(DATA, fields, body, flags | DIRECT)

    def take_result(self, data: bytes, flags: int) -> None:
        """Section 6.4."""
        frag, _, count, _, kind = struct.unpack_from("<QHHhB", data, 16)
        if frag not in self.flights:
            return
        op, i, (fields, _, mine), _ = self.flights[frag]
        empty = bool(mine & REDUCE) and not mine & ROOT
        if struct.unpack("<10xHhB", fields[:15])[::2] != (count, kind) or \
                (flags ^ mine) & (FIRST | LAST | REDUCE | (SUMMED if self.o.summed else 0)) or \
                bool(flags & EMPTY) != empty or \
                len(data) != 36 + (0 if empty else count * op.size):
            return
        del self.flights[frag]
        op.results[i] = data[36:]
        op.left -= 1
        self.counters["replays"] += bool(flags & 0x200)
        self.progress = time.monotonic()

    def wait(self, op: plans.Request) -> bytes:
        while op.left:
            self.step()
        return b"".join(op.results)

    def idle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()


if __name__ == "__main__":
    sys.exit(plans.main(sys.argv, Worker(plans.options_from(dict(os.environ)))))
