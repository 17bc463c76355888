# SPDX-License-Identifier: Apache-2.0
"""Workloads that are made of a model's layers: SimAI's and ASTRA-sim's text, and AICB's CSV.

Sizes are bytes of a collective's larger side, times nanoseconds (text) and milliseconds (CSV).  Groups: "tp"
splits layers, "dp" has the gradients, "ep" the experts, "dp_ep" the experts' gradients.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Iterator, NamedTuple

from .collectives import BYTES_MAX, RANKS_MAX, Collective, Trace, check_count, kind_of, whole
from .network import FormatError

_FIRST = re.compile(r"[A-Z][^\n]{0,999}\n\s*\d+\s*\n\s*\S+\s+-?\d+\s+\d+\s+[A-Z_]+\s")
_GROUPS = ("DP_EP", "EP", "DP", "TP")
_FIELDS = 12  # of a layer at least: its name, what it depends on, three passes, and updating


class _Pass(NamedTuple):
    """Computing, and the collective behind it."""

    compute_ns: int
    name: str
    nbytes: int
    group: str


class _Layer(NamedTuple):
    forward: _Pass
    inputs: _Pass
    weights: _Pass


# ---- text ----


def is_text(text: str) -> bool:
    """Is it a kind of parallelism, a number of layers, and a layer a line?"""
    return bool(_FIRST.match(text.lstrip()))


def _number(text: str, what: str) -> int:
    digits = text.partition(".")[0] if re.fullmatch(r"\d+\.0*", text) else text
    return whole(digits, what)


def _pass(fields: list[str], group: str, what: str) -> _Pass:
    compute, name, nbytes = fields
    base = next((end for end in _GROUPS if name.endswith("_" + end)), "")
    if base:
        group, name = base.lower(), name[: -len(base) - 1]
    return _Pass(_number(compute, what), name, _number(nbytes, what), group)


def _layers(lines: list[str]) -> Iterator[_Layer]:
    for number, line in enumerate(lines, 3):
        fields, what = line.split(), f"line {number}"
        if not fields:
            continue
        if len(fields) < _FIELDS:
            raise FormatError(f"{what}: {len(fields)} fields: expected {_FIELDS}")
        yield _Layer(
            _pass(fields[2:5], "tp", what),
            _pass(fields[5:8], "tp", what),
            _pass(fields[8:11], "dp", what),
        )


def _sizes(head: str, trace: Trace) -> None:
    """How many ranks the groups have, as far as the first line says."""
    about = {key: int(n) for key, n in re.findall(r"(\w+):\s*(\d{1,9})\b", head)}
    tp, every = about.get("model_parallel_NPU_group", 0), about.get("all_gpus", 0)
    trace.groups["tp"] = "tp", tp
    trace.groups["ep"] = "ep", about.get("ep", 0)
    within = tp * max(about.get("pp", 1), 1)
    trace.groups["dp"] = "dp", every // within if within and every % within == 0 else 0


def read_text(text: str) -> Trace:
    """The collectives of an iteration: all layers forwards, then backwards."""
    head, _, rest = text.lstrip().partition("\n")
    count, _, rest = rest.partition("\n")
    layers = list(_layers(rest.split("\n")))
    if len(layers) != whole(count.strip(), "line 2"):
        raise FormatError(f"{len(layers)} layers: line 2 says {count.strip()[:20]}")
    passes = [(layer.forward, i) for i, layer in enumerate(layers)]
    for i in range(len(layers) - 1, -1, -1):
        passes += [(layers[i].inputs, i), (layers[i].weights, i)]
    trace, now_ns = Trace([]), 0
    _sizes(head, trace)
    for one, i in passes:
        now_ns += one.compute_ns
        if one.name != "NONE" and one.nbytes:
            what = f"line {i + 3}"
            check_count(trace.found)
            kind = kind_of(one.name)
            trace.found.append(
                Collective(
                    kind, whole(one.nbytes, what, BYTES_MAX), now_ns / 1e3, what, "", one.group
                )
            )
    return trace


# ---- CSV of AICB ----

_NAMES = ("comm_type", "comm_group", "msg_size")


def is_aicb(text: str) -> bool:
    """Does one of the first two lines name AICB's columns?"""
    return any(line.startswith("comm_type,comm_group,") for line in text.split("\n", 2)[:2])


def _row(row: dict[str, Any], what: str) -> Collective:
    kind = kind_of(row["comm_type"] or "")
    nbytes = whole(row["msg_size"], f"{what}: msg_size", BYTES_MAX)
    group = re.sub(r"^CommGroup\.|_group$", "", row["comm_group"] or "")
    size = str(row.get("comm_group_size") or "")
    ranks = whole(size, f"{what}: comm_group_size", RANKS_MAX) if size.isdigit() else None
    return Collective(kind, nbytes, None, what, "", group, ranks or None)


def _elapsed_us(row: dict[str, Any]) -> float:
    text = str(row.get("_elapsed_time") or "")
    return float(text) * 1e3 if re.fullmatch(r"\d{1,12}(\.\d{1,20})?", text) else 0.0


def read_aicb(text: str) -> Trace:
    """The collectives of the last iteration; what sets up a job before the first one is a note."""
    lines = text.split("\n")
    first = 0 if lines[0].startswith("comm_type") else 1
    stages = [i for i, line in enumerate(lines) if i and line.startswith("[")]
    lines = lines[: stages[0]] if stages else lines
    rows = csv.DictReader(io.StringIO("\n".join(lines[first:])))
    if not set(_NAMES) <= set(rows.fieldnames or ()):
        raise FormatError(f"expected the columns {','.join(_NAMES)}")
    trace, now_us, setup = Trace([]), 0.0, [0, 0]
    current: list[Collective] = []
    for number, row in enumerate(rows, first + 2):
        what, name = f"line {number}", (row["comm_type"] or "").rpartition(".")[2]
        if name == "epoch_end":
            trace.found, current, now_us = current or trace.found, [], 0.0
        elif name == "computation":
            now_us += _elapsed_us(row)
        elif (row.get("stage") or "").startswith(("init", "warmup")):
            setup = [setup[0] + 1, setup[1] + _row(row, what).nbytes]  # type: ignore[operator]
        elif name:
            one = _row(row, what)
            one.at_us = now_us
            times = whole(row.get("count") or "1", f"{what}: count", 1 << 20)
            for _ in range(times):
                check_count(current)
                current.append(one)
    trace.found = current or trace.found
    if stages:
        trace.notes.append(f"the first stage of {len(stages) + 1} of a pipeline")
    if setup[0]:
        trace.notes.append(
            f"{setup[0]} of {setup[1]} bytes before the first iteration do not count"
        )
    if not any(one.at_us for one in trace.found):
        for one in trace.found:
            one.at_us = None
    return trace
