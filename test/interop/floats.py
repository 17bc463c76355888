# SPDX-License-Identifier: Apache-2.0
"""Half types and the codes of fixed mode: doc/protocol/base.md, section 6.7, and fixed.md.  "Section" is
one of that page."""
from __future__ import annotations

import math
import struct
from typing import List, Sequence

from wire import FLOAT16


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


def blocks_of(values: Sequence[float]) -> bytes:
    """BLOCK8, a fragment's elements: base.md, section 6.7."""
    out = bytearray()
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        e = min(255, (max(bits_of(x) & 0x7FFFFFFF for x in block) + 0x10000) >> 23)
        e = 0 if e < 8 else e
        codes = [round(math.ldexp(x, 133 - e)) if 0 < e < 255 else 0 for x in block]
        out += struct.pack(f"<B{len(block)}b", e, *codes)
    return bytes(out)


def unblock(data: bytes) -> List[float]:
    values: List[float] = []
    for at in range(0, len(data), 33):
        e, *codes = struct.unpack(f"<B{len(data[at + 1:at + 33])}b", data[at:at + 33])
        values += [math.nan if e == 255 else math.ldexp(q, e - 133) if e >= 8 else 0.0
                   for q in codes]
    return values


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


def codes_of(block: Sequence[float], e: int, workers: int) -> List[int]:
    factor = 0.0 if e == ZERO else math.ldexp((2 ** 31 - 2) // workers, -e)
    return [CODE_NAN if math.isnan(x) else round(x * factor) if math.isfinite(x)
            else CODE_INF if x > 0 else -CODE_INF for x in block]


def decode_code(q: int, e: int, workers: int, divisor: int) -> int:
    """The bits of the float32 that a sum of codes means: section 7.3."""
    if q == CODE_NAN:
        return 0x7FC00000
    if abs(q) == CODE_INF:
        return 0x7F800000 if q > 0 else 0xFF800000
    step = 0.0 if e == ZERO else math.ldexp(1.0, e) / ((2 ** 31 - 2) // workers) / divisor
    return bits_of(q * step)
