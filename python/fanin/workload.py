# SPDX-License-Identifier: Apache-2.0
"""A model for `fanin sim` from a recorded training: python3 -m fanin.workload TRACE >model.csv

    python3 -m fanin.workload [--steps N] [--ranks N] [--compute-ms MS] [--partial] TRACE

TRACE is what torch.profiler exports, what PyTorch's ExecutionTraceObserver writes, or a Chakra trace
(protobuf, or the JSON of its messages); or one of these with .gz.  Its all-reduces, reduce-scatters
and all-gathers become layers, by time: each has as many float32 as make up its bytes, and computes
backwards as long as passed since the one before began, waits included.  On links that carry both
ways at once each takes as long as an all-reduce of its larger side, which is what is simulated.
Other collectives are no data parallelism: they are named with their bytes, and left out; if these
are more than LEFT_MAX of all, --partial says that this is wanted.

A collective has the bytes of its larger side: an all-gather those of all ranks' shares.  Traces in
which only one share has a size say how many ranks there are, or --ranks does.  An
ExecutionTraceObserver notes no times: --compute-ms says how long an iteration computes.  With
--steps the trace has N iterations, and the model is of the last one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterator

BYTES_MAX = 256 << 20  # of a trace, unpacked
LAYERS_MAX = 4096  # as fanin sim has them
NUMEL_MAX = 1 << 36
NS_MAX = 3_600_000_000_000
DEPTH_MAX = 64  # lists within lists, of a tensor's shape
RANKS_MAX = 1 << 20
TYPE_MAX = 1 << 20  # characters of a list's type
LEFT_MAX = 0.01  # of all bytes, in collectives that are left out

_KINDS = ("all_reduce", "all_gather", "reduce_scatter")
_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "half": 2, "float16": 2, "bfloat16": 2,
    "double": 8, "float64": 8, "long": 8, "long int": 8, "int64": 8, "short": 2, "int16": 2,
    "char": 1, "signed char": 1, "byte": 1, "unsigned char": 1, "bool": 1, "uint8": 1, "int8": 1,
    "c10::half": 2, "c10::bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip

_FORMS = (
    "expected JSON of torch.profiler or ExecutionTraceObserver, or a Chakra trace as protobuf (.et) "
    "or as the JSON of its messages"
)

# Chakra's et_def.proto: numbers of fields, and of collectives.
_NODE = {2: "name", 3: "type", 6: "start", 7: "duration", 10: "attr"}
_COLLECTIVE, _COMPUTES = 7, 4
_TYPES = {"COMM_COLL_NODE": _COLLECTIVE, "COMP_NODE": _COMPUTES}
_COMM = ["all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all",
         "reduce_scatter", "reduce_scatter", "barrier"]  # fmt: skip
_WHOLE = (7, 9, 11, 13)  # int32_val, int64_val, uint32_val, uint64_val


class WorkloadError(ValueError):
    """A trace that makes no sense; the text names the file, the place and the cause."""


@dataclass
class Collective:
    kind: str
    nbytes: int | None  # of its larger side; None: the trace does not say
    at_us: float | None  # when it began; None: nobody noted it
    what: str = ""  # its place in the trace
    is_share: bool = False  # an all-gather of which one rank's share alone has a size


@dataclass
class Trace:
    found: list[Collective]  # in the order in which they began
    begun_us: float = 0.0
    ranks: int | None = None  # as the trace says


def _whole(value: Any, what: str, most: int = 1 << 62) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)  # as JSON of protobuf has 64 bits
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise WorkloadError(f"{what}: {str(value)[:40]!r}: expected a whole number up to {most}")
    return value


def _time(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e18:
        raise WorkloadError(f"{what}: {str(value)[:40]!r}: expected microseconds")
    return float(value)


def _kind(name: str) -> str:
    """One of _KINDS, or what else the collective is called."""
    plain = name.removeprefix("c10d::").strip("_").lower().replace("_", "")
    for kind in _KINDS:
        if plain.startswith(kind.replace("_", "")):
            return kind
    return plain


def _width(name: Any, what: str) -> int:
    plain = str(name).lower()
    if plain not in _BYTES:
        raise WorkloadError(f"{what}: {str(name)[:40]!r}: no type whose size is known")
    return _BYTES[plain]


def _shapes(dims: Any, what: str, depth: int = 0) -> list[int]:
    """Elements of each tensor of a shape, or of lists of shapes."""
    if not isinstance(dims, list) or depth > DEPTH_MAX:
        raise WorkloadError(f"{what}: expected the shape of a tensor")
    if dims and isinstance(dims[0], list):
        return [n for one in dims for n in _shapes(one, what, depth + 1)]
    return [math.prod(_whole(n, what, NUMEL_MAX) for n in dims)]


def _sized(kind: str, sizes: list[int], at_us: float | None, what: str) -> Collective:
    """A collective whose arguments, as far as the trace says, are tensors of these bytes."""
    share = kind == "all_gather" and len(sizes) == 1
    return Collective(kind, max(sizes, default=None), at_us, what, share)


# ---- torch.profiler ----


_OF_NO_TENSOR = ("", "Scalar", "ScalarList", "None")


class _Backends:
    """What Gloo or NCCL has done for the operations, "gloo:all_reduce": it has the types of lists."""

    def __init__(self, events: list[tuple[float, str, dict[str, Any]]]) -> None:
        self._left: dict[Any, list[list[int]]] = {}  # by kind, and by shapes: elements and bytes
        for _, name, args in sorted(events, key=lambda one: one[0]):
            shapes, types = args.get("Input Dims"), args.get("Input type")
            if not isinstance(shapes, list) or not isinstance(types, list) or not shapes:
                continue
            numels = [_shapes(dims, name)[0] for dims in shapes]
            nbytes = sum(n * _width(kind, name) for n, kind in zip(numels, types))
            for key in (_kind(name.partition(":")[2]), tuple(numels)):
                self._left.setdefault(key, []).append([sum(numels), nbytes])

    def next_of(self, key: Any) -> list[int] | None:
        """Elements and bytes of the next one of this kind, or with these tensors."""
        left = self._left.get(key)
        return (left.pop(0) if len(left) > 1 else left[0]) if left else None


def _arguments(args: dict[str, Any], backends: _Backends, what: str) -> list[int]:
    """Bytes of each argument that has tensors."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        raise WorkloadError(f"{what}: no shapes: profile with record_shapes=True")
    sizes = []
    for dims, kind in zip(shapes, types):
        if kind in _OF_NO_TENSOR or (kind == "TensorList" and dims == []):
            continue
        numels = _shapes(dims, what)
        if kind == "TensorList":  # does not say of what; without a backend's word float32
            same = backends.next_of(tuple(numels))
            sizes.append(same[1] if same else 4 * sum(numels))
        else:
            sizes.append(sum(numels) * _width(kind, what))
    return sizes


