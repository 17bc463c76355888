# SPDX-License-Identifier: Apache-2.0
"""A level of a process group: what operations go through that callbacks of the same depth start, or, as
level 0, those outside of callbacks (_completion.py)."""

import dataclasses
import datetime
import functools
import threading
from typing import Any, Callable, Optional, Sequence

import torch

from . import _gloo, _meeting, _staging
from ._agreed import Sequencer
from ._beside import Beside, Make
from ._completion import LEVELS_MAX, FaninWork
from ._elastic import Place
from ._life import Life, begin
from ._membership import AGREE_S, Membership, Options
from ._store import PatientStore
from ._tensors import Tensors
from .communicator import Operation

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it

BESIDE_S = 30.0  # to connect all ranks in, beside their operations
STAGED = LEVELS_MAX + 1  # number of the level of tensors on a GPU, beside level 0


def set_timeout(backend: Any, timeout: datetime.timedelta | None) -> None:
    """Of a backend of PyTorch's, if it can change that; both may be None."""
    change = getattr(backend, "set_timeout", None) or getattr(backend, "_set_default_timeout", None)
    if timeout is not None and change is not None:
        change(timeout)


class Level:
    """What operations of one level go through.  Its Gloo group is made when something first goes
    through it, on all ranks: that takes longer, and more memory, than all the rest of a group."""

    def __init__(
        self, membership: Membership, make_gloo: Callable[[], Any], make_beside: Make | None = None
    ) -> None:
        self.membership = membership
        self._make_beside = make_beside
        self._beside: Beside | None = None
        self.sequencer = Sequencer(membership, lambda: self.gloo)
        self.order = threading.Lock()  # operations start in the order of their calls
        self.ops = 0  #: that went through fanin
        self.bytes = 0  #: in them
        self._stager: _staging.Stager | None = None
        self._make_gloo = make_gloo
        self._gloo: Any = None
        self._timed_too: list[Any] = []  # Gloo groups beside it: one at most
        self._timeout: datetime.timedelta | None = None  # that the program has set
        self._lock = threading.Lock()

    @property
    def gloo(self) -> Any:
        with self._lock:
            if self._gloo is None:
                self._gloo = self._make_gloo()
                set_timeout(self._gloo, self._timeout)
            return self._gloo

    @property
    def beside(self) -> Beside | None:
        """What may take sums that fanin can carry.  None until the ranks have joined."""
        if self._beside is None and self._make_beside and self.membership.learns:
            self._beside = Beside(self.membership, self.order, self._timed(self._make_beside))
        return self._beside

    def _timed(self, make: Make) -> Make:
        """What is made has the timeout that the program has set meanwhile, or gets it then."""

        def made(look: Callable[[], None]) -> Any:
            gloo = make(look)
            with self._lock:
                set_timeout(gloo, self._timeout)
                self._timed_too.append(gloo)
            return gloo

        return made

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For operations to come."""
        self.membership.set_timeout(timeout)
        with self._lock:
            self._timeout = timeout
            for gloo in [self._gloo, *self._timed_too]:
                set_timeout(gloo, timeout)

    @property
    def stager(self) -> _staging.Stager:
        """Of tensors on a GPU; used under the group's lock."""
        if self._stager is None:
            self._stager = _staging.Stager(self.membership)
        return self._stager

    @property
    def threads(self) -> list[threading.Thread]:
        """To wait for, once it is closed."""
        found = self._stager.threads if self._stager is not None else []
        return found + (self._beside.threads if self._beside is not None else [])

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
        if self._beside is not None:
            self._beside.end()
        if self._stager is not None:
            self._stager.stop()
        self.membership.close()


Opener = Callable[[int, Optional[Membership]], Level]  # of a number; of its group's level 0


def levels(
    at: Place,
    options: Options,
    timeout: Any,
    life: Life | None = None,
    world: Any = None,
    members: Sequence[int] = (),
) -> tuple[Life, Opener]:
    """The life of the group at `at`, in which its store is from now on, and what opens its levels.

    life
        None: it begins.
    world
        The group of which its ranks are `members`; None: there is none.
    """
    if life is None:
        learns = options.learns(at.size)
        life = begin(at, functools.partial(_meeting.choose, own=at.address, learns=learns))
    at.store = life.store(at.store)
    return life, functools.partial(_open, at, options, timeout, life, world, members)


def _open(
    at: Place,
    options: Options,
    timeout: Any,
    life: Life,
    world: Any,
    members: Sequence[int],
    number: int,
    first: Membership | None,
) -> Level:
    """The levels above 0 are as groups of the same ranks."""
    store = c10d.PrefixStore(str(number), at.store)
    here = dataclasses.replace(at, store=store, name=f"{at.name} {number}" if number else at.name)
    of = first if world is None else world.membership
    members = range(at.size) if world is None else members
    membership = Membership(here, options, of, members, life, timeout)

    def make_beside(look: Callable[[], None]) -> Any:
        rank, size, address = membership.rank, membership.size, membership.own_address()

        def make(keys: Any) -> Any:
            return _gloo.connect(keys, rank, size, address, timeout, lazy=False)

        keys = c10d.PrefixStore("beside", store)
        return _gloo.made(make, keys, rank, size, BESIDE_S, look)

    return Level(
        membership,
        lambda: _make_gloo(store, membership, timeout),
        make_beside if number == 0 else None,
    )


def _make_gloo(store: Any, membership: Membership, timeout: Any) -> Any:
    """Gloo by the interface that leads to the others, since a host's name may stand for loopback."""
    rank, size = membership.rank, membership.size
    address = membership.own_address()

    def make(keys: Any) -> Any:
        return _gloo.connect(keys, rank, size, address, timeout)

    if _gloo.LAZY:
        keys = PatientStore(c10d.PrefixStore("gloo", store), membership.check)
        membership.kept.append(keys)  # C++ code alone does not keep an object of Python's class
        return make(keys)
    return _gloo.made(make, store, rank, size, AGREE_S, membership.check)
