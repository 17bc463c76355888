# SPDX-License-Identifier: Apache-2.0
"""The data path of a worker on one shard: doc/protocol/base.md, sections 6.3 to 6.5, and recovery.md.

No sockets and no clock: the caller passes a function that sends, and the time in seconds."""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Deque, Dict, List, Optional

from parts import Groups, Part
from wire import (COLLISION, DIRECT, ECN, EMPTY, FIRST, FIXED32, INSIST, LAST, MISS, PROBE, REDUCE,
                  REPLAY, ROOT, SUMMED, Message, above)

# Results that have not come, by their numbers: doc/protocol/recovery.md, section 6.8.
MOST_AT_ONCE, MOST_TIMES, MOST_ASKED, MOST_LATER = 4, 4, 64, 48
LONGEST_STEP = 64


@dataclass
class Hole:
    later: int = 0  # by how much the highest number that has come is higher
    asked: int = 0  # times
    sent: int = 0  # DATA sent before the last MISS


class Holes:
    """The numbers below the highest one heard that have not come."""

    def __init__(self) -> None:
        self.holes: Dict[int, Hole] = {}  # lowest number first
        self.later = 3

    def clear(self) -> None:
        self.holes.clear()

    def arrived(self, number: int, heard: int, replay: bool) -> bool:
        """False if so much is missing that nothing should be asked for."""
        step = (number - heard) & 0xFFFF
        if step < 0x8000:
            if step >= LONGEST_STEP:
                return False
            for i in range(1, step):
                self.holes[(heard + i) & 0xFFFF] = Hole()
        else:
            hole = self.holes.pop(number, None)
            if hole and hole.asked and not replay:
                self.later = min(2 * self.later, MOST_LATER)
        for missing, hole in self.holes.items():
            step = (number - missing) & 0xFFFF
            if step < 0x8000:
                hole.later = max(hole.later, step)
        return sum(hole.asked > 0 for hole in self.holes.values()) <= MOST_ASKED

    def overtaken(self, sent: int, answered: int) -> List[int]:
        """Numbers to ask for now, the lowest first.  So many DATA have been sent; a result has
        come for number `answered` of them."""
        for number in [n for n, h in self.holes.items() if h.asked == MOST_TIMES]:
            del self.holes[number]  # the timer asks for the fragment
        wanted: List[int] = []
        for number, hole in self.holes.items():
            due = answered >= hole.sent + 3 if hole.asked else hole.later >= self.later
            near = not wanted or (number - wanted[0]) & 0xFFFF < 64
            if due and near and len(wanted) < MOST_AT_ONCE:
                wanted.append(number)
                hole.asked += 1
                hole.sent = sent
        return wanted


PROBES = 64  # for one expiry of the timer
DATA_FOR_MISS = 3  # of one contribution


@dataclass
class Flight:
    part: Part
    n: int
    message: Message
    data_number: int = 0  # transmission in which the DATA last went
    last_number: int = 0  # transmission in which anything about it last went
    ordinal: int = 0  # number of DATA sent up to then, this one included
    data_time: float = 0.0
    last_time: float = 0.0
    sends: int = 0
    missed: int = 0  # times that it was sent again on MISS
    probes: int = 0  # since the last DATA
    insists: bool = False


class Timer:
    """Section 6.6, in seconds."""

    def __init__(self) -> None:
        self.srtt = 0.0
        self.expiries = 0
        self.least: Deque[float] = deque(maxlen=64)

    def sample(self, r: float) -> None:
        r = min(r, 0.100)
        self.least.append(r)
        self.srtt = 0.875 * self.srtt + 0.125 * r if self.srtt else r

    def time(self, numbered: bool) -> float:
        b, half = min(self.expiries, 5), self.srtt / 2 or 0.020
        base = min(half, 2 * min(self.least)) if self.least else half
        if numbered and b == 0:
            return max(0.0002, base)
        return max(0.001, base) * float(1 << (b - numbered))


