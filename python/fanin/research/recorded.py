# SPDX-License-Identifier: Apache-2.0
"""Models from traces: the collectives of an iteration as layers, by time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Iterable, NamedTuple, Optional

from .formats.arrivals import Arrivals
from .formats.collectives import COUNTED, Collective, Trace
from .formats.network import FormatError
from .formats.traces import parse
from .models import LAYERS_MAX, NS_MAX, NUMEL_MAX

LEFT_MAX = 0.01  # of all bytes, in collectives that are left out
ANY_GROUP = "all"


class Choice(NamedTuple):
    """What of a trace becomes a model."""

    steps: int = 1  # iterations in it, of which the last one is taken
    compute_ms: float = 0  # of an iteration, where the trace has no times
    ranks: Optional[int] = None  # of all-gathers of which the trace has one share
    group: str = ""  # of ranks; "": the one with the most bytes
    partial: bool = False  # leave out any part of the bytes


def read(data: bytes) -> tuple[Trace, str]:
    """The trace in a file's data, and the name of its form."""
    trace, form = parse(data)
    if isinstance(trace, Arrivals):
        raise FormatError(f"{form}: has jobs, no collectives: it goes as job_trace")
    return trace, form


def complete(trace: Trace, ranks: Optional[int] = None) -> None:
    """Give what has one rank's share the bytes of all.  FormatError: one without a size."""
    for one in trace.found:
        if one.nbytes is None and one.kind in COUNTED:
            remedy = f": {one.remedy}" if one.remedy else ""
            raise FormatError(f"{one.what}: {one.kind} without a size{remedy}")
        count = ranks or trace.ranks_of(one)
        if one.is_share and not count:
            raise FormatError(
                f"{one.what}: {one.kind} of one rank's share: of how many ranks? (ranks)"
            )
        if one.is_share and count and one.nbytes is not None:
            one.nbytes, one.is_share = one.nbytes * count, False


def _group(trace: Trace, one: Collective) -> str:
    """Its ranks, if the trace says which; groups of the same ranks are one."""
    return trace.groups.get(one.group, ("", 0))[0] or one.group


def split(trace: Trace, group: str = "") -> tuple[list[Collective], list[Collective]]:
    """What becomes layers, of one group, and what is left out."""
    counted = [one for one in trace.found if one.kind in COUNTED and one.nbytes]
    nbytes: Counter[str] = Counter()
    for one in counted:
        nbytes[_group(trace, one)] += one.nbytes or 0
    names = {one.group: _group(trace, one) for one in counted}
    if group and group != ANY_GROUP and group not in names:
        raise FormatError(f"no group {group[:40]!r}: there are {' '.join(sorted(names))[:200]}")
    chosen = (
        names[group]
        if group in names and group
        else max(nbytes, key=lambda k: nbytes[k], default="")
    )
    kept = [one for one in counted if group == ANY_GROUP or _group(trace, one) == chosen]
    taken = {id(one) for one in kept}
    return kept, [one for one in trace.found if id(one) not in taken]


def _listed(found: Iterable[Collective], by_group: bool) -> str:
    rows: defaultdict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in found:
        row = rows[one.kind, one.dtype, one.group if by_group else ""]
        row[0], row[1] = row[0] + 1, row[1] + (one.nbytes or 0)
    return ", ".join(
        " ".join(filter(None, (f"{n} {kind} of {nbytes} bytes", dtype, group and f"in {group}")))
        for (kind, dtype, group), (n, nbytes) in sorted(rows.items())
    )


def summary(trace: Trace, group: str = "") -> tuple[str, str, float]:
    """What is read, what is left out, and the latter's part of all bytes."""
    kept, left = split(trace, group)
    several = len({one.group for one in trace.found}) > 1
    total = sum(one.nbytes or 0 for one in trace.found)
    part = sum(one.nbytes or 0 for one in left) / max(total, 1)
    return _listed(kept, several), _listed(left, several), part


def model(trace: Trace, choice: Choice = Choice()) -> list[tuple[int, int]]:
    """Elements and nanoseconds since the one before, of each collective of the last iteration."""
    complete(trace, choice.ranks)
    kept, left = split(trace, choice.group)
    if not kept:
        others = _listed(left, False) or "nor any other collective"
        raise FormatError(f"no all-reduce, reduce-scatter or all-gather in it: {others}")
    each, rest = divmod(len(kept), choice.steps)
    sizes = [one.nbytes or 0 for one in kept]
    if rest or any(size != sizes[i % each] for i, size in enumerate(sizes)):
        raise FormatError(f"its {len(kept)} collectives are not {choice.steps} times the same")
    if each > LAYERS_MAX:
        raise FormatError(f"{each} collectives an iteration: at most {LAYERS_MAX}; steps?")
    gap = choice.compute_ms * 1e6 / each
    times = [one.at_us for one in kept]
    layers = []
    for i in range(len(kept) - each, len(kept)):
        now, before = times[i], times[i - 1] if i else trace.begun_us
        since = gap if now is None or before is None else (now - before) * 1e3
        layers.append((-(-sizes[i] // 4), max(0, min(int(since), NS_MAX))))
        if layers[-1][0] > NUMEL_MAX:
            raise FormatError(f"{kept[i].what}: a collective of {sizes[i]} bytes")
    return layers


def said(trace: Trace, form: str, choice: Choice) -> str:
    """The line for people about a trace.  FormatError: too much of it would be left out."""
    kept, left, part = summary(trace, choice.group)
    if part > LEFT_MAX and not choice.partial:
        raise FormatError(f"{part:.0%} of the bytes would be left out: {left}; partial allows it")
    rest = [f"left out, {part:.2%} of the bytes: {left}"] if left else []
    return "; ".join([f"{form}: {kept}", *rest, *trace.notes])
