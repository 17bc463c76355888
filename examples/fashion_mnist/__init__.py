# SPDX-License-Identifier: Apache-2.0
"""The parts of train_fashion_mnist.py.

options      the command line
data         the images, and which rank trains on which of them in which order
models       the two networks
ranks        the job's processes: sums, comparisons, broadcasts through the process group
comm         how gradients get from rank to rank: fanin, Gloo or not at all
training     epochs, evaluation, what is kept about them
compare      step times of all ways of communication, in turns
checkpoint   the file that a later run goes on from
progress     what is shown meanwhile
report       the JSON file, and the lines at the end

Importing this package says how many threads computation may use, which OpenMP and OpenBLAS
read once, when PyTorch loads them.
"""

from __future__ import annotations

import os

# How a run ends that cannot go on: one line for the user, and an exit code.
USAGE = 2  # wrong option, file or data: running it again changes nothing
FAILED = 1

THREADS_MAX = 4  # more do not make networks of this size faster


class ExampleError(Exception):
    """The run is over; the text says what happened, where, and what to do."""

    def __init__(self, text: str, exit_code: int = USAGE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class LostError(ExampleError):
    """Communication broke: a rank or the switch is gone.  The process group may be stuck."""

    def __init__(self, text: str) -> None:
        super().__init__(text, FAILED)


def compute_threads() -> int:
    """This process's share of the cores of this machine: at least 1, at most THREADS_MAX."""
    cores = len(os.sched_getaffinity(0))
    text = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("WORLD_SIZE") or "1"
    workers = int(text) if text.isdigit() and int(text) > 0 else 1
    return max(1, min(THREADS_MAX, cores // workers))


os.environ.setdefault("OMP_NUM_THREADS", str(compute_threads()))
