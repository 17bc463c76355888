# SPDX-License-Identifier: Apache-2.0
"""One life of a group: its ranks, where they meet, and keys of a store that no other life has.

Agents of torchrun from PyTorch 2.6 on keep one store for all lives of a job, in which its ranks find
what ranks that are dead have said.  The number of restarts does not tell lives apart, since each agent
counts its own.  So each rank says that it has come, by a name of its own.  Rank 0 tells a roster: the
name of this life, where its ranks meet, and the names of all that have come, anew when one more has.  A rank
believes that only if its own name is there: rank 0 of a former life cannot know it.  Of others there may be
names of former lives.
"""

from __future__ import annotations

import atexit
import datetime
import json
import secrets
import threading
import time
from typing import Any, Callable

import torch

from . import _gathering, _waiting
from ._elastic import Place
from ._library import VERSION
from ._store import FIRST_S, PatientStore
from .errors import FaninError

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
COME = "come"  # how many ranks have come, in all lives; come/1, ...: version, rank, name, process
ROSTER = "roster"  # version, the life's name, rank 0's process, where they meet, each rank's name
END_S = 5.0  # the longest that one answer of the store may take as the process ends

Meet = Callable[[PatientStore], list[str]]  # where ranks meet, in words


class Life:
    """Of a rank that is alone, or in no group yet."""

    def __init__(self, name: str = "") -> None:
        self.name = name  #: that no other life has
        self.meeting: list[str] = []  #: where its ranks meet, in words

    def store(self, store: Any) -> Any:
        """Keys of `store` that are of this life."""
        return c10d.PrefixStore(f"fanin/{self.name}", store)

    def tell(self) -> None:
        """Rank 0 tells ranks that have come."""

    def tell_on(self) -> None:
        """The same from now on: ranks that come too late have to hear so."""

    def process(self, rank: int) -> str:
        """What the process of a rank that is in this life has said of itself."""
        raise NotImplementedError


def begin(at: Place, meet: Meet) -> Life:
    """What all ranks of a new group call: the life that they are in.  `at`: the group, and its store."""
    if at.size == 1:
        return Life(secrets.token_hex(8))
    own = c10d.PrefixStore("fanin", at.store)
    store = PatientStore(own)
    return _Other(store, at.rank, own.timeout) if at.rank else _First(store, at.size, meet)


def _read(text: bytes, who: str) -> list[Any]:
    """What a rank has said, without its version.  FaninError: another version's."""
    found: list[Any]
    try:
        version, *found = json.loads(text)
    except (ValueError, TypeError):
        version = "of another version"
    if version != VERSION:
        raise FaninError(f"{who} runs fanin {version}: expected {VERSION}, as on this rank")
    return found


class _First(Life):
    """Rank 0's."""

    def __init__(self, store: PatientStore, size: int, meet: Meet) -> None:
        super().__init__(secrets.token_hex(8))
        self._store = store
        self._meet = meet
        self._names = [""] * size
        self._processes = [_gathering.process()] + [""] * (size - 1)
        self._seen = 0  # what of `come` is taken in, but for...
        self._unfilled: set[int] = set()  # ...places that a rank has taken and not filled yet
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanin-life", daemon=True)

    def tell(self) -> None:
        if self._take_in():
            self.meeting = self.meeting or self._meet(self._store)
            told = [VERSION, self.name, self._processes[0], self.meeting, self._names]
            self._store.set(ROSTER, json.dumps(told))

    def tell_on(self) -> None:
        atexit.register(self._stop)
        self._thread.start()

    def process(self, rank: int) -> str:
        return self._processes[rank]

    def _take_in(self) -> bool:
        """Whether more ranks have come."""
        count, changed = self._store.add(COME, 0), False
        self._unfilled.update(range(self._seen + 1, count + 1))
        self._seen = count
        for place in sorted(self._unfilled):
            if self._store.told(f"{COME}/{place}"):
                self._unfilled.remove(place)
                changed = True
                try:
                    said = _read(self._store.read(f"{COME}/{place}"), "a rank")
                except FaninError as error:  # which it learns from the roster; or of a former life
                    _waiting.tell(0, str(error))
                    continue
                rank, name, process = said
                if 0 < rank < len(self._names):
                    self._names[rank], self._processes[rank] = name, process
        return changed

    def _run(self) -> None:
        pause = FIRST_S
        while not self._ended.wait(pause):
            pause = min(pause * 2, _gathering.RARE_S)
            try:
                self.tell()
            except RuntimeError:  # the store has gone, and with it who could ask
                return

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join(END_S)


class _Other(Life):
    """Another rank's."""

    def __init__(self, store: PatientStore, rank: int, limit: datetime.timedelta) -> None:
        super().__init__()
        self._store = store
        self._rank = rank
        self._process = ""  # rank 0's
        self._names: list[str] = []
        self._seen = 0
        place = store.add(COME, 1)
        self._own = f"{place}.{secrets.token_hex(8)}"
        said = [VERSION, rank, self._own, _gathering.process()]
        store.set(f"{COME}/{place}", json.dumps(said))
        until, pauses = time.monotonic() + limit.total_seconds(), _gathering.Pauses()
        while not self._look():
            if time.monotonic() > until:
                raise FaninError(f"rank 0 has not come within {limit}")
            pauses.sleep(until)

    def process(self, rank: int) -> str:
        self._look()  # in an older roster there may be a name of a former life
        if not rank:
            return self._process
        place = self._names[rank].partition(".")[0]
        return str(_read(self._store.read(f"{COME}/{place}"), f"rank {rank}")[2])

    def _look(self) -> bool:
        """Whether rank 0 tells of a life that this rank is in."""
        told = self._store.told(ROSTER)
        if told != self._seen:
            self._seen = told
            name, process, meeting, names = _read(self._store.read(ROSTER), "rank 0")
            if self._rank < len(names) and names[self._rank] == self._own:
                self.name, self._process, self.meeting, self._names = name, process, meeting, names
        return bool(self.name)
