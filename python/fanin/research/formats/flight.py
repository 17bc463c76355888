# SPDX-License-Identifier: Apache-2.0
"""Dumps of PyTorch's flight recorder, as pickle and as JSON.

A pickle is a program: of its 60 instructions only those that make plain values are followed, by the
reader here, which knows no others.
"""

from __future__ import annotations

import io
from typing import Any, Iterable, Iterator

from .calls import GROUPS_MAX, SHARES
from .collectives import (
    RANKS_MAX,
    Collective,
    Trace,
    check_count,
    joined,
    kind_of,
    numels,
    type_of,
    whole,
)
from .network import FormatError
from .stream import Item

PICKLE_BYTES_MAX = 64 << 20
STEPS_MAX = 2_000_000  # instructions of a pickle
INT_BYTES_MAX = 16
_MARK = object()


def is_flight(item: Item, keys: set[str]) -> bool:
    """Is it an entry of a dump?"""
    entry = item.value
    if item.key != "entries" or not item.in_list:
        return False
    return "pg_config" in keys or isinstance(entry, dict) and "profiling_name" in entry


def is_pickle(data: bytes) -> bool:
    """Does a pickle of protocol 2 to 5 begin so?"""
    return len(data) > 3 and data[0] == 0x80 and 2 <= data[1] <= 5


# ---- pickle ----


class _Values:
    """The values that a pickle makes, on a stack."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def _to_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                found = self.stack[at + 1 :]
                del self.stack[at:]
                return found
        raise IndexError

    def _fill(self, found: list[Any], into: Any) -> None:
        if isinstance(into, dict) and len(found) % 2 == 0:
            into.update(zip(found[::2], found[1::2]))
        elif isinstance(into, list):
            into.extend(found)
        else:
            raise IndexError

    def step(self, name: str, arg: Any) -> None:
        """Follow one instruction.  IndexError, KeyError, TypeError: it makes no sense."""
        stack = self.stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _GIVEN:
            stack.append(arg)
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [list(stack[len(stack) - count :])]
        elif name in ("TUPLE", "LIST"):
            stack.append(self._to_mark())
        elif name in ("SETITEMS", "APPENDS"):
            found = self._to_mark()
            self._fill(found, stack[-1])
        elif name in ("SETITEM", "APPEND"):
            count = 2 if name == "SETITEM" else 1
            found = stack[-count:]
            del stack[-count:]
            self._fill(found, stack[-1])
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else arg] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[arg])
        elif name not in ("PROTO", "FRAME"):
            raise FormatError(
                f"pickle: {name}: expected plain values, as the flight recorder writes them; "
                "nothing of it was run"
            )


_CONSTANTS: dict[str, Any] = {
    "MARK": _MARK, "NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (),
}  # fmt: skip
_GIVEN = ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1")


def _unpickled(data: bytes) -> Any:
    import pickletools  # which takes a while, for a few files

    if len(data) > PICKLE_BYTES_MAX:
        raise FormatError(f"a pickle of more than {PICKLE_BYTES_MAX >> 20} MiB")
    values = _Values()
    try:
        for count, (code, arg, _) in enumerate(pickletools.genops(io.BytesIO(data))):
            if count > STEPS_MAX:
                raise FormatError(f"a pickle of more than {STEPS_MAX} instructions")
            if code.name == "STOP":
                (found,) = values.stack
                return found
            if isinstance(arg, int) and arg.bit_length() > 8 * INT_BYTES_MAX:
                raise FormatError("a pickle with a number of more than 16 bytes")
            values.step(code.name, arg)
    except FormatError:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as error:
        cause = str(error)[:80] or type(error).__name__
        raise FormatError(f"a pickle that makes no sense: {cause}") from None
    raise FormatError("a pickle that ends too early")


def items_of_pickle(data: bytes) -> Iterator[Item]:
    """The entries of the dictionary that a dump is."""
    root = _unpickled(data)
    if not isinstance(root, dict) or not isinstance(root.get("entries"), list):
        raise FormatError("a pickle of another kind: expected a flight recorder's dump")
    for key, value in root.items():
        if isinstance(value, list):
            yield from (Item(str(key), one, True) for one in value)
        else:
            yield Item(str(key), value, False)


# ---- entries ----


def _bytes(entry: dict[str, Any], way: str, what: str) -> tuple[list[int], str]:
    """Bytes of each tensor of one side, and their type."""
    sizes, types = entry.get(f"{way}_sizes", []), entry.get(f"{way}_dtypes", [])
    if not isinstance(sizes, list) or not isinstance(types, list):
        raise FormatError(f"{what}: {way}_sizes: expected lists")
    found = []
    names = []
    for i, dims in enumerate(sizes):
        if not isinstance(dims, list):
            raise FormatError(f"{what}: {way}_sizes: expected shapes")
        name, width = type_of(types[min(i, len(types) - 1)] if types else "", what)
        found.append(width * sum(numels(dims, what)))
        names.append(name)
    return found, joined(names)


def _collective(entry: Any, what: str) -> Any:
    if not isinstance(entry, dict):
        raise FormatError(f"{what}: expected an object")
    kind = kind_of(str(entry.get("profiling_name", "")))
    if not kind:
        return None
    sent, dtype = _bytes(entry, "input", what)
    got, other = _bytes(entry, "output", what)
    group = entry.get("process_group")
    name = str(group[0]) if isinstance(group, list) and group else str(entry.get("pg_id", ""))
    at = whole(entry.get("time_created_ns") or 0, f"{what}: time_created_ns") / 1e3
    one = Collective(kind, max(sum(sent), sum(got)), at or None, what, dtype or other, name)
    one.is_share = kind in SHARES and sum(sent) == sum(got)
    return one


def _groups(trace: Trace, given: Any) -> None:
    rows = list(given.items())[:GROUPS_MAX] if isinstance(given, dict) else []
    for name, about in rows:
        ranks = str(about.get("ranks", "")) if isinstance(about, dict) else ""
        count = len([one for one in ranks.strip("[]").split(",") if one.strip()])
        trace.groups[str(name)] = ranks, count
    if len(set(trace.groups.values())) == 1:
        trace.ranks = next(iter(trace.groups.values()))[1] or None


def read(items: Iterable[Item]) -> Trace:
    """The collectives of a dump: the last ones, as many as the recorder keeps."""
    trace, count, first = Trace([]), 0, None
    for item in items:
        if item.key == "pg_config" and not item.in_list:
            _groups(trace, item.value)
        if item.key != "entries" or item.value is None:
            continue
        what = f"entries[{count}]"
        count += 1
        one = _collective(item.value, what)
        if first is None:
            first = whole(item.value.get("record_id", 0), f"{what}: record_id", 1 << 62)
        if one:
            check_count(trace.found)
            trace.found.append(one)
    if first:
        trace.notes.append(f"{first} older ones are no longer in the dump")
    trace.found.sort(key=lambda one: one.at_us or 0.0)
    trace.begun_us = trace.found[0].at_us or 0.0 if trace.found else 0.0
    for one in trace.found:
        one.ranks = whole(trace.ranks_of(one) or 0, "ranks", RANKS_MAX) or None
    return trace
