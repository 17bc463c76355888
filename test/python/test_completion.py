# SPDX-License-Identifier: Apache-2.0
"""Works and their futures, in this process alone."""

import _thread
import collections
import threading
import time

import pytest
import torch

from fanin._completion import LAZY_MAX, Completer, FaninFuture, FaninWork, join

WAIT_S = 600


def called_without_a_frame(function, argument):
    """What it returns in a thread that runs C code alone, as autograd's thread of a GPU does."""
    found = collections.deque()
    _thread.start_new_thread(found.extend, (map(function, [argument]),))
    ends = time.monotonic() + WAIT_S
    while not found and time.monotonic() < ends:
        time.sleep(0.01)
    return found[0]


@pytest.mark.parametrize("threaded", [False, True], ids=["python", "c-thread"])
def test_a_future_is_complete_when_its_work_has_ended(threaded):
    tensor = torch.zeros(3)
    work = FaninWork([tensor], [lambda: tensor.fill_(2)])
    asked = called_without_a_frame(FaninWork.get_future, work) if threaded else work.get_future()
    assert isinstance(asked, FaninFuture) is not threaded
    assert not asked.done()
    work.complete()
    work.publish()
    assert asked.done()
    assert asked.wait()[0].tolist() == [2, 2, 2]


class Ends:
    """An operation of the library that ends when told."""

    def __init__(self):
        self.ended = threading.Event()
        self.waits = 0

    def wait(self):
        self.waits += 1
        assert self.ended.wait(WAIT_S)

    def work(self):
        return FaninWork([torch.ones(1)], [self.wait], has_ended=self.ended.is_set)


@pytest.fixture
def completer():
    made = Completer()
    yield made
    made.stop()
    join(made.threads)


def test_a_thread_is_started_for_those_who_need_one_alone(completer):
    ops = [Ends() for _ in range(3)]
    works = [op.work() for op in ops]
    for work in works:
        completer.add(work)
    assert not works[0].is_completed()
    ops[0].ended.set()
    assert works[0].is_completed() and works[0].is_success() and works[0].exception() is None
    ops[1].ended.set()
    assert works[1].wait() and works[1].get_future().done()
    assert completer.threads == [] and ops[1].waits == 1
    future = works[2].get_future()
    assert len(completer.threads) == 1 and not future.done()
    ops[2].ended.set()
    assert future.wait()[0].tolist() == [1]


def test_futures_complete_in_the_order_of_the_starts(completer):
    ops, order = [Ends() for _ in range(3)], []
    works = [op.work() for op in ops]
    for work in works:
        completer.add(work)
    for number in (2, 0):
        works[number].get_future().then(lambda _, number=number: order.append(number))
    for op in reversed(ops):
        op.ended.set()
    for work in works:
        work.wait()
    assert order == [0, 2]


@pytest.mark.parametrize("lazy", [True, False], ids=["many", "with-an-end"])
def test_works_that_nobody_waits_for_end(completer, lazy):
    finished = threading.Event()
    if lazy:
        for _ in range(LAZY_MAX):
            op = Ends()
            op.ended.set()
            completer.add(op.work())
        assert completer.threads == []  # what has ended is forgotten with the next start
        held = [Ends() for _ in range(LAZY_MAX + 1)]
        for op in held:
            completer.add(op.work())
            assert not finished.is_set()
        held[-1].ended.wait = lambda _: finished.set() or True
        for op in held[:-1]:
            op.ended.set()
    else:
        completer.add(FaninWork([], [], finished.set))
    assert finished.wait(WAIT_S)