def _of_event(event: dict[str, Any], backends: _Backends, what: str) -> Collective:
    args, at = event.get("args"), _time(event.get("ts"), f"{what}: ts")
    if not isinstance(args, dict):
        raise WorkloadError(f"{what}: no args")
    if event["name"] == "record_param_comms":
        numel = max(_whole(args.get(f"{way} msg nelems"), f"{what}: {way} msg nelems", NUMEL_MAX)
                    for way in ("In", "Out"))  # fmt: skip
        kind = _kind(str(args.get("Collective name")))
        is_known = kind in _KINDS or str(args.get("dtype")).lower() in _BYTES
        width = _width(args.get("dtype"), f"{what}: dtype") if is_known else 1
        return Collective(kind, numel * width, at, what)
    kind = _kind(event["name"])
    if kind not in _KINDS and not isinstance(args.get("Input Dims"), list):
        return Collective(kind, None, at, what)
    found = _sized(kind, _arguments(args, backends, what), at, what)
    if found.nbytes is None:
        seen = backends.next_of(kind)
        found.nbytes, found.is_share = seen[1] if seen else None, kind == "all_gather"
    return found


def _profile(events: Any, about: Any = None) -> Trace:
    if not isinstance(events, list):
        raise WorkloadError("traceEvents: expected a list")
    named: dict[bool, list[tuple[dict[str, Any], str]]] = {True: [], False: []}
    backends, begun = [], math.inf
    for i, event in enumerate(events):
        name = event.get("name") if isinstance(event, dict) else None
        if not isinstance(name, str) or event.get("ph") != "X":
            continue
        begun = min(begun, _time(event.get("ts"), f"traceEvents[{i}]: ts"))
        args = event.get("args")
        sizes = name == "record_param_comms" and "In msg nelems" in (args or {})
        if sizes or name.startswith("c10d::"):
            named[sizes].append((event, f"traceEvents[{i}]"))
        elif name.partition(":")[0] in ("gloo", "nccl") and isinstance(args, dict):
            backends.append((float(event["ts"]), name, args))
    ordered = sorted(
        named[True] or named[False], key=lambda one: float(one[0]["ts"])
    )  # the same, twice
    seen = _Backends(backends)
    found = [_of_event(event, seen, what) for event, what in ordered]
    ranks = about.get("world_size") if isinstance(about, dict) else None
    known = None if ranks is None else _whole(ranks, "distributedInfo: world_size", RANKS_MAX)
    return Trace(found, begun if found else 0.0, known)


