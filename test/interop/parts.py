# SPDX-License-Identifier: Apache-2.0
"""From operations to fragments: doc/protocol/base.md, section 6.2, and fixed.md, section 7.2."""
from __future__ import annotations

import struct
from typing import Dict, List, Optional, Sequence, Tuple

from floats import (agreed_exponent, blocks_of, codes_of, decode_code, exponent_of, narrow,
                    unblock, widen)
from plans import Options, Request
from wire import (AVG, BARRIER, BCAST, BFLOAT16, BLOCK8, DATA, EMPTY, EXP16, FIRST, FIXED32, FLOAT32, LAST, MAX,
                  REDUCE, ROOT, SUMMED, WIRE_BYTES, Message)


class Part:
    """The share of an operation that one shard carries, divided into fragments."""

    def __init__(self, o: Options, request: Request, begin: int, end: int) -> None:
        self.o, self.request, self.count = o, request, end - begin
        size = WIRE_BYTES[request.dtype]
        data = request.data[begin * size:end * size]
        self.dtype, halves = request.dtype, request.op <= MAX and request.dtype == FLOAT32
        if halves and o.wire not in (FLOAT32, BLOCK8):
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

    def mark(self) -> int:
        return (self.request.root or 0) << 5

    def elements(self, block: int) -> Tuple[int, int]:
        return block * self.full, min((block + 1) * self.full, self.count)

    def contribution(self, n: int) -> Message:
        begin, end = self.elements(n)
        flags = self.flags(n)
        body = b"" if flags & EMPTY else self.data[begin * self.size:end * self.size]
        return Message(DATA, flags=flags, kind=self.request.op << 4 | self.dtype,
                       count=end - begin, exponent=self.mark(), body=body)

    def take(self, n: int, m: Message) -> None:
        self.results[n] = m.body
        self.left -= 1

    def result(self) -> bytes:
        if self.request.op == BCAST and self.request.root == self.o.rank:
            return self.data
        data = b"".join(self.results[n] for n in range(self.frags))
        return data if self.dtype == self.request.dtype else widen(data, self.dtype)


class BlockPart(Part):
    """The same as BLOCK8, where the slots are QUAD's."""

    def __init__(self, o: Options, request: Request, begin: int, end: int) -> None:
        super().__init__(o, request, begin, end)
        data = self.data if request.dtype == FLOAT32 else widen(self.data, request.dtype)
        self.values = struct.unpack(f"<{self.count}f", data)
        self.dtype, self.full = BLOCK8, o.payload - -(-o.payload // 33)
        self.frags = self.left = max(1, -(-self.count // self.full))

    @staticmethod
    def carries(o: Options, r: Request) -> bool:
        """As libfanin chooses."""
        return o.wire == BLOCK8 and r.op <= AVG and r.dtype <= BFLOAT16 and r.count > 256

    def contribution(self, n: int) -> Message:
        begin, end = self.elements(n)
        return Message(DATA, flags=self.flags(n), kind=self.request.op << 4 | BLOCK8,
                       count=end - begin, exponent=self.mark(),
                       body=blocks_of(self.values[begin:end]))

    def result(self) -> bytes:
        values = [x for n in range(self.frags) for x in unblock(self.results[n])]
        data = struct.pack(f"<{len(values)}f", *values)
        return data if self.request.dtype == FLOAT32 else narrow(data, self.request.dtype)


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
    """The same in fixed mode: fixed.md."""

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
            return Message(DATA, flags=flags, kind=MAX << 4 | EXP16, count=len(blocks),
                           exponent=self.mark(), body=body)
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
