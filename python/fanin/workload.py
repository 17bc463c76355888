# SPDX-License-Identifier: Apache-2.0
"""A model for `fanin sim` from a recorded training: python3 -m fanin.workload TRACE >model.csv

    python3 -m fanin.workload [--steps N] [--ranks N] [--compute-ms MS] [--group NAME] [--partial] TRACE

TRACE is one of the forms of doc/files.md.  Its all-reduces, reduce-scatters and all-gathers become
layers, by time: each has as many float32 as make up its bytes, and computes backwards as long as
passed since the one before began, waits included.

Other collectives, and those of other groups of ranks, are named with their bytes and left out; if
these are more than LEFT_MAX of all, --partial says that this is wanted.  Where a trace has one
rank's share of an all-gather and does not say of how many ranks, --ranks does.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .research import files, recorded
from .research.formats.collectives import RANKS_MAX, Collective, Trace
from .research.formats.network import FormatError as WorkloadError
from .research.models import NS_MAX
from .research.recorded import LEFT_MAX, Choice, complete

__all__ = [
    "LEFT_MAX",
    "Collective",
    "Trace",
    "WorkloadError",
    "complete",
    "left_out",
    "model",
    "read",
]


def read(path: str) -> Trace:
    """The collectives of a trace.  WorkloadError: the text names the file, the place and the cause."""
    return _read(path)[0]


def _read(path: str) -> tuple[Trace, str]:
    data = files.read(path)
    with files.of(path):
        return recorded.read(data)


def left_out(trace: Trace, group: str = "") -> tuple[str, float]:
    """The collectives that become no layers, with their bytes; and their part of all bytes."""
    return recorded.summary(trace, group)[1:]


def model(
    trace: Trace, steps: int = 1, compute_ms: float = 0, group: str = ""
) -> list[tuple[int, int]]:
    """Elements and nanoseconds since the one before, of each collective of the last of `steps`."""
    return recorded.model(trace, Choice(steps, compute_ms, None, group))


def write(layers: list[tuple[int, int]], file: Any) -> None:
    """As fanin sim reads a model: the layer that is reduced first is the last."""
    file.write("layer,numel,forward_ns,backward_ns\n")
    for i in range(len(layers) - 1, -1, -1):
        file.write(f"op{i},{layers[i][0]},0,{layers[i][1]}\n")


def _plain(text: str) -> str:
    """Return it with what a terminal would obey escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _options() -> tuple[str, Choice]:
    parser = argparse.ArgumentParser(
        prog="python3 -m fanin.workload", description="A model for fanin sim from a trace."
    )
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="iterations in it (1)")
    parser.add_argument("--compute-ms", type=float, default=0, metavar="MS",
                        help="of an iteration, where the trace has no times (0)")  # fmt: skip
    parser.add_argument("--ranks", type=int, metavar="N",
                        help="ranks of an all-gather of which the trace has one share")  # fmt: skip
    parser.add_argument("--group", default="", metavar="NAME",
                        help="of ranks (the one with the most bytes); all")  # fmt: skip
    parser.add_argument("--partial", action="store_true", help="leave out any part of the bytes")
    args = parser.parse_args()
    if args.steps < 1 or not 0 <= args.compute_ms <= NS_MAX / 1e6:
        parser.error("--steps from 1, --compute-ms from 0 to 3600000")
    if args.ranks is not None and not 1 <= args.ranks <= RANKS_MAX:
        parser.error(f"--ranks from 1 to {RANKS_MAX}")
    return args.trace, Choice(args.steps, args.compute_ms, args.ranks, args.group, args.partial)


def main() -> int:
    path, choice = _options()
    try:
        trace, form = _read(path)
        with files.of(path):
            layers = recorded.model(trace, choice)
            line = recorded.said(trace, form, choice)
    except WorkloadError as error:
        print(_plain(f"fanin.workload: {error}"), file=sys.stderr)
        return 1
    print(_plain(f"fanin.workload: {line}"), file=sys.stderr)
    write(layers, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
