# SPDX-License-Identifier: Apache-2.0
"""Chakra's execution traces: protobuf (.et), the JSON of its messages, and the JSON of its feeder.

A .et is a length and a message, again and again; the first one is about all.  comm_size are bytes of
the input: of an all-gather one rank's share.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Iterator

from .calls import add_groups
from .collectives import Collective, Trace, check_count, short, whole
from .network import FormatError
from .stream import Item

SIZE_MAX = 1 << 47
NODES_FREE, NODE_BYTES_MIN = 1 << 16, 16  # a file of more nodes has no shorter ones, on average
NAME_MAX = 64  # characters of an attribute's name
_COMPUTES, _SEND, _RECV, _COLLECTIVE = 4, 5, 6, 7
_TYPES = {"COMP_NODE": 4, "COMM_SEND_NODE": 5, "COMM_RECV_NODE": 6, "COMM_COLL_NODE": 7}
_COMM = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all",
         "reduce_scatter", "reduce_scatter", "barrier")  # fmt: skip
_INIT = "## process_group:init ##"

# Fields of an attribute's value: varints, those with the sign in the last bit, and of fixed width.
_WHOLE, _ZIGZAG, _FIXED, _STRING = (7, 9, 11, 13, 27), (15, 17), (19, 21, 23, 25), 29


def _is_node(value: Any) -> bool:
    if not isinstance(value, dict) or "id" not in value:
        return False
    return bool({"type", "attr", "ctrlDeps", "ctrl_deps", "durationMicros"} & set(value))


def is_messages(item: Item, _keys: set[str]) -> bool:
    """Is it the JSON of a node's message?"""
    return not item.key and item.in_list and _is_node(item.value)


def is_feeder(item: Item, _keys: set[str]) -> bool:
    """Is it a node of the feeder's JSON?"""
    return item.key == "workload_graph"


def is_et(data: bytes) -> bool:
    """Does a file begin with a length and a GlobalMetadata: a version, or attributes, or nothing?"""
    head = memoryview(data[:64])
    if len(head) < 3 or not any(byte < 9 or 13 < byte < 32 for byte in head):
        return False
    try:
        size, at = _varint(head, 0)
        if size == 0:
            return head[at] < 128
        key, at = _varint(head, at)
        inner, _ = _varint(head, at)
    except FormatError:
        return False
    return key in (0x0A, 0x12) and inner <= size - 2


# ---- protobuf ----


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise FormatError(f"byte {at}: the message is cut off")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value & (1 << 64) - 1, at
    raise FormatError(f"byte {at}: a number of more than ten bytes")


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a message's fields."""
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value: Any
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            size, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            if number == 0 or size > end - at:
                raise FormatError(f"byte {at}: a field of {size} bytes in {end - at}")
            value, at = data[at : at + size], at + size
        else:
            raise FormatError(f"byte {at}: no type {wire} of a field")
        yield number, value


def _attribute(data: Any) -> tuple[str, Any]:
    if not isinstance(data, memoryview):
        raise FormatError("attr: expected a message")
    name, value = "", None
    for number, field in _fields(data):
        is_bytes = isinstance(field, memoryview)
        if number == 1 and is_bytes:
            name = bytes(field[:NAME_MAX]).decode("utf-8", "replace")
        elif number in _WHOLE and not is_bytes:
            value = field
        elif number in _ZIGZAG and not is_bytes:
            value = field >> 1 ^ -(field & 1)
        elif number in _FIXED and is_bytes:
            value = int.from_bytes(field, "little")
        elif number == _STRING and is_bytes:
            value = bytes(field[: 1 << 12]).decode("utf-8", "replace")
    return name, value


def _values(data: Any) -> str:
    """The text "values" of a node's inputs."""
    for number, field in _fields(data) if isinstance(data, memoryview) else ():
        if number == 1 and isinstance(field, memoryview):
            return bytes(field).decode("utf-8", "replace")
    return ""


def _message(data: memoryview) -> dict[str, Any]:
    """A node, its attributes only if it communicates."""
    node: dict[str, Any] = {"type": 0, "start": 0, "duration": 0, "attr": {}}
    attributes, inputs = [], None
    for number, value in _fields(data):
        if number == 10:
            attributes.append(value)
        elif number == 2 and isinstance(value, memoryview):
            node["name"] = bytes(value[:NAME_MAX]).decode("utf-8", "replace")
        elif number in (3, 6, 7):
            node[{3: "type", 6: "start", 7: "duration"}[number]] = value
        elif number == 8:
            inputs = value
    if node["type"] in (_SEND, _RECV, _COLLECTIVE):
        node["attr"] = dict(_attribute(one) for one in attributes)
    if node.get("name") == _INIT:
        node["groups"] = _values(inputs)
    return node


