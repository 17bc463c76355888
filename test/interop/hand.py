# SPDX-License-Identifier: Apache-2.0
"""An aggregator by hand, for a worker of its job of two: what doc/protocol/base.md says about
messages that an honest aggregator never sends, or seldom.  "Section" means a section of that page.

Rank 0 is the program under test; it does PLAN.  Rank 1 would have sent the same."""
from __future__ import annotations

import socket
import struct
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import wire
from member import BARRIER_KIND, FAILED, FORMING, LEFT, NONE, ONE, READY, Wrong, same
from wire import (AGGREGATOR, BEAT, COLLISION, DATA, DIRECT, EMPTY, FIRST, INSIST, JOIN, LAST,
                  LEAVE, MISS, NEED, NUMBERED, PROBE, REDUCE, REFUSE, REPLAY, RESULT, ROOT, STATE,
                  WAITING, WELCOME, WHO, Message)

PAYLOAD, SLOTS, MOST_SLOTS, ELEMENTS = 1408, 4, 32, 352
COOKIE = 0x1122334455667788
PATIENT_S = 120.0  # for what must come, from a program that may not have begun yet
FRAGMENTS = 6  # of the all-reduce; the barrier before it is fragment 0
PLAN = ["barrier uint8 - 0 0", "wait", f"allreduce float32 sum {FRAGMENTS * ELEMENTS} 0", "wait"]
TENSOR = struct.pack("<2112f", *map(float, range(FRAGMENTS * ELEMENTS)))
SUM_OF_TWO = struct.pack("<2112f", *(2.0 * x for x in range(FRAGMENTS * ELEMENTS)))


class Hand:
    """A socket to which the program sends, and what it has said."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.peer: Tuple[str, int] = ("", 0)
        self.job, self.epoch, self.nonce = 0x500, 0xABCDEF01, 0
        self.beat_ms, self.numbers = 5000, False
        self.slots, self.seq = SLOTS, 0
        self.first: Dict[int, Message] = {}  # first DATA of each fragment

    def next(self, seconds: float) -> Optional[Message]:
        """What it says next.  Every byte of it must be as section 3 has it."""
        self.socket.settimeout(max(0.001, seconds))
        try:
            data, self.peer = self.socket.recvfrom(65536)
        except TimeoutError:
            return None
        m = wire.decode(data)
        if m is None or wire.encode(m) != data:
            raise Wrong(f"{data.hex()} decodes to {m}")
        if m.type in (DATA, PROBE):
            self.seq += self.numbers
            same(m.seq, self.seq, "number of a transmission")
        if m.type == DATA:
            self._check(self.first.setdefault(m.frag, m), m)
        return m

    def _check(self, first: Message, m: Message) -> None:
        """Section 6.5: the same contents whenever it is sent."""
        for name in ("count", "kind", "body", "exponent", "tag"):
            same(getattr(m, name), getattr(first, name), f"{name} of fragment {m.frag}")
        same(m.flags & ~DIRECT, first.flags & ~DIRECT, f"flags of fragment {m.frag}")

    def hear(self, kind: int, test: Callable[[Message], bool] = lambda m: True,
             seconds: float = PATIENT_S) -> Message:
        """The next message of this kind that passes the test."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            m = self.next(end - time.monotonic())
            if m is not None and m.type == kind and test(m):
                return m
        raise Wrong(f"no message of type {kind} in {seconds} s")

    def heard(self, seconds: float) -> List[Message]:
        """All that it says in this time."""
        end, found = time.monotonic() + seconds, []
        while time.monotonic() < end:
            m = self.next(end - time.monotonic())
            found += [m] if m else []
        return found

    def datagram(self, m: Message) -> bytes:
        if m.job == m.epoch == 0:
            m.job, m.epoch = self.job, self.epoch
        return wire.encode(m)

    def send(self, m: Message) -> None:
        self.socket.sendto(self.datagram(m), self.peer)

    def welcome(self, nonce: int = 0, window: Optional[int] = None, shards: int = 1, burst: int = 0,
                path: int = 0, more: bytes = b"", cut: int = 99) -> None:
        window = self.slots if window is None else window
        flags = NUMBERED if self.numbers else 0
        body = struct.pack("<HHIIBH16sHBQ", window, shards, self.beat_ms, 10000, 0, 0, b"", burst,
                           flags, COOKIE) + more
        self.send(Message(WELCOME, nonce=nonce or self.nonce, path=path, body=body[:cut]))

    def state(self, state: int, nonce: Optional[int] = None, err: int = 0, missing: int = 0,
              sender: int = AGGREGATOR, **fields: int) -> None:
        ranks = 0 if state in (NONE, LEFT) else 2
        body = struct.pack("<QBbBHHHII", 0, state, err, 0, ranks, 0xFFFF, 0xFFFF, 0, 0)
        body += missing.to_bytes(32, "little")
        nonce = self.nonce if nonce is None else nonce
        self.send(Message(STATE, sender=sender, nonce=nonce, body=body, **fields))

    def result(self, frag: int, **changes: Any) -> Message:
        """The RESULT of a fragment that the program has sent."""
        mine = self.first[frag]
        values = struct.unpack(f"<{len(mine.body) // 4}f", mine.body)
        fields: Dict[str, Any] = {
            "flags": mine.flags & (FIRST | LAST), "frag": frag, "kind": mine.kind,
            "count": mine.count, "seq": frag, "tag": mine.tag & 0xF000,
            "body": struct.pack(f"<{len(values)}f", *(2 * x for x in values))}
        fields.update(changes)
        return Message(RESULT, **fields)

    def ready(self) -> None:
        self.nonce = self.hear(JOIN).nonce
        self.welcome()
        self.hear(BEAT)
        self.state(READY)

    def finish(self) -> None:
        """Answer all DATA, PROBEs and LEAVE as one should."""
        while True:
            m = self.next(PATIENT_S)
            if m is None:
                raise Wrong("no LEAVE")
            if m.type == LEAVE:
                same(m.body[:33], bytes(33), "LEAVE")
                self.state(LEFT)
                return
            if m.type == DATA or (m.type == PROBE and m.frag in self.first):
                self.send(self.result(m.frag))