class Congestion:
    """The congestion window: section 6.6."""

    def __init__(self, slots: int) -> None:
        self.slots = self.cwnd = slots
        self.finished = self.lost = 0
        self.slow = False  # there was ECN: grow by one
        self.crowded = False  # losses lowered cwnd, and it is not W again
        self.deaf = 0  # results until ECN is heeded again

    def halve(self) -> None:
        self.cwnd = max(self.cwnd // 2, min(2, self.slots))

    def count(self, lost: bool) -> None:
        self.lost += lost
        self.finished += not lost
        self.deaf -= self.deaf > 0
        if self.finished + self.lost < self.cwnd:
            return
        if 8 * self.lost > self.finished + self.lost:
            self.halve()
            self.crowded = self.cwnd < self.slots
        else:
            self.cwnd = min(self.cwnd + (1 if self.slow else max(self.cwnd // 16, 1)), self.slots)
            self.crowded &= self.cwnd < self.slots
        self.finished = self.lost = 0

    def ecn(self) -> None:
        if self.deaf == 0:
            self.slow, self.deaf = True, self.cwnd
            self.halve()


@dataclass
class Window:
    slots: int
    send: Callable[[Message], None]
    rank: int = 0
    ranks: int = 2
    numbers: bool = False  # both sides number: section 6.8
    parts: Deque[Part] = field(default_factory=deque)  # not all begun yet
    held: Dict[int, Flight] = field(default_factory=dict)  # by the window rule; lowest first
    flights: Dict[int, Flight] = field(default_factory=dict)  # oldest last transmission first
    groups: Groups = field(default_factory=Groups)
    timer: Timer = field(default_factory=Timer)
    holes: Holes = field(default_factory=Holes)
    places: Dict[int, int] = field(default_factory=dict)  # of the next fragment of a slot
    next: int = 0  # fragment to begin next
    end: int = 0  # behind the last fragment of all parts
    number: int = 0  # of the last transmission
    sent_data: int = 0  # transmissions that were DATA
    newest: int = -1  # fragment of the last transmission
    heard: int = 0xFFFF  # number of the highest RESULT; before the first this
    quiet_until: int = 0  # no MISS until the DATA of this transmission is answered
    last_result: float = 0.0
    last_expiry: float = 0.0
    counters: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(
        ("data", "resends", "probes", "insisting", "results", "replays", "needs", "expiries",
         "asked", "missed", "collisions"), 0))

    def __post_init__(self) -> None:
        self.congestion = Congestion(self.slots)

    def add(self, part: Part) -> None:
        part.first = self.end
        self.end += part.frags
        self.parts.append(part)

    def lowest(self) -> Optional[int]:
        """The lowest unfinished fragment of all operations."""
        if self.flights:
            return min(self.flights)
        return self.next if self.next < self.end else None

    def numbered(self) -> bool:
        """Does section 6.8 hold now?"""
        return self.numbers and not self.congestion.crowded and self.quiet_until == 0

    def fill(self, now: float) -> None:
        """First transmissions, as far as windows and exponents allow.  What is held up does not
        hold up later ones; so there is at most one for each slot."""
        free = [n for n in self.held if n - self.slots not in self.flights]
        while len(self.flights) < self.congestion.cwnd:
            if free:
                self._first(self.held.pop(free.pop(0)), now)
                continue
            flight = self._begin()
            if flight is None:
                return
            if self.next - 1 - self.slots in self.flights:
                self.held[self.next - 1] = flight
            else:
                self._first(flight, now)

    def _begin(self) -> Optional[Flight]:
        """The next fragment, unless one before it in its slot has not been sent."""
        if self.next == self.end or self.next - self.slots in self.held:
            return None
        part, n = self.parts[0], self.next - self.parts[0].first
        if not part.may_send(n):
            return None
        flight = Flight(part, n, part.contribution(n))
        flight.message.frag = self.next
        self.next += 1
        if n + 1 == part.frags:
            self.parts.popleft()
        return flight

    def _first(self, flight: Flight, now: float) -> None:
        flight.message.tag = self.places.get(flight.message.frag % self.slots, 0) << 12
        self._data(flight, now)

    def _transmit(self, flight: Flight, m: Message, now: float) -> None:
        self.number += 1
        frag = self.newest = flight.message.frag
        flight.last_number, flight.last_time = self.number, now
        self.flights.pop(frag, None)
        self.flights[frag] = flight
        m.seq = self.number & 0xFFFF if self.numbers else 0
        self.send(m)

    def _data(self, flight: Flight, now: float) -> None:
        flight.data_number, flight.data_time = self.number + 1, now
        flight.sends += 1
        flight.probes, flight.insists = 0, False
        self.sent_data += 1
        flight.ordinal = self.sent_data
        self.counters["data"] += 1
        self._transmit(flight, flight.message, now)

    def _again(self, flight: Flight, now: float) -> None:
        self.counters["resends"] += 1
        self._data(flight, now)

    def _probe(self, frag: int, now: float, insist: bool = False) -> None:
        flight = self.flights[frag]
        flight.probes += 1
        flight.insists |= insist or flight.probes > 2
        self.counters["probes"] += 1
        self.counters["insisting"] += flight.insists
        self._transmit(flight, Message(PROBE, frag=frag, tag=flight.message.tag & 0xF000,
                                       last=self.heard, flags=INSIST if flight.insists else 0), now)

    def need(self, m: Message, now: float) -> None:
        flight = self.flights.get(m.frag)
        asked = int.from_bytes(m.body, "little") if m.words else 1 << m.tag >> 1
        if m.words not in (0, -(-self.ranks // 64)) or asked >> self.ranks:
            return
        if flight is None or not asked >> self.rank & 1:
            return
        self.counters["needs"] += 1
        if flight.probes:
            self.timer.least.append(min(now - flight.last_time, 0.100))
        self.timer.expiries = 0
        self.congestion.count(lost=True)
        flight.message.flags |= DIRECT
        self._again(flight, now)

    def miss(self, m: Message, now: float) -> None:
        """Numbers that did not reach the aggregator."""
        numbers = {(m.last - i) & 0xFFFF for i in range(64) if m.missing >> i & 1}
        if not numbers or not self.numbered():
            return
        if m.missing >> 63:
            self._be_quiet()
            return
        again = [f for f in self.flights.values() if f.last_number == f.data_number
                 and f.data_number & 0xFFFF in numbers and f.missed < DATA_FOR_MISS]
        for flight in sorted(again, key=lambda f: f.message.frag):
            flight.missed += 1
            self.counters["missed"] += 1
            self.congestion.count(lost=True)
            self._again(flight, now)

    def _be_quiet(self) -> None:
        self.quiet_until = self.number + self.slots
        self.holes = Holes()

    def _note_number(self, m: Message, flight: Optional[Flight]) -> None:
        """Of every RESULT, taken or not."""
        if flight and flight.message.flags & ROOT and m.flags & REDUCE and m.flags & EMPTY:
            return
        before, self.heard = self.heard, m.seq if above(m.seq, self.heard) else self.heard
        if not self.numbered():
            self.holes.clear()
        elif not self.holes.arrived(m.seq, before, bool(m.flags & REPLAY)):
            self._be_quiet()

    def _ask(self, answered: int) -> None:
        asked = self.holes.overtaken(self.sent_data, answered) if self.numbered() else []
        if asked:
            last = asked[-1]
            self.counters["asked"] += len(asked)
            bits = sum(1 << ((last - n) & 0xFFFF) for n in asked)
            self.send(Message(MISS, last=last, missing=bits))

    def result(self, m: Message, now: float) -> bool:
        """True if it was taken: section 6.4."""
        flight = self.flights.get(m.frag)
        self._note_number(m, flight)
        self.counters["results"] += 1
        if flight is None or not fits(m, flight.message):
            self._ask(0)
            return False
        replay = bool(m.flags & REPLAY)
        del self.flights[m.frag]
        self.places[m.frag % self.slots] = (m.place + bool(m.flags & COLLISION)) & 15
        self.counters["collisions"] += bool(m.flags & COLLISION)
        flight.part.take(flight.n, m)
        self.last_result, self.timer.expiries = now, 0
        self.counters["replays"] += replay
        if flight.sends == 1 and not replay:
            self.timer.sample(now - flight.data_time)
        self.congestion.count(lost=replay)
        if m.flags & ECN:
            self.congestion.ecn()
        if self.quiet_until and flight.data_number >= self.quiet_until:
            self.quiet_until = 0
        self._ask(flight.ordinal)
        self._gap(flight.data_number, now)
        return True

    def _gap(self, answered: int, now: float) -> None:
        gap, late = 3 * self.slots // 2 + 3 if self.numbered() else 3, []
        for frag, flight in self.flights.items():
            if flight.last_number > answered - gap:
                break
            late.append(frag)
        for frag in late:
            self._probe(frag, now)

    def due(self) -> float:
        """When the timer runs out."""
        if not self.flights:
            return math.inf
        oldest = next(iter(self.flights.values())).last_time
        return max(oldest, self.last_result, self.last_expiry) + self.timer.time(self.numbered())

    def expire(self, now: float) -> None:
        few = self.numbered() and self.timer.expiries == 0
        self.counters["expiries"] += 1
        self.last_expiry = now
        self.timer.expiries += 1
        insisting = {min(self.flights), self.newest} & self.flights.keys()
        oldest = [frag for _, frag in zip(range(8 if few else PROBES), self.flights)]
        for frag in oldest + sorted(insisting - set(oldest)):
            self._probe(frag, now, frag in insisting)


def fits(m: Message, mine: Message) -> bool:
    """Is this RESULT the one of that contribution?  Section 6.4."""
    empty = bool(mine.flags & REDUCE) and not mine.flags & ROOT
    return (m.kind, m.count) == (mine.kind, mine.count) and bool(m.flags & EMPTY) == empty \
        and not (m.flags ^ mine.flags) & (FIRST | LAST | REDUCE) \
        and not mine.flags & SUMMED & ~m.flags \
        and (mine.kind & 15 != FIXED32 or m.exponent == mine.exponent)
