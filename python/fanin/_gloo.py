# SPDX-License-Identifier: Apache-2.0
"""The Gloo group inside a group: made when something first needs it.

From version 2.7 on PyTorch can have Gloo connect two ranks when one first has something for the other.
An older Gloo connects all ranks as it is made, so all must come.  Messages between two ranks are called by these
alone: there the default group's is made while all ranks are in `init_process_group`.

Where ranks do not get connected they try again, all of them or none, until the time to join is over.
"""

import ctypes
import datetime
import os
import threading
import time
from typing import Any, Callable

import torch

from ._completion import join
from ._store import PatientStore
from .errors import FaninError

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
TRY_S = 15.0  # until ranks that are not connected try again
PAUSE_S = 0.2  # before they do
LOOK_S = 0.1  # of a try, until this rank looks whether another one has ended it
TELL_S = 5.0  # between two calls of the rank that says how a try has ended
MADE, ENDED = "made", "ended"
Make = Callable[[Any], Any]  # of a store


def _of_gloo(name: str) -> str:
    return str(getattr(getattr(c10d, "ProcessGroupGloo", None), name, None).__doc__ or "")


LAZY = "lazy_init" in _of_gloo("create_device")  #: whether this Gloo connects ranks one by one


class _Try(PatientStore):
    """Keys of one try.  What waits for some ends when the try has ended."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._ended = threading.Event()
        self._there: set[str] = set()  # keys that Gloo has waited for, and gets next

    def end(self) -> None:
        """Nobody waits for keys any more."""
        self._ended.set()

    def check(self, keys: Any) -> bool:
        if self._ended.is_set():
            raise RuntimeError("given up")
        there = self._there.issuperset(keys) or super().check(keys)
        if there:
            self._there.update(keys)
        return there


def made(
    make: Make, store: Any, rank: int, size: int, seconds: float, look: Callable[[], None]
) -> Any:
    """What `make` makes on all ranks, which begin within moments; a FaninError if it cannot be made on
    all of them within `seconds`, or what `look` raises while it waits.  Gloo alone waits for a lost rank
    until the group's timeout, half an hour."""
    until, number, why = time.monotonic() + seconds, 0, ""
    while True:
        left = until - time.monotonic()
        if left <= (PAUSE_S if number else 0):  # too short for a try
            break
        keys = c10d.PrefixStore(f"gloo/{number}", store)
        limit = min(left, TRY_S) if number == 0 else left
        group, why = _tried(make, keys, rank, size, limit, look, seconds)
        if not why:
            return group
        number += 1
        time.sleep(min(PAUSE_S, max(0.0, until - time.monotonic())))
    raise FaninError(
        f"the Gloo group inside cannot be made: {why}; a rank has gone, or ranks do not "
        "reach each other by TCP (GLOO_SOCKET_IFNAME names the interface)"
    )


def _tried(
    make: Make,
    keys: Any,
    rank: int,
    size: int,
    seconds: float,
    look: Callable[[], None],
    whole: float,
) -> tuple[Any, str]:
    """One try, of `whole` seconds for all: the group, and why not all ranks have it.  The first to say how
    it has ended says so for all."""
    told, trying = PatientStore(keys, look), _Try(c10d.PrefixStore("keys", keys))
    found: list[Any] = []

    def say(how: str) -> None:
        if told.add("said", 1) == 1:
            told.set(ENDED, how)

    def try_it() -> None:
        try:
            found.append(make(trying))
            if told.add(MADE, 1) == size:
                say(MADE)
        except Exception as error:  # of Gloo's, or of the store
            say(f"rank {rank}: {error}")

    thread = threading.Thread(target=try_it, name="fanin-gloo", daemon=True)
    thread.start()
    thread.join(LOOK_S)
    try:
        told.wait([ENDED], datetime.timedelta(seconds=seconds))
    except FaninError as error:
        say(f"rank {rank}: {error}")
        trying.end()
        thread.join(PAUSE_S)  # a process that ends now does not survive it in the store
        raise
    except RuntimeError:
        say(f"not all ranks have connected within {whole:.3g} s")
        told.wait([ENDED], datetime.timedelta(seconds=TELL_S))
    how = told.read(ENDED).decode()
    trying.end()
    if how != MADE:
        return None, how
    join([thread])  # all it waits for is that the store answers
    return found[0], ""


def leave(group: Any) -> None:
    """Keep it until the process ends: its destructor waits for operations under way until the group's
    timeout, and nothing else ends them."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def connect(
    store: Any,
    rank: int,
    size: int,
    address: str,
    timeout: datetime.timedelta,
    lazy: bool = LAZY,
) -> Any:
    """Gloo's group, by the interface that has `address`; "": that of this host's name.  `lazy`: ranks
    connect when one first has something for another."""
    options = c10d.ProcessGroupGloo._Options()
    options._timeout = timeout
    options._devices = _devices(address, lazy)
    if not options._devices:
        return c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
    return c10d.ProcessGroupGloo(store, rank, size, options)


def _devices(address: str, is_lazy: bool) -> list[Any]:
    lazy: dict[str, Any] = {"lazy_init": is_lazy} if LAZY else {}
    gloo = c10d.ProcessGroupGloo
    names = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if names:
        return [gloo.create_device(interface=name, **lazy) for name in names.split(",") if name]
    if address:
        return [gloo.create_device(hostname=address, **lazy)]
    return [gloo.create_default_device(**lazy)] if LAZY else []
