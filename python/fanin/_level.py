# SPDX-License-Identifier: Apache-2.0
"""A level of a process group: what operations go through that callbacks of the same depth start, or, as
level 0, those outside of callbacks (_completion.py)."""

import datetime
import functools
import threading
from typing import Any, Callable

from . import _staging
from ._agreed import Sequencer
from ._completion import LEVELS_MAX, FaninWork
from ._membership import Membership
from ._tensors import Tensors
from .communicator import Operation

STAGED = LEVELS_MAX + 1  # number of the level of tensors on a GPU, beside level 0


def set_timeout(backend: Any, timeout: datetime.timedelta | None) -> None:
    """Of a backend of PyTorch's, if it can change that; both may be None."""
    change = getattr(backend, "set_timeout", None) or getattr(backend, "_set_default_timeout", None)
    if timeout is not None and change is not None:
        change(timeout)


class Level:
    """What operations of one level go through.  Its Gloo group is made when something first goes
    through it, on all ranks: that takes longer, and more memory, than all the rest of a group."""

    def __init__(self, membership: Membership, make_gloo: Callable[[], Any]) -> None:
        self.membership = membership
        self.sequencer = Sequencer(membership, lambda: self.gloo)
        self.order = threading.Lock()  # operations start in the order of their calls
        self.ops = 0  #: that went through fanin
        self.bytes = 0  #: in them
        self._stager: _staging.Stager | None = None
        self._make_gloo = make_gloo
        self._gloo: Any = None
        self._timeout: datetime.timedelta | None = None  # that the program has set
        self._lock = threading.Lock()

    @property
    def gloo(self) -> Any:
        with self._lock:
            if self._gloo is None:
                self._gloo = self._make_gloo()
                set_timeout(self._gloo, self._timeout)
            return self._gloo

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For operations to come."""
        self.membership.set_timeout(timeout)
        with self._lock:
            self._timeout = timeout
            set_timeout(self._gloo, timeout)

    @property
    def stager(self) -> _staging.Stager:
        """Of tensors on a GPU; used under the group's lock."""
        if self._stager is None:
            self._stager = _staging.Stager(self.membership)
        return self._stager

    @property
    def threads(self) -> list[threading.Thread]:
        """Of the stager."""
        return self._stager.threads if self._stager is not None else []

    def work_of(
        self,
        op: Operation[Any],
        outputs: Tensors,
        before: list[Callable[[], Any]],
        finish: Callable[[], Any] | None,
    ) -> FaninWork:
        """A work of an operation of the library.  One that leaves nothing to do at its end may stay as it is
        until somebody waits."""
        waits: list[Callable[[], Any]] = [*before, functools.partial(self.membership.wait, op)]
        is_lazy = not before and finish is None
        return FaninWork(outputs, waits, finish, has_ended=op.done if is_lazy else None)

    def close(self) -> None:
        """Leave the job."""
        if self._stager is not None:
            self._stager.stop()
        self.membership.close()