def joining(h: Hand) -> None:
    """Sections 3.7, 4.1, 4.2 and 5.4: which WELCOME and REFUSE counts."""
    join = h.hear(JOIN)
    h.nonce = join.nonce
    ranks, payload, window, _, alive_ms, size = struct.unpack_from("<HHHBIB", join.body)
    filled = b"hand".ljust(48, b"\0")
    same((ranks, payload, alive_ms, join.body[12:]), (2, PAYLOAD, 10000, filled), "JOIN")
    same((size, join.sender, join.job, join.epoch), (4, 0, 0, 0), "JOIN")
    same((join.seq, join.path, join.nonce != 0), (0, 0, True), "JOIN")
    h.welcome(nonce=h.nonce ^ 1)
    h.welcome(burst=1)
    h.welcome(path=1)
    h.welcome(window=0)
    h.welcome(window=1)
    h.welcome(window=window + 1 if window else 4097)
    h.welcome(shards=0)
    h.welcome(shards=65)
    h.welcome(cut=41)
    h.send(Message(REFUSE, nonce=h.nonce ^ 1, body=struct.pack("<bHII", -1, 0, 0, 0)))
    h.send(Message(REFUSE, nonce=h.nonce, body=struct.pack("<bHII", -1, 0, 0, 0)[:10]))
    h.state(READY)
    bad = bytearray(h.datagram(Message(REFUSE, nonce=h.nonce, body=b"\xff" + bytes(10))))
    bad[-1] ^= 1
    h.socket.sendto(bytes(bad), h.peer)
    h.socket.sendto(b"\3" + bytes(bad[1:]), h.peer)
    said = h.heard(0.25)
    same({(m.type, m.nonce) for m in said}, {(JOIN, h.nonce)}, "messages")
    same(1 <= len(said) <= 7, True, "JOINs every 50 ms")
    h.welcome(more=b"later fields")
    beat = h.hear(BEAT)
    same((beat.nonce, beat.job, beat.epoch), (h.nonce, h.job, h.epoch), "BEAT")
    same((beat.frag, beat.sender), (0, 0), "BEAT")
    same(beat.body, struct.pack("<BQ51x", 0, COOKIE), "body of BEAT")
    h.state(READY)
    h.finish()


