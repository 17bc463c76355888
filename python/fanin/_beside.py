# SPDX-License-Identifier: Apache-2.0
"""A Gloo group beside fanin, for the sums that a learner (_learner.py) leaves to it.

It is apart from the one for what fanin cannot do, and all ranks connect before it is used, in a thread:
where they do not reach each other by TCP, sums stay with fanin, and nobody waits.  A process that ends
in this moment may abort on a busy machine: PyTorch's C++ code does not survive that Python ends a
thread there.
"""

import collections
import contextlib
import logging
import threading
import weakref
from typing import Any, Callable

import torch

from ._agreed import marked
from ._learner import FAILED, LEAST_BYTES, PENDING, READY, Answer, Learner
from ._marks import TIMES
from ._membership import Membership
from ._tensors import Tensors, name_of
from .errors import ClosedError, FaninError

FASTER = "all_reduce: steps by Gloo are faster, or tried"
PATIENCE_S = 1.0  # for ranks that are behind to answer, of which this one may hold some up
TYPES = {torch.float32, torch.float64, torch.int32, torch.int64}

Look = Callable[[], None]
Make = Callable[[Look], Any]  # connects all ranks, or raises a FaninError; its argument ends that


def may_take(tensors: Tensors, op: Any) -> bool:
    """Whether both ways sum alike, but for rounding, and it is worth a question.  The same on all ranks."""
    if len(tensors) != 1 or tensors[0].numel() * tensors[0].element_size() < LEAST_BYTES:
        return False
    one = tensors[0]
    plain = one.layout == torch.strided and one.device.type == "cpu"
    return plain and one.dtype in TYPES and name_of(op) == "sum"


class Beside:
    """Of level 0 of a default group."""

    def __init__(self, membership: Membership, order: threading.Lock, make: Make) -> None:
        self.learner = Learner(self)
        self.gloo: Any = None
        self.threads: list[threading.Thread] = []
        self._membership = membership
        self._order = order
        self._make = make
        self._ended = threading.Event()
        self._state = PENDING
        self._questions = 0
        self._lock = threading.Lock()
        self._works: "collections.deque[weakref.ref[Any]]" = collections.deque()  # sums, in order

    def start(self, tensor: torch.Tensor, by: Callable[[Any], Any]) -> Any:
        """Start a sum that it may take: `by` its Gloo group, or by None, which is fanin."""
        before, size = self.learner.by_gloo, tensor.numel() * tensor.element_size()
        taken = self.learner.next(size)
        if self.learner.by_gloo != before:
            faster = "Gloo" if self.learner.by_gloo else "fanin"
            self._membership.say(f"large sums go by {faster}: steps are faster", logging.INFO)
        busy = self._is_busy()
        work = by(self.gloo if taken else None)
        self._works.append(weakref.ref(work))  # a queue keeps those under way
        self.learner.started(size, busy)
        return work

    def end(self) -> None:
        """Give up connecting."""
        self._ended.set()

    # As the learner asks.

    def connect(self) -> None:
        """In a thread."""
        thread = threading.Thread(target=self._connect, name="fanin-beside", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: the sum itself may need none
            self._state = FAILED
            return
        self.threads.append(thread)

    def connected(self) -> float:
        """The thread's state."""
        return self._state

    def agree(self, values: list[float]) -> Answer:
        """By fanin, and by the store whether it came in time: the first to say so says it for all."""
        self._questions += 1
        key = f"answer/{self._questions}"
        tensor = torch.tensor(values, dtype=torch.float64)
        with self._order:
            op = self._membership.start(lambda comm: marked(comm, TIMES, tensor, "max"))

        def wait() -> list[float] | None:
            with contextlib.suppress(FaninError, TimeoutError):  # kept, for the next wait
                op.wait(PATIENCE_S)
            if not self._membership.first_said(key, op.done()):
                return None
            self._membership.wait(op)
            return [float(value) for value in tensor]

        return wait

    def _is_busy(self) -> bool:
        """Whether sums are under way."""
        with self._lock:
            while self._works:
                work = self._works[0]()
                if work is not None and not work.is_completed():
                    return True
                self._works.popleft()
        return False

    def _connect(self) -> None:
        try:
            self.gloo = self._make(self._look)
            self._state = READY
        except (FaninError, RuntimeError) as error:  # of Gloo's, or of the store
            self._membership.say(f"no sums by Gloo: {error}", logging.DEBUG)
            self._state = FAILED

    def _look(self) -> None:
        self._membership.check()
        if self._ended.is_set():
            raise ClosedError("the group was closed")