def _nodes_of_et(data: bytes) -> Iterator[dict[str, Any]]:
    view, at, first, count = memoryview(data), 0, True, 0
    while at < len(view):
        count += 1
        if count > max(NODES_FREE, at // NODE_BYTES_MIN):
            raise FormatError(f"byte {at}: more and shorter messages than traces have")
        size, at = _varint(view, at)
        if size > len(view) - at:
            raise FormatError(f"byte {at}: a message of {size} bytes in {len(view) - at}")
        if not first:
            yield _message(view[at : at + size])
        at, first = at + size, False


# ---- JSON ----


def _nodes_of_messages(items: Iterable[Item]) -> Iterator[dict[str, Any]]:
    for item in items:
        if not isinstance(item.value, dict) or "id" not in item.value:
            continue
        plain = {key.replace("_", "").lower(): value for key, value in item.value.items()}
        listed = plain.get("attr", [])
        attr: dict[str, Any] = {}
        for one in listed if isinstance(listed, list) else []:
            if isinstance(one, dict):
                keys = [key for key in one if key.replace("_", "").lower().endswith("val")]
                attr[str(one.get("name"))[:NAME_MAX]] = one[keys[0]] if keys else None
        kind = plain.get("type", 0)
        yield {
            "name": plain.get("name"),
            "type": _TYPES.get(kind, 0) if isinstance(kind, str) else kind,
            "start": whole(plain.get("starttimemicros", 0), "start_time_micros"),
            "duration": whole(plain.get("durationmicros", 0), "duration_micros"),
            "attr": attr,
        }


def _nodes_of_feeder(items: Iterable[Item]) -> Iterator[dict[str, Any]]:
    for item in items:
        node = item.value
        if item.key == "workload_graph" and isinstance(node, dict):
            yield {
                "name": node.get("Name"),
                "type": node.get("NodeType", 0),
                "start": 0,
                "duration": node.get("runtime", 0),
                "attr": node,
            }


# ---- nodes ----


def _collective(node: dict[str, Any], what: str) -> Any:
    attr, kind = node["attr"], node["type"]
    if attr.get("comm_size") is None and attr.get("is_cpu_op"):
        return None  # it starts a kernel, which has a node of its own
    if kind in (_SEND, _RECV):
        name = "send" if kind == _SEND else "recv"
    elif attr.get("comm_type") is None:
        raise FormatError(f"{what}: {short(node.get('name'))}: no comm_type, nor comm_size")
    else:
        name = _COMM[whole(attr["comm_type"], f"{what}: comm_type", len(_COMM) - 1)]
    size = whole(attr.get("comm_size") or 0, f"{what}: comm_size", SIZE_MAX)
    group = str(attr.get("pg_name") or "")
    return Collective(name, size, None, what, "", group, None, name == "all_gather")


def _read(nodes: Iterator[dict[str, Any]]) -> Trace:
    """By the times of the nodes; without them, by what is computed between them in the file."""
    trace, computed, timed = Trace([]), 0, True
    begun = math.inf
    starts: list[float] = []
    for i, node in enumerate(nodes):
        what, kind = f"node {i}", node["type"]
        start = whole(node["start"], f"{what}: start_time_micros")
        if start:
            begun = min(begun, float(start))
        if "groups" in node:
            add_groups(trace, node["groups"].strip("[]' ").join(("[", "]")))
        if kind == _COMPUTES:
            computed += whole(node["duration"], f"{what}: duration_micros")
        one = _collective(node, what) if kind in (_SEND, _RECV, _COLLECTIVE) else None
        if one:
            check_count(trace.found)
            one.at_us = float(computed)
            timed &= start > 0
            trace.found.append(one)
            starts.append(float(start))
    if timed and trace.found:
        trace.begun_us = begun
        for one, start_us in zip(trace.found, starts):
            one.at_us = start_us
        trace.found.sort(key=lambda one: one.at_us or 0.0)
    return trace


def read_et(data: bytes) -> Trace:
    """The collectives of a .et."""
    try:
        return _read(_nodes_of_et(data))
    except FormatError as error:
        raise FormatError(f"as Chakra's protobuf: {error}") from None


def read_messages(items: Iterable[Item]) -> Trace:
    """The collectives of the JSON of messages."""
    return _read(_nodes_of_messages(items))


def read_feeder(items: Iterable[Item]) -> Trace:
    """The collectives of the feeder's JSON."""
    return _read(_nodes_of_feeder(items))