def forming(h: Hand) -> None:
    """Section 5.4: before READY nothing but BEATs is sent, and STATE NONE goes back."""
    h.nonce = h.hear(JOIN).nonce
    h.welcome()
    h.hear(BEAT)
    h.state(READY, nonce=h.nonce ^ 1)
    h.state(READY, job=h.job, epoch=h.epoch + 1)
    h.state(READY, job=h.job + 1, epoch=h.epoch)
    h.state(READY, sender=1)
    h.state(FAILED, nonce=h.nonce ^ 1, err=-9)
    h.state(FORMING, missing=2)
    same({m.type for m in h.heard(0.2)}, {BEAT}, "messages in FORMING")
    h.state(NONE)
    h.job, h.epoch, first = h.job + 1, h.epoch + 1, h.nonce
    same(h.hear(JOIN).nonce, first, "nonce of the next JOIN")
    h.welcome(cut=42)
    beat = h.hear(BEAT)
    same((beat.job, beat.epoch), (h.job, h.epoch), "BEAT")
    h.state(READY, nonce=0)
    h.state(FAILED, nonce=0, err=-9)
    same({m.type for m in h.heard(0.2)}, {BEAT}, "messages in FORMING")
    h.state(READY)
    h.hear(DATA)
    h.state(FORMING, nonce=0, missing=3)
    h.finish()


def who(h: Hand) -> None:
    """Section 5.4: WHO draws a BEAT."""
    h.ready()
    h.hear(DATA)
    h.heard(0.05)
    h.send(Message(WHO, depth=9))
    beat = h.hear(BEAT, seconds=4.0)  # one that nobody asked for comes after five
    same((beat.frag, beat.body[0] & WAITING), (0, WAITING), "BEAT for WHO")
    h.finish()


def results(h: Hand) -> None:
    """Section 6.4: which RESULT is taken; 6.5: going on asking."""
    h.ready()
    mine = h.hear(DATA)
    same((mine.frag, mine.flags, mine.kind, mine.count), (0, ONE, BARRIER_KIND, 0), "barrier")
    h.send(h.result(0))
    h.hear(DATA, lambda m: m.frag == SLOTS)
    same(sorted(h.first), list(range(SLOTS + 1)), "fragments in the first window")
    same([m.flags for m in h.first.values()], [ONE, FIRST, 0, 0, 0], "flags")
    good = h.result(1)
    wrongs: List[Dict[str, Any]] = [
        {"count": 351, "body": good.body[4:]}, {"kind": 0x20, "body": good.body},
        {"flags": 0}, {"flags": ONE}, {"flags": FIRST | REDUCE}, {"frag": SLOTS + 1},
        {"flags": FIRST | EMPTY, "body": b""}, {"body": good.body[:-1]},
        {"body": good.body + b"\0"}, {"job": h.job, "epoch": h.epoch + 1},
        {"job": h.job + 1, "epoch": h.epoch}, {"sender": 1}, {"tag": 257},
        {"flags": FIRST | ROOT}, {"flags": FIRST | DIRECT}, {"flags": FIRST | INSIST},
        {"flags": FIRST | 0x4000}, {"kind": 7, "body": bytes(352)}]
    for changes in wrongs:
        wrong = h.result(1)
        wrong.body = bytes(len(good.body))
        for name, value in changes.items():
            setattr(wrong, name, value)
        h.send(wrong)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(h.datagram(h.result(1, body=bytes(len(good.body)))), h.peer)
    h.hear(PROBE, lambda m: m.frag == 1 and bool(m.flags & INSIST))
    said = h.heard(0.1)
    same({m.frag for m in said if m.type == DATA}, set(), "fragments beyond the window, or again")
    h.finish()


def needs(h: Hand) -> None:
    """Section 6.5: whose NEED is obeyed."""
    h.ready()
    h.hear(DATA)
    h.send(h.result(0))
    h.hear(DATA, lambda m: m.frag == SLOTS)
    h.heard(0.02)
    h.send(Message(NEED, frag=0))
    h.send(Message(NEED, frag=SLOTS + 1))
    h.send(Message(NEED, frag=2, sender=1))
    h.send(Message(NEED, frag=2, words=1, body=struct.pack("<Q", 0b10)))
    h.send(Message(NEED, frag=2, words=5, body=bytes(40)))
    h.send(Message(NEED, frag=2, words=2, body=struct.pack("<Q", 1)))
    h.send(Message(NEED, frag=2, words=2, body=struct.pack("<QQ", 1, 0)))
    h.send(Message(NEED, frag=2, words=1, body=struct.pack("<Q", 0b101)))
    h.send(Message(NEED, frag=2, tag=2))
    h.send(Message(NEED, frag=2, flags=DIRECT))
    same([m.frag for m in h.heard(0.1) if m.type == DATA], [], "fragments sent again")
    for need in (Message(NEED, frag=2, tag=1), Message(
            NEED, frag=3, words=1, body=struct.pack("<Q", 0b11))):
        h.send(need)
        again = h.hear(DATA)
        same((again.frag, again.flags & DIRECT), (need.frag, DIRECT), "DATA for NEED")
    h.finish()


