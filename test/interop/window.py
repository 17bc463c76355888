# SPDX-License-Identifier: Apache-2.0
"""From operations to fragments, and the data path of one shard: doc/protocol.md, sections 6 and 7.

No sockets and no clock: the caller passes a function that sends, and the time in seconds."""
from __future__ import annotations

import math
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Deque, Dict, List, Optional, Sequence, Tuple

from wire import (AVG, BARRIER, BCAST, DATA, EMPTY, EXP16, FIRST, FIXED32, FLOAT32, LAST, MAX, PROBE,
                  REDUCE, RESEND, ROOT, SUMMED, WIRE_BYTES, Message, above, agreed_exponent,
                  codes_of, decode_code, exponent_of, narrow, widen)

@dataclass
class Options:
    switch: Tuple[str, int]
    job: str
    rank: int
    ranks: int
    mtu: int = 1500
    window: int = 0
    timeout: float = 30.0
    alive_ms: int = 10000
    fixed: bool = False
    wire: int = FLOAT32
    summed: bool = False
    wide: bool = True
    loss: float = 0.0  # of what is sent and of what arrives; for tests
    seed: int = 1
    workers: int = 0  # T of section 6.8; known when READY

    @property
    def payload(self) -> int:
        return min((self.mtu - 80) // 64 * 64, 8832)


@dataclass
class Request:
    """What the caller asks for.  root None: all-reduce.  `data` is the tensor as bytes."""
    op: int
    dtype: int
    count: int
    data: bytes
    root: Optional[int] = None


class Part:
    """The share of an operation that one shard carries, divided into fragments."""

    def __init__(self, o: Options, request: Request, begin: int, end: int) -> None:
        self.o, self.request, self.count = o, request, end - begin
        size = WIRE_BYTES[request.dtype]
        data = request.data[begin * size:end * size]
        self.dtype, halves = request.dtype, request.op <= MAX and request.dtype == FLOAT32
        if halves and o.wire != FLOAT32:
            self.dtype, data = o.wire, narrow(data, o.wire)
        self.data = data
        self.size = WIRE_BYTES[self.dtype]
        slot_limited = request.op <= MAX and self.size == 2 and not o.wide
        self.full = 1 if request.op == BARRIER else o.payload // (4 if slot_limited else self.size)
        self.frags = self.left = max(1, -(-self.count // self.full))
        self.first = 0
        self.results: Dict[int, bytes] = {}

    def may_send(self, n: int) -> bool:
        return n >= 0

    def flags(self, n: int) -> int:
        flags = (FIRST if n == 0 else 0) | (LAST if n == self.frags - 1 else 0)
        flags |= SUMMED if self.o.summed else 0
        if self.request.root is None:
            return flags
        mine = self.request.root == self.o.rank
        if self.request.op == BCAST:
            return flags | (ROOT if mine else EMPTY)
        return flags | REDUCE | (ROOT if mine else 0)

    def elements(self, block: int) -> Tuple[int, int]:
        return block * self.full, min((block + 1) * self.full, self.count)

    def contribution(self, n: int) -> Message:
        begin, end = self.elements(n)
        flags = self.flags(n)
        body = b"" if flags & EMPTY else self.data[begin * self.size:end * self.size]
        return Message(DATA, flags=flags, kind=self.request.op << 4 | self.dtype,
                       count=end - begin, body=body)

    def take(self, n: int, m: Message) -> None:
        self.results[n] = m.body
        self.left -= 1

    def result(self) -> bytes:
        if self.request.op == BCAST and self.request.root == self.o.rank:
            return self.data
        data = b"".join(self.results[n] for n in range(self.frags))
        return data if self.dtype == self.request.dtype else widen(data, self.dtype)


class Groups:
    """Groups of exponents over the life of a shard: section 7.4."""
    MOST = 16

    def __init__(self) -> None:
        self.low = 0
        self.blocks_left: List[int] = []

    def add(self, blocks: Sequence[int]) -> int:
        self.blocks_left += blocks
        return len(self.blocks_left) - len(blocks)

    def taken(self, group: int) -> None:
        self.blocks_left[group] -= 1
        while self.low < len(self.blocks_left) and self.blocks_left[self.low] == 0:
            self.low += 1


class FixedPart(Part):
    """The same in fixed mode: section 7."""

    def __init__(self, o: Options, request: Request, begin: int, end: int, groups: Groups) -> None:
        super().__init__(o, request, begin, end)
        self.blocks, self.per_group = self.frags, o.payload // 2
        self.group_count = -(-self.blocks // self.per_group)
        self.frags = self.left = self.blocks + self.group_count
        self.values = struct.unpack(f"<{self.count}f", self.data)
        self.exponents: Dict[int, int] = {}  # agreed, by block
        self.groups = groups
        self.base = groups.add([len(self.blocks_of(g)) for g in range(self.group_count)])

    def blocks_of(self, group: int) -> range:
        return range(group * self.per_group, min((group + 1) * self.per_group, self.blocks))

    def carries(self, n: int) -> Tuple[int, Optional[int]]:
        """Group and block of fragment n; block None for exponents."""
        if n == 0:
            return 0, None
        group = (n - 1) // (self.per_group + 1)
        data = 1 + group * (self.per_group + 1) + (group + 1 < self.group_count)
        if n < data:
            return group + 1, None
        return group, group * self.per_group + n - data

    def may_send(self, n: int) -> bool:
        group, block = self.carries(n)
        if block is None:
            return self.base + group < self.groups.low + Groups.MOST
        return block in self.exponents

    def contribution(self, n: int) -> Message:
        group, block = self.carries(n)
        if block is None:
            blocks = self.blocks_of(group)
            body = struct.pack(f"<{len(blocks)}h", *(
                exponent_of(self.values[slice(*self.elements(b))]) for b in blocks))
            flags = self.flags(n) & (FIRST | LAST | SUMMED)
            return Message(DATA, flags=flags, kind=MAX << 4 | EXP16, count=len(blocks), body=body)
        begin, end = self.elements(block)
        e = self.exponents[block]
        body = struct.pack(f"<{end - begin}i", *codes_of(self.values[begin:end], e, self.o.workers))
        return Message(DATA, flags=self.flags(n), kind=self.request.op << 4 | FIXED32,
                       count=end - begin, exponent=e, body=body)

    def take(self, n: int, m: Message) -> None:
        group, block = self.carries(n)
        self.left -= 1
        if block is None:
            agreed = map(agreed_exponent, struct.unpack(f"<{m.count}h", m.body))
            self.exponents.update(zip(self.blocks_of(group), agreed))
            return
        divisor = self.o.workers if self.request.op == AVG else 1
        codes = struct.unpack(f"<{len(m.body) // 4}i", m.body)
        words = [decode_code(q, m.exponent, self.o.workers, divisor) for q in codes]
        self.results[block] = struct.pack(f"<{len(words)}I", *words)
        self.groups.taken(self.base + group)

    def result(self) -> bytes:
        return b"".join(self.results[b] for b in range(self.blocks))


# The data path of one shard: sections 6.3 to 6.6.

@dataclass
class Flight:
    part: Part
    n: int
    message: Message
    data_number: int = 0  # transmission in which the DATA last went
    last_number: int = 0  # transmission in which anything about it last went
    data_time: float = 0.0
    last_time: float = 0.0
    sends: int = 0
    probes: int = 0  # since the last DATA
    insists: bool = False


@dataclass
class Timer:
    """Section 6.6, in seconds."""
    srtt: float = 0.0
    var: float = 0.0
    expiries: int = 0

    def sample(self, r: float) -> None:
        if self.srtt == 0:
            self.srtt, self.var = r, r / 2
        else:
            self.var = 0.75 * self.var + 0.25 * abs(self.srtt - r)
            self.srtt = 0.875 * self.srtt + 0.125 * r

    def time(self) -> float:
        b = min(self.expiries, 5)
        if self.srtt == 0:
            return 0.020 * 2 ** b
        rto = min(max(self.srtt + 4 * self.var, 0.001), 0.100)
        return rto * 2 ** (b - 1) if b else max(self.srtt / 2, 0.001)


@dataclass
class Window:
    slots: int
    send: Callable[[Message], None]
    parts: Deque[Part] = field(default_factory=deque)  # not all sent yet
    flights: Dict[int, Flight] = field(default_factory=dict)  # oldest last transmission first
    groups: Groups = field(default_factory=Groups)
    timer: Timer = field(default_factory=Timer)
    next: int = 0  # fragment to send next
    end: int = 0  # behind the last fragment of all parts
    number: int = 0  # of the last transmission
    newest: int = -1  # fragment of that transmission
    heard: int = 0xFFFF  # number of the highest RESULT; before the first this
    last_result: float = 0.0
    last_expiry: float = 0.0
    cwnd: int = 0
    finished: int = 0
    lost: int = 0
    counters: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(
        ("data", "resends", "probes", "insisting", "results", "replays", "needs", "expiries"), 0))

    def __post_init__(self) -> None:
        self.cwnd = self.slots

    def add(self, part: Part) -> None:
        part.first = self.end
        self.end += part.frags
        self.parts.append(part)

    def lowest(self) -> Optional[int]:
        """The lowest unfinished fragment of all operations."""
        if self.flights:
            return min(self.flights)
        return self.next if self.next < self.end else None

    def fill(self, now: float) -> None:
        """First transmissions, as far as windows and exponents allow."""
        while self.next < self.end and len(self.flights) < self.cwnd \
                and self.next - self.slots not in self.flights:
            part, n = self.parts[0], self.next - self.parts[0].first
            if not part.may_send(n):
                return
            flight = Flight(part, n, part.contribution(n))
            flight.message.frag = self.next
            self._data(flight, now)
            self.next += 1
            if n + 1 == part.frags:
                self.parts.popleft()

    def _note(self, flight: Flight, now: float) -> None:
        self.number += 1
        frag = self.newest = flight.message.frag
        flight.last_number, flight.last_time = self.number, now
        self.flights.pop(frag, None)
        self.flights[frag] = flight

    def _data(self, flight: Flight, now: float) -> None:
        self._note(flight, now)
        flight.data_number, flight.data_time = self.number, now
        flight.sends += 1
        flight.probes, flight.insists = 0, False
        self.counters["data"] += 1
        self.send(flight.message)

    def _probe(self, frag: int, now: float, insist: bool = False) -> None:
        flight = self.flights[frag]
        self._note(flight, now)
        flight.probes += 1
        flight.insists |= insist or flight.probes > 2
        self.counters["probes"] += 1
        self.counters["insisting"] += flight.insists
        self.send(Message(PROBE, frag=frag, kind=0x50, count=self.heard,
                          flags=RESEND if flight.insists else 0))

    def need(self, m: Message, now: float) -> None:
        flight = self.flights.get(m.frag)
        if flight is None:
            return
        self.counters["needs"] += 1
        self.timer.expiries = 0
        flight.message.flags |= RESEND
        self.counters["resends"] += 1
        self._data(flight, now)
        self._count(lost=True)

    def result(self, m: Message, now: float) -> bool:
        """True if it was taken: section 6.4."""
        if above(m.sender, self.heard):
            self.heard = m.sender
        self.counters["results"] += 1
        flight = self.flights.get(m.frag)
        if flight is None:
            return False
        mine, replay = flight.message, bool(m.flags & RESEND)
        empty = bool(mine.flags & REDUCE) and not mine.flags & ROOT
        if (m.kind, m.count) != (mine.kind, mine.count) or bool(m.flags & EMPTY) != empty \
                or (m.flags ^ mine.flags) & (FIRST | LAST | REDUCE) \
                or mine.flags & SUMMED & ~m.flags \
                or (mine.kind & 15 == FIXED32 and m.exponent != mine.exponent):
            return False
        del self.flights[m.frag]
        flight.part.take(flight.n, m)
        self.last_result, self.timer.expiries = now, 0
        self.counters["replays"] += replay
        if flight.sends == 1 and not replay:
            self.timer.sample(now - flight.data_time)
        self._count(lost=replay)
        self._gap(flight.data_number, now)
        return True

    def _gap(self, answered: int, now: float) -> None:
        late = []
        for frag, flight in self.flights.items():
            if flight.last_number > answered - 3:
                break
            late.append(frag)
        for frag in late:
            self._probe(frag, now)

    def _count(self, lost: bool) -> None:
        """The congestion window."""
        self.lost += lost
        self.finished += not lost
        if self.finished + self.lost < self.cwnd:
            return
        if 8 * self.lost > self.finished + self.lost:
            self.cwnd = max(self.cwnd // 2, min(2, self.slots))
        else:
            self.cwnd = min(self.cwnd + max(self.cwnd // 16, 1), self.slots)
        self.finished = self.lost = 0

    def due(self) -> float:
        """When the timer runs out."""
        if not self.flights:
            return math.inf
        oldest = next(iter(self.flights.values())).last_time
        return max(oldest, self.last_result, self.last_expiry) + self.timer.time()

    def expire(self, now: float) -> None:
        self.counters["expiries"] += 1
        self.last_expiry = now
        self.timer.expiries += 1
        insisting = {min(self.flights), self.newest} & self.flights.keys()
        oldest = [frag for _, frag in zip(range(64), self.flights)]
        for frag in oldest + sorted(insisting - set(oldest)):
            self._probe(frag, now, frag in insisting)
