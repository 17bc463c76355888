# SPDX-License-Identifier: Apache-2.0
"""What torch.profiler exports (Kineto, Chrome's format), of NCCL's and of Gloo's process groups.

NCCL's calls are within each other on one thread.  Gloo's work is on threads of its own: an operation
finds it by its shapes and order, for types of lists, which the operation's event does not have.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Iterable, Optional

from .calls import LIBRARIES, SHARES, Call, add_groups, counted, is_call, merged, note
from .collectives import (
    RANKS_MAX,
    Collective,
    Trace,
    check_count,
    kind_of,
    numels,
    time_of,
    type_of,
    whole,
)
from .network import FormatError
from .stream import Item

_OF_NO_TENSOR = ("", "Scalar", "ScalarList", "None")
_ON_DEVICE = ("gpu_user_annotation", "kernel", "gpu_memcpy", "gpu_memset")  # the same, once more
_NOTED = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "Process Group Name",
          "Group size")  # fmt: skip


def is_profile(item: Item, _keys: set[str]) -> bool:
    """Is it an event of a profile?"""
    if item.key == "traceEvents":
        return True  # whatever it is: the reader says what is wrong
    event = item.value
    return not item.key and isinstance(event, dict) and "ph" in event and "name" in event


def _sizes(args: dict[str, Any], what: str) -> list[tuple[int, str]]:
    """Elements and type of each argument that has tensors; no type: it is a list."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return []
    found = []
    for dims, kind in zip(shapes, types):
        if kind in _OF_NO_TENSOR or (kind == "TensorList" and dims == []):
            continue
        found.append((sum(numels(dims, what)), "" if kind == "TensorList" else str(kind)))
    return found


def _call(event: dict[str, Any], what: str) -> Call:
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    name = str(event["name"])
    call = note(Call(name, what, _sizes(args, what)), args, _NOTED)
    call.has_shapes = "Input Dims" in args or event.get("pid") == "CPU functions"  # not by Kineto
    call.at_us = time_of(event.get("ts"), f"{what}: ts")
    return call


class _Backends:
    """What a library did for the operations: it has the types of lists, and sizes of those without."""

    def __init__(self, calls: list[Call]) -> None:
        self._left: dict[Any, deque[Call]] = {}
        for call in calls:
            total = sum(numel for numel, _ in call.sizes)
            for key in (kind_of(call.name), total):
                self._left.setdefault(key, deque()).append(call)

    def next_of(self, key: Any) -> Optional[Call]:
        """The next one of this kind, or of so many elements."""
        left = self._left.get(key)
        return (left.popleft() if len(left) > 1 else left[0]) if left else None


class _Reader:
    def __init__(self) -> None:
        self.trace = Trace([], math.inf)
        self.calls: list[tuple[float, float, Any, Call]] = []
        self.unsized_kernels = self.assumed = 0
        self.assumed_bytes = 0

    def event(self, event: Any, what: str) -> None:
        """Take an event, if it is of a collective."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        name, at = event.get("name"), event.get("ts")
        if isinstance(at, (int, float)) and 0 <= at < self.trace.begun_us:
            self.trace.begun_us = float(at)
        if event.get("cat") in _ON_DEVICE:
            self.unsized_kernels += isinstance(name, str) and name.startswith("nccl")
        elif is_call(name):
            check_count(self.calls)
            call = _call(event, what)
            start, took = call.at_us or 0.0, time_of(event.get("dur", 0), f"{what}: dur")
            where = str(event.get("pid")), str(event.get("tid"))
            self.calls.append((start, -(start + took), where, call))

    def _groups(self) -> list[list[Call]]:
        """Calls that are within each other, the outermost first."""
        self.calls.sort(key=lambda one: one[:2])
        open_calls: dict[Any, tuple[float, list[Call]]] = {}
        found = []
        for _, end, where, call in self.calls:
            outer = open_calls.get(where)
            if outer and end >= outer[0]:
                outer[1].append(call)
                continue
            open_calls[where] = end, [call]
            found.append(open_calls[where][1])
        return found

    def _typed(self, calls: list[Call], backends: _Backends) -> None:
        """Give a list the type that the call within has, or the library's work elsewhere."""
        first = calls[0]
        if not first.sizes or all(kind for _, kind in first.sizes):
            return
        total = sum(numel for numel, _ in first.sizes)
        same = [c for c in calls[1:] if c.sizes and sum(n for n, _ in c.sizes) == total]
        work = same[0] if same else backends.next_of(total)
        first.sizes = [(total, work.sizes[0][1] if work else "")]

    def _merged(self, calls: list[Call], backends: _Backends) -> Optional[Collective]:
        self._typed(calls, backends)
        one = merged(calls)
        if one is None or one.nbytes is not None:
            return one
        lists = [size for call in calls for size in call.sizes]
        one.remedy = "profile with record_shapes=True"
        if any(call.has_shapes for call in calls):
            one.remedy = "this PyTorch notes none of it in a profile: its execution trace does"
        work = None if lists else backends.next_of(one.kind)
        if work and work.sizes:
            one.nbytes = sum(n * type_of(kind, work.what)[1] for n, kind in work.sizes)
            one.dtype, one.is_share = (
                type_of(work.sizes[0][1], work.what)[0],
                one.kind == "all_gather",
            )
        elif lists:
            numel = max(n for n, _ in lists)
            one.nbytes, one.dtype = 4 * numel, "float32"
            one.is_share = one.kind in SHARES and len(lists) == 1
            self.assumed, self.assumed_bytes = self.assumed + 1, self.assumed_bytes + 4 * numel
        return one

    def done(self) -> Trace:
        """The collectives, each once."""
        groups = self._groups()
        works = [one[0] for one in groups if one[0].name.startswith(LIBRARIES)]
        backends = _Backends([call for call in works if call.sizes])
        for calls in counted(groups):
            one = self._merged(calls, backends)
            if one:
                self.trace.found.append(one)
        trace = self.trace
        if not trace.found and self.unsized_kernels:
            raise FormatError(
                f"{self.unsized_kernels} kernels of NCCL, but no operations of PyTorch: "
                "profile ProfilerActivity.CPU as well, with record_shapes=True"
            )
        if self.assumed:
            trace.notes.append(
                f"{self.assumed} lists of {self.assumed_bytes} bytes taken for float32: no type noted"
            )
        trace.begun_us = trace.begun_us if trace.found else 0.0
        return trace


def read(items: Iterable[Item]) -> Trace:
    """The collectives of a profile."""
    reader, count = _Reader(), 0
    for item in items:
        if item.key in ("", "traceEvents"):
            if not item.in_list:
                raise FormatError("traceEvents: expected a list")
            reader.event(item.value, f"traceEvents[{count}]")
            count += 1
        elif item.key == "distributedInfo" and isinstance(item.value, dict):
            about, trace = item.value, reader.trace
            add_groups(trace, about.get("pg_config"))
            if "world_size" in about and int(about.get("pg_count") or 1) == 1:
                trace.ranks = whole(about["world_size"], "distributedInfo: world_size", RANKS_MAX)
    return reader.done()
