# SPDX-License-Identifier: Apache-2.0
"""Tensors on a GPU, without one: slices, order and bounds of what stages them, on lazy_streams.py."""

import datetime
import threading
import time
import weakref

import pytest
import torch
from conftest import WAIT_S, Processes
from lazy_streams import Streams
from test_backend import answers

from fanin import _carried, _staging
from fanin._carried import Gather, InPlace, Scatter
from fanin.errors import RankLostError

SLICE = 256  # bytes: 64 elements
SIZES = [1, 64, 65, 1000, 640, 3000, 64]
ORDERS = ["main out", "host out", "back out", "back main", "back ends"]


class Alike:
    """Two ranks that give the same, as a membership and as its communicator: a sum doubles.  What it
    sums it reads at the start, and writes at the end."""

    rank, size = 1, 2

    def __init__(self, fails_at=None):
        self.starts = 0
        self.fails_at = fails_at

    def start(self, begin):
        self.starts += 1
        if self.starts == self.fails_at:
            raise RankLostError("rank 0 is lost")
        return begin(self)

    def wait(self, op):
        tensor, result = op
        tensor.copy_(result)

    def allreduce_start(self, tensor):
        return tensor, 2 * tensor


def staged(streams, membership, looks_last="ends", sizes=SIZES):
    """Sums of tensors that main makes at the last moment; what main sees of them after wait(), and
    callbacks of their futures."""
    stager = _staging.Stager(membership)
    made = [torch.arange(float(size)) + 10 * size for size in sizes]
    tensors = [torch.full((size,), -1.0) for size in sizes]
    seen, called = [None] * len(sizes), [None] * len(sizes)
    works, ended = [], []

    def look(into, number, tensor):
        streams.run(streams.current(), lambda: into.__setitem__(number, tensor.clone()), [])

    for number, tensor in enumerate(tensors):
        streams.run(streams.main, lambda n=number, t=tensor: t.copy_(made[n]), [])
        carried = InPlace(tensor, lambda comm, one, _: comm.allreduce_start(one))
        works.append(stager.start(streams, [tensor], carried, None))
    for number, (work, tensor) in enumerate(zip(works, tensors)):
        future = work.raw_future()
        future.add_done_callback(lambda _, n=number, t=tensor: look(called, n, t))
        completing = threading.Thread(target=lambda w=work: (w.complete(), w.publish()))
        completing.start()
        ended.append(completing)
        completing.join(60)
    errors = []
    for number, (work, tensor) in enumerate(zip(works, tensors)):
        try:
            work.wait(datetime.timedelta(seconds=60))
        except RankLostError as error:
            errors.append(str(error))
            continue
        look(seen, number, tensor)
    stager.stop()
    # What is done because of one stream's waits, the other one need not ask for.
    for stream in sorted(streams.all, key=lambda one: one.name == looks_last):
        if stream.name in ("main", "ends"):
            streams.record(stream).reach()
    right = [
        all(one is not None and torch.equal(one, 2 * made[n]) for one in (seen[n], called[n]))
        for n in range(len(sizes))
    ]
    return right, errors


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(_carried, "SLICE_BYTES", SLICE)
    monkeypatch.setattr(_staging, "SLICE_BYTES", SLICE)


@pytest.mark.parametrize("eager", [0.0, 0.3, 0.9])
def test_sums_arrive_however_streams_run(eager):
    for seed in range(10):
        streams = Streams(seed, eager)
        membership = Alike()
        assert staged(streams, membership) == ([True] * len(SIZES), [])
        assert membership.starts == sum(-(-4 * size // SLICE) for size in SIZES)
        assert 0 < streams.pinned_bytes <= SLICE * _staging.PIECES_MAX


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_is_needed(order):
    last = "main" if order == "back ends" else "ends"
    right, _ = staged(Streams(blind=[order]), Alike(), last)
    assert not all(right)


def test_an_error_ends_its_operation_and_returns_the_memory():
    right, errors = staged(Streams(3, 0.3), Alike(fails_at=4))
    assert errors == ["rank 0 is lost"] and right.count(False) == 1


def test_a_kept_work_does_not_keep_the_tensors_of_one_that_was_waited_for():
    stager = _staging.Stager(Alike())
    tensor = torch.ones(64)
    gone = weakref.ref(tensor)
    work = stager.start(
        Streams(), [tensor], InPlace(tensor, lambda comm, one, _: comm.allreduce_start(one)), None
    )
    work.wait()
    del tensor, work  # this one is kept, for C++ code
    ends = time.monotonic() + WAIT_S
    while gone() is not None and time.monotonic() < ends:
        time.sleep(0.01)  # its thread is letting go
    stager.stop()
    assert gone() is None


class Two:
    """Reduce-scatters and all-gathers of three ranks, all at once, slice by slice."""

    def reduce_scatter_start(self, whole, share, op):
        return [whole, share, op]

    def allgather_start(self, share, whole):
        return [share, whole]


@pytest.mark.parametrize("elems", [1, 5, 16, 21, 200])
def test_shares_are_cut_alike_on_all_ranks(elems):
    ranks = 3
    whole = [torch.arange(float(elems * ranks)) * (r + 1) for r in range(ranks)]
    out = [torch.zeros(elems) for _ in range(ranks)]
    gathered = [torch.zeros(elems * ranks) for _ in range(ranks)]
    for parts in zip(*(Scatter(whole[r], out[r], "sum").slices(r, ranks) for r in range(ranks))):
        pinned = [loaded(part) for part in parts]
        total = sum(one.view(torch.float32) for one in pinned)
        for rank, (part, one) in enumerate(zip(parts, pinned)):
            _, share, _ = part.start(Two(), one)
            share.copy_(total.chunk(ranks)[rank])
            store(part, one)
    for rank in range(ranks):
        assert torch.equal(out[rank], (whole[0] * 6).chunk(ranks)[rank])
    for parts in zip(*(Gather(gathered[r], out[r]).slices(r, ranks) for r in range(ranks))):
        pinned = [loaded(part) for part in parts]
        shares = [part.start(Two(), one)[0].clone() for part, one in zip(parts, pinned)]
        for part, one in zip(parts, pinned):
            part.start(Two(), one)[1].copy_(torch.cat(shares))
            store(part, one)
    for rank in range(ranks):
        assert torch.equal(gathered[rank], whole[0] * 6)


def loaded(part):
    assert part.size <= SLICE
    pinned = torch.full((part.size,), 0xEE, dtype=torch.uint8)
    for at, source in part.loads:
        pinned[at : at + source.numel()].copy_(source)
    return pinned


def store(part, pinned):
    for at, into in part.stores:
        into.copy_(pinned[at : at + into.numel()])


def test_random_calls_on_staged_tensors_answer_as_gloo_does():
    for answer in answers(2, "staged_calls", {"count": 150, "seed": 5}):
        assert answer["wrong"] == [] and answer["pinned"] > 0
        assert min(answer["same"], answer["more"], answer["refused"]) > 2


def test_a_program_that_ends_while_sums_are_under_way_is_not_brought_down():
    for _ in range(3):
        for status, _, err in Processes(2, "", {}, script="leaving.py").outputs():
            assert status >= 0 and "terminate called" not in err, err


def test_trainings_on_staged_tensors_end_as_with_gloo():
    names = ["plain", "fp16", "power_sgd", "accumulated", "zero", "local_sgd"]
    for answer in answers(2, "staged_scenes", {"names": names}):
        assert all(answer["right"].values()), answer
        assert answer["pinned"] > 0
