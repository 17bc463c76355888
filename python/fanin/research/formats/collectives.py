# SPDX-License-Identifier: Apache-2.0
"""What all traces and workloads have in common: collectives with their kind, type, bytes and time.

A collective has the bytes of its larger side: an all-gather those of all ranks' shares.  On links that
carry both ways at once it takes as long as an all-reduce of so many bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional, Sized

from .network import FormatError

COLLECTIVES_MAX = 1 << 18  # of a trace
NUMEL_MAX = 1 << 44  # of a tensor
BYTES_MAX = 1 << 50  # of a collective
RANKS_MAX = 1 << 20
DEPTH_MAX = 64  # lists within lists, of a tensor's shape
WORD_MAX = 40  # characters of a name that an error repeats

COUNTED = ("all_reduce", "reduce_scatter", "all_gather")  # become layers; others are left out

# Beginnings of names without underscores, the longer before those that they begin with.
_KINDS = (
    ("allreduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("barrier", "barrier"),
    ("monitoredbarrier", "barrier"),
    ("isend", "send"),
    ("send", "send"),
    ("irecv", "recv"),
    ("recv", "recv"),
)
_NOTHING = ("wait", "init", "startcoalescing", "endcoalescing", "coalesced", "shutdown", "epochend")

_TYPES = (
    "float32 float f32 4", "float64 double 8", "float16 half 2", "bfloat16 2", "bool 1",
    "int64 long long_int long_long 8", "int32 int 4", "int16 short short_int 2",
    "int8 char signed_char 1", "uint8 byte unsigned_char 1", "uint16 unsigned_short 2",
    "uint32 unsigned_int 4", "uint64 unsigned_long 8", "complex32 complexhalf complex<half> 4",
    "complex64 complexfloat complex<float> 8", "complex128 complexdouble complex<double> 16",
    "float8_e4m3fn 1", "float8_e5m2 1", "float8_e4m3fnuz 1", "float8_e5m2fnuz 1", "float8_e8m0fnu 1",
)  # fmt: skip
_BY_NAME: dict[str, tuple[str, int]] = {
    name: (row.split()[0], int(row.split()[-1])) for row in _TYPES for name in row.split()[:-1]
}


@dataclass
class Collective:
    """`nbytes` None: the trace does not say; `at_us` None: nobody noted when it began."""

    kind: str
    nbytes: Optional[int]
    at_us: Optional[float] = None
    what: str = ""  # its place in the trace
    dtype: str = ""
    group: str = ""  # of ranks; "": the trace does not say
    ranks: Optional[int] = None  # of the group
    is_share: bool = False  # an all-gather of which one rank's share alone has a size
    remedy: str = ""  # what gives the next trace the size that this one lacks


@dataclass
class Trace:
    """The collectives of one rank, in the order in which they began."""

    found: list[Collective]
    begun_us: float = 0.0
    ranks: Optional[int] = None  # of the job
    groups: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # by name, ranks and their number
    notes: list[str] = field(default_factory=list)

    def ranks_of(self, one: Collective) -> Optional[int]:
        """How many ranks take part, as far as the trace says."""
        return one.ranks or self.groups.get(one.group, ("", 0))[1] or self.ranks


def short(value: Any) -> str:
    """A value of the file as an error repeats it."""
    return repr(str(value)[:WORD_MAX])


def whole(value: Any, what: str, most: int = 1 << 62) -> int:
    """A whole number, or its digits as JSON of protobuf has 64 bits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise FormatError(f"{what}: {short(value)}: expected a whole number up to {most}")
    return value


def time_of(value: Any, what: str) -> float:
    """Microseconds, at most some 30,000 years."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e18:
        raise FormatError(f"{what}: {short(value)}: expected a time")
    return float(value)


def kind_of(name: str) -> str:
    """The collective that a name means: "c10d::_allgather_base_" is an all_gather; "": none."""
    plain = name.rpartition(":")[2].rpartition(".")[2].lower().replace("_", "").replace("-", "")
    for begin, kind in _KINDS:
        if plain.startswith(begin):
            return kind
    return "" if plain.startswith(_NOTHING) else plain[:WORD_MAX]


def type_of(name: Any, what: str) -> tuple[str, int]:
    """The name that is used here of a type, and its bytes."""
    found = _BY_NAME.get(
        str(name).lower().replace("c10::", "").replace("torch.", "").replace(" ", "_")
    )
    if found is None:
        raise FormatError(f"{what}: {short(name)}: no type whose size is known")
    return found


def numels(dims: Any, what: str, depth: int = 0) -> list[int]:
    """Elements of each tensor of a shape, or of lists of shapes."""
    if not isinstance(dims, list) or depth > DEPTH_MAX:
        raise FormatError(f"{what}: expected the shape of a tensor")
    if dims and isinstance(dims[0], list):
        return [n for one in dims for n in numels(one, what, depth + 1)]
    return [whole(math.prod(whole(n, what, NUMEL_MAX) for n in dims), what, NUMEL_MAX)]


def joined(types: list[str]) -> str:
    """The type of several tensors."""
    return types[0] if len(set(types)) == 1 else "mixed" if types else ""


def check_count(found: Sized) -> None:
    """Called before another one is added."""
    if len(found) >= COLLECTIVES_MAX:
        raise FormatError(f"more than {COLLECTIVES_MAX} collectives")
