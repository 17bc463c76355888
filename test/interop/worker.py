#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small fanin worker, written from doc/protocol.md and nothing else.

It exists to find out whether that document suffices.  "Section" means a section of it.  No
multicast; all else that a worker may do: shards, gap rule, probes, timer, congestion window.

    worker.py PLAN IN OUT       options by the FANIN_* variables that libfanin reads

PLAN has one operation a line, `VERB DTYPE OP COUNT ROOT`; `wait` for all those before it; and
`sleep SECONDS`, alive.  IN holds the tensors of all operations one behind the other; results go to
OUT in the same way.
"""
from __future__ import annotations

import math
import os
import random
import secrets
import select
import socket
import struct
import sys
import time
from typing import Dict, List, Optional, Sequence, Tuple

from window import FixedPart, Options, Part, Request, Window
from wire import (AVG, BARRIER, BCAST, BEAT, FLOAT32, JOIN, LEAVE, LEFT, MAX, MIN, NEED, REFUSE,
                  RESULT, STATE, SUM, TO_WORKER, VERSION, WELCOME, Message, bitmap_of, crc32c,
                  decode, encode, ranks_of)

# Section 4.11: what a worker finds by itself.
UNREACHABLE, TIMEOUT, RANK_LEFT, STALLED, RESTARTED, BAD_VERSION = -5, -6, -8, -9, -16, -17

JOINING, FORMING, READY = "joining", "forming", "ready"
STATE_NONE, STATE_FORMING, STATE_READY, STATE_FAILED = range(4)
RETRY = 0.050  # between JOINs, LEAVEs, and BEATs until READY

DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "int32": 3, "int64": 4, "uint8": 7}
OPS = {"sum": SUM, "avg": AVG, "min": MIN, "max": MAX}


class FaninError(Exception):
    """The job is over.  `code` is of section 4.11; `own`: this worker found it, not the switch."""

    def __init__(self, code: int, text: str, blamed: Sequence[int] = (), own: bool = False) -> None:
        super().__init__(text)
        self.code, self.blamed, self.own = code, list(blamed), own


class Lane:
    """A worker on one shard: sections 5.1, 5.3 and 5.4."""

    def __init__(self, o: Options, address: Tuple[str, int], began: float) -> None:
        self.o, self.began = o, began
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: do not fragment
        self.socket.connect(address)  # from here on only the switch is heard
        self.socket.setblocking(False)
        self.random = random.Random(o.seed * 1000 + o.rank + address[1])
        self.nonce = secrets.randbits(64) or 1
        self.window: Optional[Window] = None
        self.state, self.job, self.epoch, self.shards = JOINING, 0, 0, 0
        self.alive = self.beat = 0.0
        self.next_control = self.heard = self.progress = 0.0
        self.missing: List[int] = []
        self.missing_of = -1  # fragment that `missing` is about
        self.left = False
        self.held: List[bytes] = []

    def transmit(self, m: Message) -> None:
        if m.type not in (JOIN, REFUSE):
            m.job, m.epoch = self.job, self.epoch
        m.sender = self.o.rank
        for data in self._faults(encode(m)):
            try:
                self.socket.send(data)
            except OSError:
                pass  # lost like any other

    def _faults(self, data: bytes) -> List[bytes]:
        """What the network makes of a datagram: for tests it is lost, doubled or late."""
        if self.o.loss == 0:
            return [data]
        chance, before = self.random.random() / self.o.loss, self.held
        self.held = [data] if 2 <= chance < 3 else []
        if chance < 1 or self.held:
            return before
        return [data] * (2 if chance < 2 else 1) + before

    def join(self) -> None:
        o, name = self.o, self.o.job.encode()
        options = (2 if o.summed else 0) | (4 if o.wide else 0)
        body = struct.pack("<HHHBIB", o.ranks, o.payload, o.window, options, o.alive_ms, len(name))
        self.transmit(Message(JOIN, frag=self.nonce, body=body + name))

    def send_beat(self) -> None:
        lowest = self.window.lowest() if self.window and self.state == READY else None
        self.transmit(Message(BEAT, frag=lowest or 0,
                              body=struct.pack("<QB", self.nonce, 2 if lowest is not None else 0)))

    def leave(self, code: int, blamed: Sequence[int]) -> None:
        body = struct.pack("<Qb", self.nonce, code) + bitmap_of(blamed if code else ())
        self.transmit(Message(LEAVE, body=body))

    def receive(self) -> None:
        """Everything that has arrived, up to a bound."""
        for _ in range(64):
            try:
                data = self.socket.recv(65536)
            except OSError:  # nothing there, or an ICMP error of an earlier send
                return
            if self.random.random() < self.o.loss:
                continue
            now = time.monotonic()
            if data[:1] != bytes([VERSION]):
                self._other_version(data)
                continue
            m = decode(data)
            if m is not None and m.type in TO_WORKER:
                self._handle(m, now)

    def _other_version(self, data: bytes) -> None:
        """Section 5.6."""
        if self.state == JOINING and len(data) >= 32 and data[1] == REFUSE \
                and struct.unpack_from("<Q", data, 16)[0] == self.nonce \
                and struct.unpack_from("<I", data, 28)[0] == crc32c(data[:28] + data[32:]):
            raise FaninError(BAD_VERSION, f"the switch speaks version {data[0]}")

    def _handle(self, m: Message, now: float) -> None:
        if m.type == LEFT:
            self.left |= m.frag == self.nonce
        elif self.state == JOINING:
            if m.frag == self.nonce and m.type == REFUSE:
                code, rank, have, want = struct.unpack_from("<bHII", m.body)
                raise FaninError(code, f"refused: rank {rank}, have {have:#x}, want {want:#x}")
            if m.frag == self.nonce and m.type == WELCOME:
                self._welcome(m, now)
        elif (m.job, m.epoch) == (self.job, self.epoch):
            self.heard = now
            if m.type == STATE:
                self._take_state(m, now)
            elif self.state == READY and self.window:
                if m.type == NEED:
                    self.window.need(m, now)
                elif m.type == RESULT and self.window.result(m, now):
                    self.progress = now

    def _welcome(self, m: Message, now: float) -> None:
        slots, shards, beat_ms, alive_ms = struct.unpack_from("<HHII", m.body)
        if not 1 <= slots <= (self.o.window or 4096) or not 1 <= shards <= 64 or not beat_ms:
            return
        self.job, self.epoch, self.shards = m.job, m.epoch, shards
        self.beat = max(min(beat_ms / 1000, self.o.timeout / 4), 0.001)
        self.alive = alive_ms / 1000
        self.window = Window(slots, self.transmit)
        self.state, self.heard, self.next_control = FORMING, now, now  # BEAT at once

    def _take_state(self, m: Message, now: float) -> None:
        state, code = struct.unpack_from("<Bb", m.body)
        missing = [r for r in ranks_of(m.body[17:49]) if r < self.o.ranks]
        if state == STATE_FAILED:
            raise FaninError(code, f"the job failed: error {code}, ranks {missing}", missing)
        if state == STATE_NONE:
            if self.state == READY:
                raise FaninError(RESTARTED, "the switch does not know the job any more", own=True)
            self.state, self.window, self.next_control = JOINING, None, now
        elif state == STATE_READY and self.state == FORMING:
            told = struct.unpack_from("<I", m.body, 49)[0] if len(m.body) >= 53 else 0
            self.o.workers = told or self.o.ranks
            self.state, self.progress, self.next_control = READY, now, now + self.beat
        elif (state == STATE_READY) == (self.state == READY):
            self.missing, self.missing_of = missing, m.frag

    def tick(self, now: float) -> float:
        """Do what is due; return when there is more to do."""
        if self.state != READY and now - self.began > self.o.timeout:
            if self.state == JOINING:
                raise FaninError(UNREACHABLE, "the switch does not answer")
            raise FaninError(TIMEOUT, f"waiting for ranks {self.missing}", self.missing, own=True)
        if now >= self.next_control:
            self.next_control = now + (self.beat if self.state == READY else RETRY)
            if self.state == JOINING:
                self.join()
            else:
                self.send_beat()
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
            raise FaninError(UNREACHABLE, "nothing heard of the switch", own=True)
        if lowest is not None and now - self.progress > self.o.timeout:
            blamed = self.missing if self.missing_of == lowest else []
            raise FaninError(STALLED, f"no result; waiting for ranks {blamed}", blamed, own=True)

    def start(self, request: Request, begin: int, end: int, now: float) -> Part:
        assert self.window is not None
        if self.window.lowest() is None:
            self.progress = now
        if self.o.fixed and request.dtype == FLOAT32 and request.op in (SUM, AVG):
            part: Part = FixedPart(self.o, request, begin, end, self.window.groups)
        else:
            part = Part(self.o, request, begin, end)
        self.window.add(part)
        return part


class Worker:
    def __init__(self, o: Options) -> None:
        self.o = o
        self.lanes = [Lane(o, o.switch, time.monotonic())]
        self.error: Optional[FaninError] = None

    def _pump(self) -> None:
        due = math.inf
        for lane in self.lanes:
            due = min(due, lane.tick(time.monotonic()))
        wait = max(0.0, min(due - time.monotonic(), 0.1))
        readable, _, _ = select.select([lane.socket for lane in self.lanes], [], [], wait)
        for lane in self.lanes:
            if lane.socket in readable:
                lane.receive()

    def join(self) -> None:
        """All shards, until the job is READY on each."""
        host, port = self.o.switch
        while any(lane.state != READY for lane in self.lanes):
            self._pump()
            shards, began = self.lanes[0].shards, self.lanes[0].began
            if len(self.lanes) == 1 and shards > 1:
                self.lanes += [Lane(self.o, (host, port + i), began) for i in range(1, shards)]

    def start(self, request: Request) -> List[Part]:
        c, s, now = request.count, len(self.lanes), time.monotonic()
        return [lane.start(request, c * i // s, c * (i + 1) // s, now)
                for i, lane in enumerate(self.lanes)]

    def wait(self, parts: Sequence[Part]) -> bytes:
        while any(part.left for part in parts):
            self._pump()
        return b"".join(part.result() for part in parts)

    def idle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._pump()

    def leave(self, error: Optional[FaninError]) -> None:
        """Section 5.4.  After a failure that the switch told of, a LEAVE is a courtesy."""
        lanes = [lane for lane in self.lanes if lane.state != JOINING]
        for _ in range(5):
            staying = [lane for lane in lanes if not lane.left]
            for lane in staying:
                lane.leave(error.code if error else 0, error.blamed if error else ())
            end = time.monotonic() + RETRY
            while any(not lane.left for lane in staying) and time.monotonic() < end:
                sockets = [lane.socket for lane in staying]
                select.select(sockets, [], [], max(0.0, end - time.monotonic()))
                for lane in staying:
                    try:
                        lane.receive()
                    except FaninError:
                        pass  # too late to matter
        for lane in self.lanes:
            lane.socket.close()

    def counters(self) -> Dict[str, int]:
        total: Dict[str, int] = {}
        for lane in self.lanes:
            for name, value in (lane.window.counters if lane.window else {}).items():
                total[name] = total.get(name, 0) + value
        return total


def options_from(env: Dict[str, str]) -> Options:
    host, _, port = env["FANIN_SWITCH"].rpartition(":")
    return Options(
        switch=(host.strip("[]"), int(port)), job=env["FANIN_JOB"],
        rank=int(env["FANIN_RANK"]), ranks=int(env["FANIN_RANKS"]),
        mtu=int(env.get("FANIN_MTU", "1500")), window=int(env.get("FANIN_WINDOW", "0")),
        timeout=int(env.get("FANIN_TIMEOUT_MS", "30000")) / 1000,
        alive_ms=int(env.get("FANIN_ALIVE_MS", "10000")),
        fixed=env.get("FANIN_MODE", "native") == "fixed",
        wire=DTYPES[env.get("FANIN_WIRE", "float32")],
        summed=env.get("FANIN_CHECKSUM", "0") == "1", wide=env.get("FANIN_NARROW", "0") == "0",
        loss=float(env.get("INTEROP_LOSS", "0")), seed=int(env.get("INTEROP_SEED", "1")))


def request_of(line: str, data: bytes) -> Request:
    verb, dtype, op, count, root = line.split()
    code = {"broadcast": BCAST, "barrier": BARRIER}.get(verb, OPS.get(op, SUM))
    return Request(code, DTYPES[dtype], int(count), data,
                   int(root) if verb in ("broadcast", "reduce") else None)


def run_plan(worker: Worker, plan: Sequence[str], tensors: bytes) -> bytes:
    """Start and wait as the plan says.  The results of all operations, those for us."""
    sizes = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint8": 1}
    results: List[bytes] = []
    started: List[Tuple[Request, List[Part]]] = []
    at = 0
    for line in list(plan) + ["wait"]:
        if line == "wait":
            for request, parts in started:
                data = worker.wait(parts)
                if request.op == BCAST or request.root in (None, worker.o.rank):
                    results.append(data)
            started = []
            continue
        if line.startswith("sleep"):
            worker.idle(float(line.split()[1]))
            continue
        end = at + int(line.split()[3]) * sizes[line.split()[1]]
        request = request_of(line, tensors[at:end])
        started.append((request, worker.start(request)))
        at = end
    return b"".join(results)


def main(argv: Sequence[str]) -> int:
    with open(argv[1], encoding="utf-8") as f:
        plan = f.read().splitlines()
    with open(argv[2], "rb") as f:
        tensors = f.read()
    worker, error = Worker(options_from(dict(os.environ))), None
    try:
        worker.join()
        results = run_plan(worker, plan, tensors)
    except FaninError as e:
        error = e
    worker.leave(error)
    print(" ".join(f"{k}={v}" for k, v in worker.counters().items()), file=sys.stderr)
    if error:
        print(f"error {error.code} {error}", file=sys.stderr)
        return 1
    with open(argv[3], "wb") as f:
        f.write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