# ---- ExecutionTraceObserver ----


def _tensors(shapes: Any, types: Any, what: str) -> list[int]:
    """Bytes of each argument that has tensors: "Tensor(float)", "GenericList[Tensor(float),...]"."""
    if not isinstance(shapes, list) or not isinstance(types, list):
        raise WorkloadError(f"{what}: expected shapes and types")
    sizes = []
    for dims, kind in zip(shapes, types):
        widths = [
            _width(one, what) for one in re.findall(r"Tensor\(([^()]*)\)", str(kind)[:TYPE_MAX])
        ]
        if widths:
            numels = _shapes(dims, what)
            if len(widths) != len(numels):
                widths = [max(widths)] * len(numels)
            sizes.append(sum(n * width for n, width in zip(numels, widths)))
    return sizes


def _execution(nodes: Any) -> Trace:
    if not isinstance(nodes, list):
        raise WorkloadError("nodes: expected a list")
    found = []
    for i, node in enumerate(nodes):
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str) or not name.startswith("c10d::"):
            continue
        what, given = f"nodes[{i}]", node.get("inputs")
        if isinstance(given, list):  # schemas before 1.0.2
            given = {"shapes": node.get("input_shapes"), "types": node.get("input_types")}
        if not isinstance(given, dict):
            raise WorkloadError(f"{what}: inputs: expected an object or a list")
        at = _whole(node.get("id"), f"{what}: id")
        sizes = _tensors(given.get("shapes"), given.get("types"), what)
        found.append((at, _sized(_kind(name), sizes, None, what)))
    return Trace([one for _, one in sorted(found, key=lambda pair: pair[0])])


# ---- Chakra ----


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WorkloadError(f"byte {at}: the message is cut off")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value & (1 << 64) - 1, at
    raise WorkloadError(f"byte {at}: a number of more than ten bytes")


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a message's fields."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value: Any
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            if number == 0 or size > len(data) - at:
                raise WorkloadError(f"byte {at}: a field of {size} bytes in {len(data) - at}")
            value, at = data[at : at + size], at + size
        else:
            raise WorkloadError(f"byte {at}: no type {wire} of a field")
        yield number, value


def _messages(data: memoryview) -> Iterator[dict[str, Any]]:
    """Nodes of a file of length-delimited messages, the first of which is about all."""
    at, first = 0, True
    while at < len(data):
        size, at = _varint(data, at)
        if size > len(data) - at:
            raise WorkloadError(f"byte {at}: a message of {size} bytes in {len(data) - at}")
        if not first:
            node: dict[str, Any] = {"attr": {}}
            for number, value in _fields(data[at : at + size]):
                if number == 10:
                    _attribute(value, node["attr"])
                elif number in _NODE:
                    node[_NODE[number]] = value
            yield node
        at, first = at + size, False


def _attribute(data: Any, into: dict[str, Any]) -> None:
    if not isinstance(data, memoryview):
        raise WorkloadError("attr: expected a message")
    name, value = "", None
    for number, field in _fields(data):
        if number == 1 and isinstance(field, memoryview):
            name = bytes(field[:64]).decode("utf-8", "replace")
        elif number in _WHOLE:
            value = field
    into[name] = value


