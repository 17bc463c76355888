# SPDX-License-Identifier: Apache-2.0
"""Tensors for a job, and what must come out of it: doc/protocol/base.md, section 6.7, and fixed.md."""
from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

import floats
from plans import SIZES

FORMATS = {"float32": "f", "float16": "H", "bfloat16": "H", "int32": "i", "int64": "q",
           "float64": "d", "uint8": "B"}


@dataclass
class Op:
    verb: str
    dtype: str
    op: str
    count: int
    root: int = 0

    def line(self) -> str:
        return f"{self.verb} {self.dtype} {self.op} {self.count} {self.root}"


@dataclass
class Case:
    """A job.  `ranks` has a letter a rank: P is worker.py, S is small.py, C is client.c."""
    name: str
    ranks: str
    env: Dict[str, str] = field(default_factory=dict)
    shards: int = 1
    loss: float = 0.0
    together: bool = True  # start several operations before waiting for them
    large: int = 4000
    switch: Tuple[str, ...] = ()  # its options
    host: str = "127.0.0.1"
    group: bool = False  # results must come by multicast

    def option(self, name: str, default: str) -> str:
        return self.env.get(name, default)

    @property
    def payload(self) -> int:
        bitmap = 8 * -(-len(self.ranks) // 64)
        return min((int(self.option("FANIN_MTU", "1500")) - 84 - bitmap) // 64 * 64, 8832)


def half(x: float, dtype: str) -> int:
    bits = floats.bits_of(x)
    return floats.float16_of(bits) if dtype == "float16" else floats.bfloat16_of(bits)


def unhalf(bits: int, dtype: str) -> float:
    return floats.float_of(floats.widen_float16(bits) if dtype == "float16" else bits << 16)


def special(rng: random.Random, i: int, rank: int) -> Optional[float]:
    """Here and there what is not a plain number: infinities that meet, NaN, -0.0 on all ranks."""
    pick = i % 97
    if pick == 5:
        return math.inf if rank == 0 else rng.uniform(-1, 1)
    if pick == 6:
        return math.inf if rank == 0 else -math.inf
    if pick == 7 and rank == 1:
        return math.nan
    return -0.0 if pick == 8 else None


def number(rng: random.Random, op: Op, fixed: bool, i: int, rank: int) -> float:
    """An element whose sums are exact in binary32, or any where order does not matter."""
    value = special(rng, i, rank)
    if value is not None:
        return value
    if op.op in ("min", "max"):
        return rng.uniform(-1, 1) * 2.0 ** rng.randint(-20, 15)
    if fixed:
        far = rng.random() < 0.02
        return floats.float_of(floats.bits_of(rng.uniform(-1, 1) * 2.0 ** (
            rng.randint(-160, 126) if far else rng.randint(-4, i // 300 % 40))))
    return float(rng.randint(-30000, 30000) if op.dtype == "float16" else rng.randint(-5000, 5000))


def tensor(op: Op, fixed: bool, rank: int, seed: str) -> bytes:
    rng = random.Random(f"{seed}.{rank}")
    if op.verb in ("broadcast", "barrier"):
        return rng.randbytes(op.count * SIZES[op.dtype])
    if op.dtype in ("int32", "int64"):
        bits = 8 * SIZES[op.dtype] - 1
        values: List[float] = [rng.randint(-1 << bits, (1 << bits) - 1) for _ in range(op.count)]
    else:
        values = [number(rng, op, fixed, i, rank) for i in range(op.count)]
        if op.dtype not in ("float32", "float64"):
            values = [half(x, op.dtype) for x in values]
    return struct.pack(f"<{op.count}{FORMATS[op.dtype]}", *values)


# What must come out.

def reduce_ints(column: Sequence[int], op: str, bits: int) -> int:
    if op in ("min", "max"):
        return min(column) if op == "min" else max(column)
    total = (sum(column) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    if op == "avg":
        quotient = abs(total) // len(column)
        return -quotient if total < 0 else quotient
    return total


def reduce_floats(column: Sequence[float], op: str, double: bool = False) -> float:
    if any(map(math.isnan, column)):
        return math.nan
    if op in ("min", "max"):
        return min(column) if op == "min" else max(column)
    total = column[0]
    for x in column[1:]:
        total += x
    value = total / len(column) if op == "avg" else total
    return value if double else floats.float_of(floats.bits_of(value))


def expect_fixed(case: Case, op: Op, columns: Sequence[Sequence[float]]) -> bytes:
    """Section 7, a shard's share by itself."""
    ranks, full, words = len(columns), case.payload // 4, []
    for shard in range(case.shards):
        begin, end = op.count * shard // case.shards, op.count * (shard + 1) // case.shards
        for at in range(begin, end, full):
            blocks = [values[at:min(at + full, end)] for values in columns]
            e = max(floats.exponent_of(b) for b in blocks)
            codes = [floats.codes_of(b, e, ranks) for b in blocks]
            words += [floats.decode_code(add_codes(c), e, ranks, ranks if op.op == "avg" else 1)
                      for c in zip(*codes)]
    return struct.pack(f"<{len(words)}I", *words)


def expect_blocks(case: Case, op: Op, columns: Sequence[Sequence[float]]) -> bytes:
    """BLOCK8, section 6.7: each fragment by itself."""
    full, values = case.payload - -(-case.payload // 33), []
    for shard in range(case.shards):
        begin, end = op.count * shard // case.shards, op.count * (shard + 1) // case.shards
        for at in range(begin, end, full):
            sent = [floats.unblock(floats.blocks_of(c[at:min(at + full, end)])) for c in columns]
            sums = [reduce_floats(c, op.op) for c in zip(*sent)]
            values += floats.unblock(floats.blocks_of(sums))
    if op.dtype == "float32":
        return struct.pack(f"<{op.count}f", *values)
    return struct.pack(f"<{op.count}H", *(half(x, op.dtype) for x in values))


def add_codes(codes: Sequence[int]) -> int:
    odd = {c for c in codes if abs(c) >= floats.CODE_INF}
    if len(odd) > 1:
        return floats.CODE_NAN
    return odd.pop() if odd else sum(codes)


def expect(case: Case, op: Op, tensors: Sequence[bytes]) -> bytes:
    if op.verb == "broadcast":
        return tensors[op.root]
    letter = FORMATS[op.dtype]
    columns = [struct.unpack(f"<{op.count}{letter}", t) for t in tensors]
    if letter in "iq":
        values = [reduce_ints(c, op.op, 8 * SIZES[op.dtype]) for c in zip(*columns)]
        return struct.pack(f"<{op.count}{letter}", *values)
    if letter == "d":
        doubles = [reduce_floats(c, op.op, True) for c in zip(*columns)]
        return struct.pack(f"<{op.count}d", *doubles)
    fixed = case.option("FANIN_MODE", "") == "fixed" and op.op in ("sum", "avg")
    if fixed and op.dtype == "float32":
        return expect_fixed(case, op, columns)
    carried = case.option("FANIN_WIRE", "float32") if op.dtype == "float32" else op.dtype
    blocks = case.option("FANIN_WIRE", "") == "int8" and op.op in ("sum", "avg")
    if blocks and op.count > 256:
        if op.dtype != "float32":
            columns = [[unhalf(h, op.dtype) for h in values] for values in columns]
        return expect_blocks(case, op, columns)
    if carried == "int8":
        carried = "float32"
    if carried != "float32":
        if op.dtype == "float32":
            columns = [[half(x, carried) for x in values] for values in columns]
        columns = [[unhalf(h, carried) for h in values] for values in columns]
    results = [reduce_floats(c, op.op) for c in zip(*columns)]
    if carried != "float32":
        halves = [half(x, carried) for x in results]
        if op.dtype != "float32":
            return struct.pack(f"<{op.count}H", *halves)
        results = [unhalf(h, carried) for h in halves]
    return struct.pack(f"<{op.count}f", *results)


def is_nan(op: Op, word: int) -> bool:
    limit = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80,
             "float64": 0x7FF0 << 48}.get(op.dtype, 0)
    return bool(limit) and op.verb != "broadcast" and word & (limit * 2 - 1 | limit) > limit


def compare(op: Op, got: bytes, want: bytes) -> Optional[str]:
    if got == want:
        return None
    letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[SIZES[op.dtype]]
    words = [struct.unpack(f"<{op.count}{letter}", b) for b in (got, want)]
    sign = 1 << 8 * SIZES[op.dtype] - 1
    for i, (a, b) in enumerate(zip(*words)):
        if a != b and not (is_nan(op, a & ~sign) and is_nan(op, b & ~sign)):
            return f"{op.line()}: element {i} is {a:#x}, not {b:#x}"
    return None
