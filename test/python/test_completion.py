# SPDX-License-Identifier: Apache-2.0
"""Works and their futures, in this process alone."""

import _thread
import collections
import time

import pytest
import torch

from fanin._completion import FaninFuture, FaninWork

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