def places(h: Hand) -> None:
    """Section 6.3: the place of the next fragment of a slot."""
    h.ready()
    h.hear(DATA)
    h.send(h.result(0, tag=15 << 12, flags=ONE | COLLISION))
    h.hear(DATA, lambda m: m.frag == 4)
    h.send(h.result(1, tag=15 << 12, flags=FIRST | COLLISION | REPLAY))
    h.send(h.result(2, tag=7 << 12))
    h.hear(DATA, lambda m: m.frag == 6)
    same([h.first[n].tag >> 12 for n in range(7)], [0, 0, 0, 0, 0, 0, 7], "places")
    h.send(h.result(1, tag=9 << 12))  # a second time
    probe = h.hear(PROBE, lambda m: m.frag == 6)
    same(probe.tag >> 12, 7, "place of a PROBE")
    h.finish()


def missing_numbers(h: Hand) -> None:
    """Section 6.8: MISS from the aggregator and to it."""
    h.numbers, h.slots = True, MOST_SLOTS
    h.ready()
    h.hear(DATA)
    h.heard(0.1)  # a sample for its timer, which is slow then
    h.send(h.result(0))
    last = h.hear(DATA, lambda m: m.frag == FRAGMENTS)
    h.send(Message(MISS, last=last.seq, missing=0b101))
    again = [h.hear(DATA) for _ in range(2)]
    same(sorted(m.frag for m in again), [FRAGMENTS - 2, FRAGMENTS], "DATA for MISS")
    same([m.flags & DIRECT for m in again], [0] * 2, "flags for MISS")
    same(all(m.seq > last.seq for m in again), True, "new numbers")
    for frag, seq in ((2, 3), (3, 4), (4, 5)):
        h.send(h.result(frag, seq=seq))
    asks = [m for m in h.heard(0.1) if m.type == MISS]
    asked = {m.last - i for m in asks for i in range(64) if m.missing >> i & 1}
    same(asked, {1, 2}, "numbers of MISS")
    h.finish()


def leaving(h: Hand) -> None:
    """Section 5.4: LEAVE up to 5 times, and nothing else."""
    h.ready()
    while len(h.first) <= FRAGMENTS:
        m = h.hear(DATA)
        h.send(h.result(m.frag))
    first = h.hear(LEAVE)
    h.state(LEFT, nonce=h.nonce ^ 1)
    h.state(NONE)
    h.send(Message(NEED, frag=FRAGMENTS))
    h.send(Message(WHO))
    said = h.heard(1.0)
    same([(m.type, m.body) for m in said], [(LEAVE, first.body)] * 4, "after LEAVE")


def refused(h: Hand) -> None:
    nonce = h.hear(JOIN).nonce
    h.send(Message(REFUSE, nonce=nonce, body=struct.pack("<bHII", -98, 7, 1 << 30, 9) + b"more"))


def other_version(h: Hand) -> None:
    """Section 5.6: nothing but type, nonce and check is known of such a REFUSE."""
    nonce = h.hear(JOIN).nonce
    head = b"\x09" + bytes([REFUSE]) + b"\xff" * 14 + struct.pack("<Q", nonce) + b"\xff" * 8
    h.socket.sendto(wire.sealed(head + bytes(4)), h.peer)


def forgotten(h: Hand) -> None:
    h.ready()
    h.hear(DATA)
    h.state(NONE)


def failed(h: Hand) -> None:
    """Section 4.6: a code that nobody knows."""
    h.ready()
    h.hear(DATA)
    h.state(FAILED, err=-99, missing=2)
    leave = h.hear(LEAVE)
    same((leave.body[0], wire.ranks_of(leave.body[1:33])), (256 - 99, [1]), "LEAVE")
    h.state(LEFT)


# What the program must end with: 0, or the code of section 4.6.
SCENES: Dict[Callable[[Hand], None], int] = {
    joining: 0, forming: 0, who: 0, results: 0, needs: 0, places: 0, missing_numbers: 0,
    leaving: 0, refused: -98, other_version: -17, forgotten: -16, failed: -99}
TRIES = 3  # of a scene: of a slow program a timer runs out, or nothing is heard in a moment