def _from_json(node: dict[str, Any]) -> dict[str, Any]:
    """A node as protobuf's JSON has it, by the names of _messages."""
    plain = {key.replace("_", "").lower(): value for key, value in node.items()}
    attr: dict[str, Any] = {}
    listed = plain.get("attr", [])
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            keys = [key for key in one if key.replace("_", "").lower().endswith("val")]
            attr[str(one.get("name"))] = one[keys[0]] if keys else None
    kind = plain.get("type", 0)
    return {
        "type": _TYPES.get(kind, 0) if isinstance(kind, str) else kind,
        "start": _whole(plain.get("starttimemicros", 0), "start_time_micros"),
        "duration": _whole(plain.get("durationmicros", 0), "duration_micros"),
        "attr": attr,
    }


def _chakra(nodes: Iterator[dict[str, Any]]) -> Trace:
    """By the times of the nodes; without them, by what is computed between them in the file."""
    found, computed, begun, timed = [], 0.0, math.inf, True
    for i, node in enumerate(nodes):
        what, attr = f"node {i}", node["attr"]
        kind = node.get("type", 0)
        duration = _whole(node.get("duration", 0), f"{what}: duration_micros")
        start = _whole(node.get("start", 0), f"{what}: start_time_micros")
        begun = min(begun, start or math.inf)
        if kind == _COMPUTES:
            computed += duration
        if kind != _COLLECTIVE:
            continue
        number = _whole(attr.get("comm_type"), f"{what}: comm_type", len(_COMM) - 1)
        size = _whole(attr.get("comm_size", 0), f"{what}: comm_size", 8 * NUMEL_MAX)
        timed &= start > 0
        one = Collective(_COMM[number], size, None, what, _COMM[number] == "all_gather")
        found.append((float(start), computed, one))
    for at, before, one in found:
        one.at_us = at if timed else before
    ordered = sorted((one for _, _, one in found), key=lambda one: one.at_us or 0.0)
    return Trace(ordered, begun if timed and found else 0.0)


# ---- the model ----


