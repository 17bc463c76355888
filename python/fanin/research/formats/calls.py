# SPDX-License-Identifier: Apache-2.0
"""Collectives as PyTorch records them: up to three calls within each other.

c10d::allreduce_ is the operation, in it record_param_comms is what NCCL's process group notes, in that
nccl:all_reduce is the library's work.  Versions differ in which of them there are, and which have sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from .collectives import (
    NUMEL_MAX,
    RANKS_MAX,
    Collective,
    Trace,
    joined,
    kind_of,
    type_of,
    whole,
)

PARAMS = "record_param_comms"
LIBRARIES = ("gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:")
GROUPS_MAX = 4096  # process groups of a trace
SHARES = ("all_gather", "reduce_scatter")


@dataclass
class Call:
    """`sizes`: elements of each argument with tensors, and their type, "": it is not known."""

    name: str
    what: str
    sizes: list[tuple[int, str]]
    noted: Optional[tuple[str, int, str]] = None  # kind, elements of the larger side and type
    group: str = ""
    ranks: Optional[int] = None
    at_us: Optional[float] = None
    has_shapes: bool = False  # even if they are empty


def is_call(name: Any) -> bool:
    """Is it the name of one of the three?"""
    return isinstance(name, str) and (
        name.startswith("c10d::") or name == PARAMS or name.startswith(LIBRARIES)
    )


def note(call: Call, about: dict[str, Any], names: Sequence[str], group: str = "") -> Call:
    """Add what the process group notes, by these names of it: collective, type, elements in and out,
    the group, otherwise `group`, and its ranks."""
    collective, dtype, *numels, its_group, ranks = names
    if numels[0] in about:
        most = max(
            whole(about.get(key, 0), f"{call.what}: {key}", NUMEL_MAX)
            if about.get(key) != ""
            else 0
            for key in numels
        )
        call.noted = kind_of(str(about.get(collective, ""))), most, str(about.get(dtype, ""))
    call.group = str(about.get(its_group) or group)
    if about.get(ranks):
        call.ranks = whole(about[ranks], f"{call.what}: {ranks}", RANKS_MAX)
    return call


def _bytes(sizes: list[tuple[int, str]], what: str) -> tuple[int, str]:
    """Bytes and type of the largest argument."""
    found = [(numel * type_of(kind, what)[1], type_of(kind, what)[0]) for numel, kind in sizes]
    return max(found, key=lambda one: one[0])


def merged(calls: list[Call]) -> Optional[Collective]:
    """The collective that the calls are, the outermost first; None: it moves nothing."""
    first = calls[0]
    known = next((call for call in calls if call.noted), None)
    named = next((call for call in calls if call.name != PARAMS), first)
    group = next((call.group for call in calls if call.group), "")
    ranks = next((call.ranks for call in calls if call.ranks), None)
    kind = known.noted[0] if known and known.noted else kind_of(named.name)
    if not kind or kind == kind_of(PARAMS) and not any(call.sizes for call in calls):
        return None
    one = Collective(kind, None, first.at_us, first.what, "", group, ranks)
    if known and known.noted:
        numel, dtype = known.noted[1:]
        one.dtype, width = type_of(dtype, first.what) if numel else ("", 0)
        one.nbytes = numel * width
        return one
    for call in calls:
        if call.sizes and all(dtype for _, dtype in call.sizes):
            one.nbytes, one.dtype = _bytes(call.sizes, call.what)
            is_list = call.name.startswith("c10d::") or kind == "all_gather"
            one.is_share = kind in SHARES and is_list and len(call.sizes) == 1
            return one
    return one


def counted(groups: list[list[Call]]) -> list[list[Call]]:
    """Without what libraries did elsewhere for operations that are there."""
    if not any(one[0].name.startswith("c10d::") for one in groups):
        return groups
    return [one for one in groups if not one[0].name.startswith(LIBRARIES)]


def tensors(dims: list[int], types: list[str], what: str) -> tuple[int, str]:
    """Elements of an argument's tensors, as if they were all of the type that is named."""
    if len(dims) != len(types):
        types = types[:1] * len(dims)
    if len(set(types)) == 1:
        return sum(dims), types[0]
    nbytes = sum(n * type_of(kind, what)[1] for n, kind in zip(dims, types))
    return nbytes, "uint8" if joined(types) else ""


def add_groups(trace: Trace, given: Any) -> None:
    """Note the process groups of a job, as distributedInfo and process_group:init list them."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return
    rows = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    for one in rows[:GROUPS_MAX]:
        size = one.get("pg_size", one.get("group_size"))
        ranks = json.dumps(one["ranks"]) if one.get("ranks") else ""
        count = whole(size, "process group: size", RANKS_MAX) if size else 0
        trace.groups[str(one.get("pg_name", ""))] = ranks, count
    if len({row for row in trace.groups.values()}) == 1:
        trace.ranks = next(iter(trace.groups.values()))[1] or trace.ranks
