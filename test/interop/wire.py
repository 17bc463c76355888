# SPDX-License-Identifier: Apache-2.0
"""Messages and numbers of the fanin protocol: what doc/protocol.md, sections 3, 6.7 and 7, says
about bytes.  "Section" means a section of it."""
from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import List, Optional, Sequence

VERSION = 1
NO_RANK = 0xFFFF

# Section 3.1
DATA, RESULT, PROBE, NEED = 1, 2, 3, 4
JOIN, WELCOME, REFUSE, BEAT, STATE, LEAVE, LEFT, GROUP_TEST, QUERY, REPORT, ECHO, ECHOED = (
    range(32, 44))
TO_WORKER = {RESULT, NEED, WELCOME, REFUSE, STATE, LEFT, GROUP_TEST}
BODY_BYTES = {WELCOME: 31, REFUSE: 11, STATE: 49, REPORT: 74}  # section 4, at least

# Section 3.2
FIRST, LAST, RESEND, SUMMED, EMPTY, ROOT, REDUCE = 1, 2, 4, 0x20, 0x100, 0x200, 0x400
FLAGS = FIRST | LAST | RESEND | SUMMED | EMPTY | ROOT | REDUCE

# Section 3.3
FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, FIXED32, EXP16, UINT8 = range(8)
WIRE_BYTES = (4, 2, 2, 4, 8, 4, 2, 1)
SUM, AVG, MIN, MAX, BCAST, BARRIER = range(6)
PLAIN = {FLOAT32, FLOAT16, BFLOAT16, INT32, INT64}
DTYPES_OF = {SUM: PLAIN | {FIXED32}, AVG: PLAIN | {FIXED32}, MIN: PLAIN, MAX: PLAIN | {EXP16},
             BCAST: PLAIN | {UINT8}, BARRIER: set(range(8))}

# Messages: section 3.

def _crc_table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()
HEADER = struct.Struct("<BBHIIHBBQHhI")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@dataclass
class Message:
    type: int
    job: int = 0
    epoch: int = 0
    sender: int = NO_RANK
    frag: int = 0
    flags: int = 0
    kind: int = 0
    count: int = 0
    exponent: int = 0
    body: bytes = b""


def encode(m: Message) -> bytes:
    if m.type >= 32:
        m.flags, m.count = SUMMED, len(m.body)
    head = HEADER.pack(VERSION, m.type, m.flags, m.job, m.epoch, m.sender, m.kind, 0, m.frag,
                       m.count, m.exponent, 0)[:28]
    check = crc32c(head + m.body if m.flags & SUMMED else head)
    return head + struct.pack("<I", check) + m.body


def decode(data: bytes) -> Optional[Message]:
    """The message in a datagram, or None if section 3.6 has it dropped."""
    if len(data) < 32 or data[0] != VERSION:
        return None
    _, type_, flags, job, epoch, sender, kind, _, frag, count, exponent, check = \
        HEADER.unpack_from(data)
    body = data[32:]
    if check != crc32c(data[:28] + body if flags & SUMMED else data[:28]) or flags & ~FLAGS:
        return None
    length = count
    if type_ < 32:
        op, dtype = kind >> 4, kind & 15
        if type_ in (DATA, RESULT):
            if dtype not in DTYPES_OF.get(op, ()) or (op == BARRIER and count):
                return None
            length = 0 if flags & EMPTY else count * WIRE_BYTES[dtype]
        else:
            length = 0
    elif not flags & SUMMED or length < BODY_BYTES.get(type_, 0):
        return None
    if len(body) != length:
        return None
    return Message(type_, job, epoch, sender, frag, flags, kind, count, exponent, body)


def ranks_of(bitmap: bytes) -> List[int]:
    return [r for r in range(8 * len(bitmap)) if bitmap[r // 8] >> r % 8 & 1]


def bitmap_of(ranks: Sequence[int]) -> bytes:
    return sum(1 << r for r in set(ranks)).to_bytes(32, "little")


def above(a: int, b: int) -> bool:
    """Of two numbers of results: section 3."""
    return 0 < ((a - b) & 0xFFFF) < 0x8000


# Numbers: sections 6.7 and 7.

def bits_of(x: float) -> int:
    """The binary32 nearest to x, as bits."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", x))[0])
    except OverflowError:
        return 0xFF800000 if x < 0 else 0x7F800000


def float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def bfloat16_of(bits: int) -> int:
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def float16_of(bits: int) -> int:
    sign, size = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    if size > 0x7F800000:
        return sign | 0x7E00
    if size >= 0x477FF000:  # 65520
        return sign | 0x7C00
    if size < 0x38800000:  # 2^-14: denormals are steps of 2^-24
        return sign | round(float_of(size) * 2.0 ** 24)
    return sign | (size + 0xFFF + (size >> 13 & 1) - 0x38000000) >> 13


def widen_float16(half: int) -> int:
    sign, exponent, fraction = (half & 0x8000) << 16, half >> 10 & 31, half & 0x3FF
    if exponent == 31:
        return sign | 0x7F800000 | fraction << 13
    if exponent == 0:
        return sign | bits_of(fraction * 2.0 ** -24)
    return sign | (exponent + 112) << 23 | fraction << 13


def narrow(data: bytes, dtype: int) -> bytes:
    """float32 elements as half types."""
    one = float16_of if dtype == FLOAT16 else bfloat16_of
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return struct.pack(f"<{len(words)}H", *map(one, words))


def widen(data: bytes, dtype: int) -> bytes:
    halves = struct.unpack(f"<{len(data) // 2}H", data)
    words = [widen_float16(h) if dtype == FLOAT16 else h << 16 for h in halves]
    return struct.pack(f"<{len(words)}I", *words)


ZERO = -32768  # the exponent of a block without finite elements but zeros
CODE_INF, CODE_NAN = 2147483647, -2147483648


def exponent_of(block: Sequence[float]) -> int:
    """The smallest e with 2^e >= |x| for all finite x of the block: section 7.1."""
    size = max((abs(x) for x in block if math.isfinite(x)), default=0.0)
    if size == 0:
        return ZERO
    half, e = math.frexp(size)  # size = half x 2^e, 0.5 <= half < 1
    return e - 1 if half == 0.5 else e


def agreed_exponent(e: int) -> int:
    return e if e == ZERO else max(-149, min(128, e))


def codes_of(block: Sequence[float], e: int, ranks: int) -> List[int]:
    factor = 0.0 if e == ZERO else math.ldexp((2 ** 31 - 2) // ranks, -e)
    return [CODE_NAN if math.isnan(x) else round(x * factor) if math.isfinite(x)
            else CODE_INF if x > 0 else -CODE_INF for x in block]


def decode_code(q: int, e: int, ranks: int, divisor: int) -> int:
    """The bits of the float32 that a sum of codes means: section 7.3."""
    if q == CODE_NAN:
        return 0x7FC00000
    if abs(q) == CODE_INF:
        return 0x7F800000 if q > 0 else 0xFF800000
    step = 0.0 if e == ZERO else math.ldexp(1.0, e) / ((2 ** 31 - 2) // ranks) / divisor
    return bits_of(q * step)
