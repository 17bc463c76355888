# SPDX-License-Identifier: Apache-2.0
"""One life of a group, and keys of a store that no other life has.

Agents of torchrun from PyTorch 2.6 on keep one store for all lives of a job, in which its ranks find
what ranks that are dead have said.  The number of restarts does not tell lives apart, since each agent
counts its own.  So each rank says that it has come, by a number of its own.  Rank 0 tells the name of
this life and the numbers of the ranks that it knows to be in it, and tells it anew when one more has
come.  A rank believes that only if its own number is there: rank 0 of a former life cannot know it.
"""

import atexit
import datetime
import secrets
import threading
import time
from typing import Any

import torch

from ._store import FIRST_S, LAST_S, PatientStore
from .errors import FaninError

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
COME = "come"  # how many ranks have come, in all lives; come/1, ...: rank and number of each
ROSTER = "roster"  # the life's name, and a number for each rank; "-": it has not come
END_S = 5.0  # the longest that one answer of the store may take as the process ends


def begin(given: Any) -> "Life":
    """What all ranks of a new group call: the life that they are in.  `given`: what
    torch.distributed says about the group."""
    rank, number = given.group_rank, secrets.token_hex(8)
    if given.group_size == 1:
        return Life(number)
    own = c10d.PrefixStore("fanin", given.store)
    if rank == 0:
        return Life(number, _Teller(PatientStore(own), given.group_size, number))
    patient = PatientStore(own)
    place = patient.add(COME, 1)
    patient.set(f"{COME}/{place}", f"{rank} {number}")
    return Life(_heard(patient, rank, number, own.timeout))


def _heard(store: PatientStore, rank: int, number: str, limit: datetime.timedelta) -> str:
    """The name of the life, once rank 0 tells one that this rank is in."""
    until, pause, seen = time.monotonic() + limit.total_seconds(), FIRST_S, 0
    while True:
        told = store.told(ROSTER)
        if told != seen:
            seen = told
            name, *numbers = store.get(ROSTER).decode().split(" ")
            if rank < len(numbers) and numbers[rank] == number:
                return name
        if time.monotonic() > until:
            raise FaninError(f"rank 0 has not come within {limit}")
        time.sleep(pause)
        pause = min(pause * 1.5, LAST_S)


class Life:
    """Its name, which no other life has."""

    def __init__(self, name: str, teller: "_Teller | None" = None) -> None:
        self.name = name
        self._teller = teller

    def store(self, store: Any) -> Any:
        """Keys of `store` that are of this life."""
        return c10d.PrefixStore(f"fanin/{self.name}", store)

    def gather(self, limit: datetime.timedelta) -> None:
        """Wait until all ranks have come: who waits for others by a store keeps its one connection,
        so that rank 0 can tell nobody of this life meanwhile."""
        if self._teller is not None and not self._teller.whole.wait(limit.total_seconds()):
            raise FaninError(f"not all ranks have come within {limit}")

    def known(self) -> None:
        """All ranks are in it."""
        if self._teller is not None:
            self._teller.stop()
            self._teller = None


class _Teller:
    """Rank 0's part, on a thread, until all ranks are in the life: those that come too late to join
    have to hear so."""

    def __init__(self, store: PatientStore, size: int, name: str) -> None:
        self._store = store
        self._name = name
        self._numbers = ["-"] * size
        self._read = 0  # what of `come` is taken in, but for...
        self._missing: set[int] = set()  # ...places that a rank has taken and not filled yet
        self._ended = threading.Event()
        self.whole = threading.Event()  # all ranks have come
        self._look()
        self._thread = threading.Thread(target=self._run, name="fanin-life", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join(END_S)
        atexit.unregister(self.stop)

    def _run(self) -> None:
        pause = FIRST_S
        while not self._ended.wait(pause):
            try:
                pause = FIRST_S if self._look() else min(pause * 1.5, LAST_S)
            except RuntimeError:  # the store has gone, and with it who could ask
                return

    def _look(self) -> bool:
        """Tell the ranks that have come; whether there are new ones."""
        count, before = self._store.add(COME, 0), list(self._numbers)
        self._missing.update(range(self._read + 1, count + 1))
        self._read = count
        for place in sorted(self._missing):
            if not self._store.told(f"{COME}/{place}"):
                continue
            self._missing.remove(place)
            rank, number = self._store.get(f"{COME}/{place}").decode().split(" ")
            if int(rank) < len(self._numbers):
                self._numbers[int(rank)] = number
        if self._numbers == before:
            return False
        self._store.set(ROSTER, " ".join([self._name, *self._numbers]))
        if "-" not in self._numbers[1:]:
            self.whole.set()
        return True
