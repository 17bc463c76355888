# SPDX-License-Identifier: Apache-2.0
"""Messages of the fanin protocol: what doc/protocol/base.md, section 3, says about bytes.
"Section" means a section of that page."""
from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import List, Optional, Sequence

VERSION = 2
AGGREGATOR = NO_RANK = 0xFFFF
MOST_RANKS = 256

# Section 3.2
DATA, PARTIAL, RESULT, PROBE, NEED, MISS = range(1, 7)
JOIN, WELCOME, REFUSE, BEAT, STATE, LEAVE, WHO = range(16, 23)
QUERY, REPORT = 24, 25
TO_WORKER = {RESULT, NEED, MISS, WELCOME, REFUSE, STATE, WHO}
FIELDS = {
    DATA: ("<QHHhBB", ("frag", "tag", "count", "exponent", "kind", "priority")),
    RESULT: ("<QHHhBx", ("frag", "tag", "count", "exponent", "kind")),
    PROBE: ("<QHH4x", ("frag", "tag", "last")),
    NEED: ("<QHBB4x", ("frag", "tag", "depth", "words")),
    MISS: ("<QHH4x", ("missing", "tag", "last")),
    JOIN: ("<QB7x", ("nonce", "path")),
    WELCOME: ("<QB7x", ("nonce", "path")),
    REFUSE: ("<Q8x", ("nonce",)),
    BEAT: ("<QQ", ("nonce", "frag")),
    STATE: ("<QB7x", ("nonce", "depth")),
    LEAVE: ("<Q8x", ("nonce",)),
    WHO: ("<B15x", ("depth",)),
    QUERY: ("<QB7x", ("nonce", "topic")),
    REPORT: ("<QB7x", ("nonce", "topic")),
}
BODY_BYTES = {JOIN: 60, WELCOME: 42, REFUSE: 11, BEAT: 60, STATE: 57, LEAVE: 60}  # at least
FILLED = {JOIN, BEAT, LEAVE}  # with zeros up to that: section 4

# Section 3.3
FIRST, LAST, REDUCE, ROOT, EMPTY, SUMMED, ECN, COLLISION = (1 << i for i in range(8))
DIRECT, REPLAY, INSIST, ASK = 0x100, 0x200, 0x400, 0x800
SHARED_FLAGS = FIRST | LAST | REDUCE | EMPTY | SUMMED | ECN | COLLISION
FLAGS = {DATA: SHARED_FLAGS | ROOT | DIRECT | ASK, RESULT: SHARED_FLAGS | REPLAY, PROBE: INSIST}

# Options of JOIN (section 4.1), a flag of WELCOME (4.2), flags of BEAT (4.4)
GROUP, SUMMED_JOB, WIDE, AHEAD, NUMBERS, RUNS, QUAD = (1 << i for i in range(7))
NUMBERED, QUADS = 1, 4
RUN = 0x8000  # of a DATA or RESULT: protocol/runs.md
HEARD, WAITING = 1, 2

# Section 3.4
FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, FIXED32, EXP16, UINT8, FLOAT64, BLOCK8 = range(10)
WIRE_BYTES = (4, 2, 2, 4, 8, 4, 2, 1, 8, 1)  # of BLOCK8 without the exponents
SUM, AVG, MIN, MAX, BCAST, BARRIER = range(6)
PLAIN = {FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, FLOAT64}
DTYPES_OF = {SUM: PLAIN | {FIXED32, BLOCK8}, AVG: PLAIN | {FIXED32, BLOCK8}, MIN: PLAIN, MAX: PLAIN | {EXP16},
             BCAST: PLAIN | {UINT8}, BARRIER: set(range(10))}


def _crc_table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()
HEADER = struct.Struct("<BBHIIHH")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@dataclass
class Message:
    type: int
    flags: int = 0
    job: int = 0
    epoch: int = 0
    sender: int = NO_RANK
    seq: int = 0
    frag: int = 0
    tag: int = 0  # a rank + 1, or 0: "to" or "helper"; its upper 4 bits are the place
    count: int = 0
    exponent: int = 0
    kind: int = 0
    priority: int = 0
    last: int = 0
    missing: int = 0
    words: int = 0
    depth: int = 0
    nonce: int = 0
    path: int = 0
    topic: int = 0
    body: bytes = b""

    @property
    def place(self) -> int:
        return self.tag >> 12


def sealed(data: bytes) -> bytes:
    """The same with a valid check: section 3.5."""
    bare = data[1] in (DATA, PARTIAL, RESULT) and not data[2] & SUMMED
    check = crc32c(data[:32] + (b"" if bare else data[36:]))
    return data[:32] + struct.pack("<I", check) + data[36:]


def encode(m: Message) -> bytes:
    form, names = FIELDS[m.type]
    head = HEADER.pack(VERSION, m.type, m.flags, m.job, m.epoch, m.sender, m.seq)
    fields = struct.pack(form, *(getattr(m, name) for name in names))
    body = m.body.ljust(BODY_BYTES[m.type], b"\0") if m.type in FILLED else m.body
    return sealed(head + fields + bytes(4) + body)


def decode(data: bytes) -> Optional[Message]:
    """The message in a datagram, or None if section 3.7 has it dropped in any job."""
    if len(data) < 36 or data[0] != VERSION or sealed(data) != data or data[1] not in FIELDS:
        return None
    head = HEADER.unpack_from(data)
    m = Message(*head[1:])
    m.body = data[36:]
    form, names = FIELDS[m.type]
    for name, value in zip(names, struct.unpack_from(form, data, 16)):
        setattr(m, name, value)
    if m.flags & ~FLAGS.get(m.type, 0) or m.tag & 0xFFF > MOST_RANKS:
        return None
    return m if _right_length(m) else None


def bytes_of(dtype: int, count: int) -> int:
    return count * WIRE_BYTES[dtype] + (-(-count // 32) if dtype == BLOCK8 else 0)


def _right_length(m: Message) -> bool:
    """Sections 3.4 and 3.6."""
    if m.type >= JOIN:
        return len(m.body) >= BODY_BYTES.get(m.type, 0)
    if m.type in (DATA, RESULT):
        op, dtype = m.kind >> 4, m.kind & 15
        if dtype not in DTYPES_OF.get(op, ()) or (op == BARRIER and m.count):
            return False
        return len(m.body) == (0 if m.flags & EMPTY else bytes_of(dtype, m.count))
    return m.words <= 4 and len(m.body) == 8 * m.words


def ranks_of(bitmap: bytes) -> List[int]:
    return [r for r in range(8 * len(bitmap)) if bitmap[r // 8] >> r % 8 & 1]


def bitmap_of(ranks: Sequence[int]) -> bytes:
    return sum(1 << r for r in set(ranks)).to_bytes(32, "little")


def above(a: int, b: int) -> bool:
    """Of two numbers of results: section 6.3."""
    return 0 < ((a - b) & 0xFFFF) < 0x8000
