# SPDX-License-Identifier: Apache-2.0
"""Streams of a GPU that are late where they are told to be, and a stager's sums on them.

As lazy_streams.Streams, whose names for streams and orders these are, but real: a kernel that only
takes time comes before what is put on a stream that is delayed.  An order that nobody asks for is
then seen to be missing on every run, as far as a few milliseconds are long.
"""

import threading

import torch

from fanin import _carried, _staging
from fanin._carried import InPlace

NAMES = ["out", "back", "ends"]  # in the order in which a stager makes them
ORDERS = ["main out", "host out", "back out", "back main", "back ends"]
DELAY_CYCLES = 5_000_000  # of the GPU's clock: 2 to 5 ms
SLICES = [1, 2, 15, 10, 46, 1]  # of the tensors that are summed; a stager has pieces for 8
WAIT_S = 30
LIVES_S = 100  # of a process that nobody ends


class Event:
    """All that a stream has had by then."""

    def __init__(self, name, event, is_blind):
        self.name, self.event, self._is_blind = name, event, is_blind

    def synchronize(self):
        """Wait, on the host."""
        if not self._is_blind:
            self.event.synchronize()

    def query(self):
        """Whether all that has ended."""
        return self.event.query()


class Delayed(_staging.Cuda):
    """Streams of the GPU: those named in `delayed` are late, and orders in `blind` not kept."""

    def __init__(self, delayed=(), blind=()):
        self._delayed, self._blind = set(delayed), set(blind)
        self._made = []

    def _name(self, stream):
        known = [at for at, one in enumerate(self._made) if one == stream]
        return NAMES[known[0] % len(NAMES)] if known else "main"

    def stream(self, device):
        """A new one."""
        self._made.append(super().stream(device))
        return self._made[-1]

    def record(self, stream):
        """An event: all that is on the stream by now."""
        name = self._name(stream)
        return Event(name, super().record(stream), f"host {name}" in self._blind)

    def wait(self, stream, event):
        """What comes to the stream from now on happens after the event."""
        if f"{event.name} {self._name(stream)}" not in self._blind:
            super().wait(stream, event.event)

    def run(self, stream, what, touched):
        """Do on the stream what `what` starts, late."""
        if self._name(stream) in self._delayed:
            with self.entered(stream):
                torch.cuda._sleep(DELAY_CYCLES)
        super().run(stream, what, touched)


class Doubling:
    """Two ranks that give the same, as a membership and as its communicator: a sum doubles.  What it
    sums it reads at the start, and writes at the end."""

    rank, size = 1, 2

    def start(self, begin):
        return begin(self)

    def wait(self, op):
        tensor, result = op
        tensor.copy_(result)

    def allreduce_start(self, tensor):
        return tensor, 2 * tensor


class Nothing(Doubling):
    """Sums that take no time and change nothing: what is left is staging."""

    def start(self, begin):
        return self

    def wait(self, op):
        pass


def in_place(tensor):
    """A sum of the tensor."""
    return InPlace(tensor, lambda comm, one, _: comm.allreduce_start(one))


def set_slices(size):
    """From now on slices have `size` bytes."""
    _carried.SLICE_BYTES = _staging.SLICE_BYTES = size


def elements():
    """Of each tensor: a slice, a part of one, some with a part of one at the end."""
    one = _carried.SLICE_BYTES // 4
    return [1, *(slices * one - (slices > 1) for slices in SLICES)]


def sums_are_right(cuda, device, looks_last="ends"):
    """Whether the caller's stream and callbacks of futures see all sums of tensors that the caller's
    stream makes at the last moment."""
    stager = _staging.Stager(Doubling())
    made = [torch.arange(float(size)).add_(10.0 * size).to(device) for size in elements()]
    tensors = [torch.full_like(one, -1.0) for one in made]
    seen = [[None] * len(made) for _ in range(2)]
    if device.type == "cuda":
        torch.cuda.synchronize(device)

    def look(into, number):
        what = lambda: into.__setitem__(number, tensors[number].clone())
        cuda.run(cuda.current(device), what, [])

    works = []
    for tensor, source in zip(tensors, made):
        cuda.run(cuda.current(device), lambda t=tensor, s=source: t.copy_(s), [])
        works.append(stager.start(cuda, [tensor], in_place(tensor), None))
    for number, work in enumerate(works):
        work.raw_future().add_done_callback(lambda _, n=number: look(seen[0], n))
        completing = threading.Thread(target=lambda w=work: (w.complete(), w.publish()))
        completing.start()
        completing.join(WAIT_S)
    for number, work in enumerate(works):
        work.wait()
        look(seen[1], number)
    stager.stop()
    # What is done because of one stream's waits, the other one need not ask for.
    ends = [cuda.current(device), stager._streams[device].ends]
    for stream in ends if looks_last == "ends" else reversed(ends):
        cuda.record(stream).synchronize()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return all(
        one is not None and torch.equal(one, 2 * source)
        for which in seen
        for one, source in zip(which, made)
    )
