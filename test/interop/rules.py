# SPDX-License-Identifier: Apache-2.0
"""What doc/protocol.md says about messages that an honest worker never sends, or seldom: two
members of a job by hand, against a switch."""
from __future__ import annotations

import socket
import struct
from typing import List, Optional, Sequence, Tuple

import wire
from wire import (BARRIER, BCAST, BEAT, DATA, EMPTY, FIRST, FLOAT32, JOIN, LAST, LEAVE, RESULT,
                  ROOT, STATE, SUM, SUMMED, UINT8, WELCOME, Message, bitmap_of, ranks_of)

Address = Tuple[str, int]
MISMATCH, STALLED, OWN_ERROR = -10, -9, -3
FAILED, WIDE = 3, 4
ONE = FIRST | LAST
FLOAT_SUM, UINT8_BARRIER = SUM << 4 | FLOAT32, BARRIER << 4 | UINT8


class Member:
    """A rank of a job of two that says what it is told to."""

    def __init__(self, address: Address, name: str, rank: int) -> None:
        self.rank, self.nonce, self.job, self.epoch = rank, 0xFA0 + rank, 0, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(1)
        self.socket.connect(address)
        # job, epoch: section 4 has the switch ignore them in a JOIN
        self.job, self.epoch = 7, 8
        self.send(Message(JOIN, frag=self.nonce, body=struct.pack(
            "<HHHBIB", 2, 1408, 4, WIDE, 1000, len(name)) + name.encode()))
        welcome = self.hear(WELCOME)
        self.job, self.epoch = welcome.job, welcome.epoch
        self.beat()

    def send(self, m: Message) -> None:
        m.job, m.epoch, m.sender = self.job, self.epoch, self.rank
        self.socket.send(wire.encode(m))

    def beat(self) -> None:
        self.send(Message(BEAT, body=struct.pack("<QB", self.nonce, 0)))

    def leave(self, err: int, blamed: Sequence[int]) -> None:
        self.send(Message(LEAVE, body=struct.pack("<Qb", self.nonce, err) + bitmap_of(blamed)))

    def data(self, kind: int, flags: int = ONE, **fields: int) -> None:
        body = bytes(4 * fields.get("count", 0)) if kind == FLOAT_SUM else b""
        self.send(Message(DATA, flags=flags, kind=kind, body=body, **fields))

    def hear(self, kind: int) -> Message:
        """The next message of this type."""
        while True:
            m = wire.decode(self.socket.recv(9000))
            if m is not None and m.type == kind:
                return m

    def failure(self) -> Message:
        while True:
            m = self.hear(STATE)
            if m.body[0] == FAILED:
                return m


def _fault(m: Message) -> Tuple[int, int, int, int, int, List[int]]:
    """Error, rank_a, rank_b, desc_a, desc_b and who is to blame."""
    err, rank_a, rank_b, desc_a, desc_b = struct.unpack_from("<xbxxxHHII", m.body)
    return err, rank_a, rank_b, desc_a, desc_b, ranks_of(m.body[17:49])


def _barrier_types(a: Member, b: Member) -> Optional[str]:
    """Sections 3.3 and 4.6: the switch passes any dtype of a BARRIER, and compares it."""
    for m in (a, b):
        m.data(BARRIER << 4 | FLOAT32)
    kinds = [m.hear(RESULT).kind for m in (a, b)]
    a.data(UINT8_BARRIER, frag=1)
    b.data(BARRIER << 4 | FLOAT32, frag=1)
    fault = _fault(a.failure())
    if kinds != [0x50, 0x50] or fault != (MISMATCH, 1, 0, 0x350, 0x357, [0, 1]):
        return f"results of kinds {kinds}, then {fault}"
    return None


def _exponents(a: Member, b: Member) -> Optional[str]:
    """Section 3.3: of any dtype, exponents are compared and repeated."""
    for m in (a, b):
        m.data(FLOAT_SUM, count=2, exponent=5)
    echoed = a.hear(RESULT).exponent
    a.data(FLOAT_SUM, frag=1, count=2)
    b.data(FLOAT_SUM, frag=1, count=2, exponent=5)
    err, rank_a, rank_b, desc_a, desc_b, _ = _fault(a.failure())
    if echoed != 5 or err != MISMATCH or {rank_a, rank_b} != {0, 1} or desc_a != desc_b:
        return f"exponent {echoed}, then {err}, {rank_a}, {rank_b}, {desc_a:#x}, {desc_b:#x}"
    return None


def _flags(a: Member, b: Member) -> Optional[str]:
    """Section 3.2: a reserved flag has a DATA dropped; a control message needs SUMMED."""
    a.data(UINT8_BARRIER, flags=ONE | 0x40)
    body = struct.pack("<Qb", a.nonce, 0) + bytes(32)
    lone = bytearray(wire.encode(
        Message(LEAVE, job=a.job, epoch=a.epoch, sender=a.rank, body=body)))
    lone[2:4] = bytes(2)
    lone[28:32] = struct.pack("<I", wire.crc32c(bytes(lone[:28])))
    a.socket.send(bytes(lone))
    a.data(UINT8_BARRIER)
    b.data(UINT8_BARRIER, flags=ONE | SUMMED)
    results = [m.hear(RESULT) for m in (a, b)]
    if any(r.sender != 0 or r.flags != ONE for r in results):
        return f"results {results}"
    return None


def _root_is_told(a: Member, b: Member) -> Optional[str]:
    """Section 6.2: a broadcast's root gets the RESULT, with the payload, like the others."""
    kind = BCAST << 4 | FLOAT32
    a.send(Message(DATA, flags=ONE | ROOT, kind=kind, count=1, body=b"\1\2\3\4"))
    b.data(kind, ONE | EMPTY, count=1)
    bodies = [m.hear(RESULT).body for m in (a, b)]
    return None if bodies == [b"\1\2\3\4"] * 2 else f"results {bodies}"


def _blame(a: Member, b: Member) -> Optional[str]:
    """Sections 4.7 and 5.5: the switch hands on error and blame."""
    a.leave(STALLED, [1, 77])
    fault = _fault(b.failure())
    return None if fault[0] == STALLED and fault[5] == [1] else f"{fault}"


def _blame_nobody(a: Member, b: Member) -> Optional[str]:
    a.leave(OWN_ERROR, [])
    fault = _fault(b.failure())
    return None if fault[0] == OWN_ERROR and fault[5] == [0] else f"{fault}"


def _mismatch_elsewhere(a: Member, b: Member) -> Optional[str]:
    """Section 4.5: of a MISMATCH on another shard only the blame is told."""
    a.leave(MISMATCH, [0, 1])
    fault = _fault(b.failure())
    told = fault[0] == MISMATCH and fault[1] == fault[2] and fault[5] == [0, 1]
    return None if told else f"{fault}"


RULES = (_barrier_types, _exponents, _flags, _root_is_told, _blame, _blame_nobody,
         _mismatch_elsewhere)


def broken(address: Address) -> Optional[str]:
    """The first rule that the switch at `address` does not keep, and how; or None."""
    for rule in RULES:
        members = [Member(address, rule.__name__, rank) for rank in range(2)]
        try:
            wrong = rule(*members)
            for m in members:
                m.leave(0, [])
        except socket.timeout:
            wrong = "no answer"
        finally:
            for m in members:
                m.socket.close()
        if wrong:
            return f"{rule.__name__[1:]}: {wrong}"
    return None
