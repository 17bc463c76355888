# SPDX-License-Identifier: Apache-2.0
"""PyTorch's execution traces (ExecutionTraceObserver), of all schemas from 1.0.1 on.

Before 1.0.2 a node has `inputs`, `input_shapes` and `input_types`, and is in its `parent`; then `inputs` is
an object and the parent is `ctrl_deps`; since 1.0.4 `attrs` have what the process group notes.
"""

from __future__ import annotations

import re
from typing import Any, Iterable

from .calls import PARAMS, Call, add_groups, counted, is_call, merged, note, tensors
from .collectives import Trace, check_count, numels, whole
from .network import FormatError
from .stream import Item

_TENSOR = re.compile(r"Tensor\(([^()]*)\)")
_INIT = "## process_group:init ##"
_NOTED = "collective_name dtype in_msg_nelems out_msg_nelems pg_name pg_size".split()


def is_execution(item: Item, keys: set[str]) -> bool:
    """Is it a node of an execution trace, after these keys of its outermost object?"""
    node = item.value
    if item.key != "nodes" or not item.in_list or not isinstance(node, dict):
        return False
    return (
        is_call(node.get("name"))
        or "schema" in keys
        or "input_shapes" in node
        or {"inputs", "outputs"} <= set(node)
    )


def _sizes(given: Any, what: str) -> list[tuple[int, str]]:
    """Elements and type of each argument that has tensors: "GenericList[Tensor(float),...]"."""
    shapes, types = given.get("shapes"), given.get("types")
    if not isinstance(shapes, list) or not isinstance(types, list):
        raise FormatError(f"{what}: expected shapes and types")
    found = []
    for dims, kind in zip(shapes, types):
        named = _TENSOR.findall(str(kind))
        if named:
            found.append(tensors(numels(dims, what), named, what))
    return found


def _given(node: dict[str, Any], what: str) -> dict[str, Any]:
    given = node.get("inputs")
    if isinstance(given, list):
        keys = ("shapes", "types")
        return {"values": given, **{key: node.get(f"input_{key}") for key in keys}}
    if not isinstance(given, dict):
        raise FormatError(f"{what}: inputs: expected an object or a list")
    return given


def _call(node: dict[str, Any], what: str) -> Call:
    given = _given(node, what)
    values = given.get("values")
    listed = values if isinstance(values, list) else []
    attrs = node.get("attrs")
    rows = [one for one in attrs if isinstance(one, dict)] if isinstance(attrs, list) else []
    about = {str(one.get("name")): one.get("value") for one in rows}
    name = str(node["name"])
    words = [one for one in listed if isinstance(one, str) and not one.startswith("<")]
    if name == PARAMS and words:
        name = words[0]  # "allreduce"
    groups = [one for one in listed if isinstance(one, list) and one and isinstance(one[0], str)]
    call = Call(name, what, _sizes(given, what))
    return note(call, about, _NOTED, groups[0][0] if groups else "")


def read(items: Iterable[Item]) -> Trace:
    """The collectives of a trace, which has no times."""
    trace, count = Trace([]), 0
    calls: dict[int, Call] = {}
    parents: dict[int, Any] = {}
    for item in items:
        if item.key != "nodes" or not isinstance(item.value, dict):
            continue
        node, what = item.value, f"nodes[{count}]"
        count += 1
        name = node.get("name")
        if name == _INIT:
            values = _given(node, what).get("values")
            add_groups(trace, values[0] if isinstance(values, list) and values else None)
        if is_call(name):
            check_count(calls)
            number = whole(node.get("id"), f"{what}: id")
            calls[number] = _call(node, what)
            parents[number] = node.get("ctrl_deps", node.get("parent"))
    within: dict[int, list[Call]] = {}
    for number in sorted(calls):
        outer = number
        for _ in range(4):
            above = parents[outer]
            outer = above if isinstance(above, int) and above in calls else outer
        within.setdefault(outer, []).append(calls[number])
    for group in counted([within[number] for number in sorted(within)]):
        one = merged(group)
        if one:
            trace.found.append(one)
    return trace
