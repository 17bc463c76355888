# SPDX-License-Identifier: Apache-2.0
"""A rank of a job of two that says what it is told to: for messages that an honest worker never
sends, or seldom."""
from __future__ import annotations

import socket
import struct
from typing import Any, List, Optional, Sequence, Tuple

import wire
from wire import (BARRIER, BCAST, BEAT, DATA, FIRST, FLOAT32, JOIN, LAST, LEAVE, PROBE, RESULT,
                  STATE, SUM, UINT8, WAITING, WELCOME, WIDE, Message, bitmap_of, ranks_of)

Address = Tuple[str, int]
NONE, FORMING, READY, FAILED, LEFT = range(5)
ONE = FIRST | LAST
FLOAT_SUM, FLOAT_BCAST = SUM << 4 | FLOAT32, BCAST << 4 | FLOAT32
BARRIER_KIND = BARRIER << 4 | UINT8
SLOTS, PAYLOAD = 4, 1408


def join_message(name: bytes, ranks: int, rank: int, payload: int, window: int,
                 options: int = WIDE, alive_ms: int = 1000, nonce: int = 0, launch: int = 0,
                 claim: int = 0) -> Message:
    body = struct.pack("<HHHBIB", ranks, payload, window, options, alive_ms, len(name)) + name
    body += struct.pack("<IQI", 0, launch, claim)
    return Message(JOIN, sender=rank, nonce=nonce or 0x1234 + rank, body=body)


class State:
    """What a STATE says: section 4.5."""

    def __init__(self, m: Message) -> None:
        (self.frag, self.state, self.err, self.multicast, self.ranks, *self.disagree) = \
            struct.unpack_from("<QBbBHHHII", m.body)
        self.nonce, self.missing = m.nonce, ranks_of(m.body[25:57])
        self.workers = struct.unpack_from("<I", m.body, 57)[0] if len(m.body) >= 61 else None

    def __repr__(self) -> str:
        return f"STATE {vars(self)}"


class Member:
    def __init__(self, address: Address, name: str, rank: int, options: int = WIDE,
                 nonce: int = 0, ranks: int = 2) -> None:
        self.ranks = ranks
        self.rank, self.nonce, self.job, self.epoch = rank, nonce or 0xFA0 + rank, 0, 0
        self.name, self.options, self.beats, self.cookie = name.encode(), options, 0, bytes(8)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(60)  # for what must come
        self.socket.connect(address)

    def enter(self) -> "Member":
        # Section 3.7: job and epoch of a JOIN are not checked.
        self.job, self.epoch = 7, 8
        self.send(self.joining())
        welcome = self.hear(WELCOME)
        self.job, self.epoch, self.cookie = welcome.job, welcome.epoch, welcome.body[34:42]
        self.beat()
        return self

    def joining(self, launch: int = 0, claim: int = 0) -> Message:
        return join_message(self.name, self.ranks, self.rank, PAYLOAD, SLOTS, self.options,
                            nonce=self.nonce, launch=launch, claim=claim)

    def datagram(self, m: Message) -> bytes:
        m.job, m.epoch, m.sender = self.job, self.epoch, self.rank
        return wire.encode(m)

    def send(self, m: Message) -> None:
        self.socket.send(self.datagram(m))

    def beat(self, frag: int = 0, flags: int = 0, body: bytes = b"") -> None:
        body = bytes([flags]) + self.cookie + body
        self.send(Message(BEAT, nonce=self.nonce, frag=frag, body=body))

    def leave(self, err: int, blamed: Sequence[int] = ()) -> None:
        self.send(Message(LEAVE, nonce=self.nonce, body=struct.pack("<b", err) + bitmap_of(blamed)))

    def data(self, kind: int = BARRIER_KIND, flags: int = ONE, **fields: Any) -> None:
        if "body" not in fields:
            size = 0 if flags & wire.EMPTY else wire.WIRE_BYTES[kind & 15]
            fields["body"] = bytes(size * fields.get("count", 0))
        self.send(Message(DATA, flags=flags, kind=kind, **fields))

    def probe(self, frag: int, insist: bool = True, last: int = 0xFFFF) -> None:
        self.send(Message(PROBE, frag=frag, last=last, flags=wire.INSIST if insist else 0))

    def next(self) -> Message:
        """The next message that can be decoded."""
        while True:
            m = wire.decode(self.socket.recv(9000))
            if m is not None:
                return m

    def hear(self, kind: int) -> Message:
        """The next message of this type."""
        while True:
            m = self.next()
            if m.type == kind:
                return m

    def state(self, wanted: Optional[int] = None) -> State:
        while True:
            s = State(self.hear(STATE))
            if wanted is None or s.state == wanted:
                return s

    def answers(self) -> List[Message]:
        """What has been sent to this rank up to now: all that comes before the answer to a BEAT,
        but STATE."""
        self.beats += 1
        mark = 1 << 40 | self.beats
        self.beat(mark, WAITING)
        found: List[Message] = []
        while True:
            m = self.next()
            if m.type != STATE:
                found.append(m)
            elif State(m).frag == mark:
                return found

    def close(self) -> None:
        self.socket.close()


class Wrong(Exception):
    """A rule that the other side does not keep."""


def same(got: Any, want: Any, what: str) -> None:
    if got != want:
        raise Wrong(f"{what}: {got}, not {want}")


def result_of(m: Member, frag: int) -> Message:
    """The RESULT of that fragment, the next one that comes."""
    r = m.hear(RESULT)
    same(r.frag, frag, "RESULT of fragment")
    return r