def _objects(text: str) -> list[Any]:
    """All JSON values of the text, one behind the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        if text[at] in " \t\r\n,":
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def _read(path: str) -> bytes:
    opened = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise WorkloadError(f"more than {BYTES_MAX >> 20} MiB")
    return data


def _is_text(data: bytes) -> bool:
    """Protobuf has control characters in its first messages."""
    return all(byte >= 32 or byte in b"\t\n\r" for byte in data[:4096])


def _parse(data: bytes) -> Trace:
    if data.lstrip()[:1] not in (b"{", b"["):
        if _is_text(data):
            raise WorkloadError(f"{'text' if data else 'empty'}: {_FORMS}")
        try:
            return _chakra(_messages(memoryview(data)))
        except WorkloadError as error:
            raise WorkloadError(f"as Chakra's protobuf: {error}") from None
    try:
        values = _objects(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise WorkloadError(f"no JSON: {error}: {_FORMS}") from None
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    first = values[0] if values and isinstance(values[0], dict) else {}
    if "traceEvents" in first:
        return _profile(first["traceEvents"], first.get("distributedInfo"))
    if "nodes" in first:
        return _execution(first["nodes"])
    if any(isinstance(one, dict) and "ph" in one for one in values):
        return _profile(values)
    nodes = [one for one in values if isinstance(one, dict) and "id" in one]
    if not nodes:
        raise WorkloadError(f"JSON of another kind: {_FORMS}")
    return _chakra(_from_json(one) for one in nodes)


def read(path: str) -> Trace:
    """The collectives of a trace."""
    try:
        return _parse(_read(path))
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from None
    except (OSError, EOFError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise WorkloadError(f"{path}: {error}") from None


def complete(trace: Trace, ranks: int | None = None) -> None:
    """Give each all-gather the bytes of all shares; WorkloadError: one without a size, or whose ranks are
    unknown."""
    count = ranks or trace.ranks
    for one in trace.found:
        if one.kind not in _KINDS:
            continue
        if one.nbytes is None:
            raise WorkloadError(
                f"{one.what}: {one.kind} without a size: profile with record_shapes=True"
            )
        if one.is_share and not count:
            raise WorkloadError(
                f"{one.what}: {one.kind} of one rank's share: of how many ranks? --ranks"
            )
        if one.is_share and count:
            one.nbytes, one.is_share = one.nbytes * count, False


def left_out(trace: Trace) -> tuple[str, float]:
    """The collectives that are no data parallelism, with their bytes; and their part of all bytes."""
    count: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    for one in trace.found:
        count[one.kind] += 1
        nbytes[one.kind] += one.nbytes or 0
    others = sorted(kind for kind in count if kind not in _KINDS)
    text = ", ".join(f"{count[kind]} {kind} of {nbytes[kind]} bytes" for kind in others)
    return text, sum(nbytes[kind] for kind in others) / max(sum(nbytes.values()), 1)


def model(trace: Trace, steps: int = 1, compute_ms: float = 0) -> list[tuple[int, int]]:
    """Elements and nanoseconds since the one before, of each collective of the last of `steps` iterations."""
    complete(trace)
    kept = [one for one in trace.found if one.kind in _KINDS and one.nbytes]
    if not kept:
        raise WorkloadError("no all-reduce, reduce-scatter or all-gather in it")
    each, rest = divmod(len(kept), steps)
    sizes = [one.nbytes or 0 for one in kept]
    if rest or any(sizes[i] != sizes[i % each] for i in range(len(sizes))):
        raise WorkloadError(f"its {len(kept)} collectives are not {steps} times the same")
    if each > LAYERS_MAX:
        raise WorkloadError(f"{each} collectives an iteration: at most {LAYERS_MAX}; --steps?")
    gap = compute_ms * 1e6 / each
    times = [one.at_us for one in kept]
    layers = []
    for i in range(len(kept) - each, len(kept)):
        now, before = times[i], times[i - 1] if i else trace.begun_us
        since = gap if now is None or before is None else (now - before) * 1e3
        layers.append((-(-sizes[i] // 4), min(int(since), NS_MAX)))
        if layers[-1][0] > NUMEL_MAX:
            raise WorkloadError(f"a collective of {sizes[i]} bytes")
    return layers


def write(layers: list[tuple[int, int]], file: Any) -> None:
    """As fanin sim reads a model: the layer that is reduced first is the last."""
    file.write("layer,numel,forward_ns,backward_ns\n")
    for i in range(len(layers) - 1, -1, -1):
        file.write(f"op{i},{layers[i][0]},0,{layers[i][1]}\n")


def _plain(text: str) -> str:
    """Return it with what a terminal would obey escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m fanin.workload", description="A model for fanin sim from a trace."
    )
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="iterations in it (1)")
    parser.add_argument("--compute-ms", type=float, default=0, metavar="MS",
                        help="of an iteration, where the trace has no times (0)")  # fmt: skip
    parser.add_argument("--ranks", type=int, metavar="N",
                        help="ranks of an all-gather of which the trace has one share")  # fmt: skip
    parser.add_argument("--partial", action="store_true", help="leave out any part of the bytes")
    args = parser.parse_args()
    if args.steps < 1 or not 0 <= args.compute_ms <= NS_MAX / 1e6:
        parser.error("--steps from 1, --compute-ms from 0 to 3600000")
    if args.ranks is not None and not 1 <= args.ranks <= RANKS_MAX:
        parser.error(f"--ranks from 1 to {RANKS_MAX}")
    try:
        trace = read(args.trace)
        try:
            complete(trace, args.ranks)
            layers = model(trace, args.steps, args.compute_ms)
            text, part = left_out(trace)
            if part > LEFT_MAX and not args.partial:
                raise WorkloadError(
                    f"{part:.0%} of the bytes would be left out: {text}; --partial does"
                )
        except WorkloadError as error:
            raise WorkloadError(f"{args.trace}: {error}") from None
    except WorkloadError as error:
        print(_plain(f"fanin.workload: {error}"), file=sys.stderr)
        return 1
    if text:
        print(_plain(f"fanin.workload: left out, no data parallelism: {text}"), file=sys.stderr)
    write(layers, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
