# SPDX-License-Identifier: Apache-2.0
"""How long the ranks of a process group wait, and how they wait for each other by its store: before they
join, for as long as the group may, by a call that a signal interrupts and with the names of those that
have not come; and in monitored_barrier.

The group's `timeout` bounds an operation, and the time until all ranks have come, unless fanin was told
a time.  Once they are there, joining takes moments, so a switch that cannot be reached is an error soon.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import os
import re
import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _arguments, _waiting
from ._store import FIRST_S, LAST_S, PatientStore, seconds_of
from .errors import JoinTimeoutError

JOIN_S = 30.0  # of a join, once all ranks have come: as the library's
LEAST_S, MOST_S = 0.1, 86400.0  # of the library's times
TIMEOUT = -6  # FANIN_E_TIMEOUT
CALM = 50  # looks become rarer, down to this part of what one has waited...
RARE_S = 0.5  # ...and to this
LOOK_S = 1.0  # between looks for ranks that have ended
TELL_FIRST_S, TELL_S = 2.0, 5.0  # between texts of what is waited for, as the library's...
TELL_RARER = 4  # ...and then less often, by this part of what one has waited
STAT_START = 19  # place of a process's begin in /proc/PID/stat, behind its name
UNBOUND_S = 1800.0  # of a group without a timeout
WELL = "passed"
LEAVE_S = 5.0  # the longest that rank 0 stays until the others have heard it


# Times.


@dataclasses.dataclass(frozen=True)
class Timeouts:
    """Seconds.  `operation` and `join` are for the library; None: as it was told by others."""

    coming: float  #: until all ranks have come
    operation: float | None = None
    join: float | None = None

    @property
    def arguments(self) -> dict[str, float]:
        """Of a communicator."""
        found = {"timeout": self.operation, "join": self.join}
        return {name: value for name, value in found.items() if value is not None}


def _told(given: Mapping[str, Any], name: str) -> float | None:
    """Seconds that somebody has told fanin."""
    value = given.get(name)
    if value is not None:  # the library says what is wrong with it
        return value if isinstance(value, (int, float)) and 0 <= value <= MOST_S else JOIN_S
    text = _arguments.told(f"{name}_ms")
    return int(text) / 1000 if text.isdecimal() else None


def timeouts(given: Mapping[str, Any], timeout: datetime.timedelta | None) -> Timeouts:
    """Of a group with this `timeout`, whose communicator is given these arguments."""
    told = _told(given, "timeout")
    if told is not None:
        return Timeouts(told)
    if timeout is None:
        return Timeouts(JOIN_S)
    seconds = min(max(timeout.total_seconds(), LEAST_S), MOST_S)
    join = min(seconds, JOIN_S) if _told(given, "join") is None else None
    return Timeouts(seconds, seconds, join)


class Pauses:
    """Sleeps between looks at the store."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._next = FIRST_S

    @property
    def waited(self) -> float:
        """Seconds."""
        return time.monotonic() - self.begun

    def sleep(self, until: float) -> None:
        """Not longer than until then."""
        time.sleep(max(0.0, min(self._next, until - time.monotonic())))
        self._next = min(self._next * 2, max(LAST_S, min(self.waited / CALM, RARE_S)))


def in_words(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 1, 4-7"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    text = ", ".join((", " if run[-1] == run[0] + 1 else "-").join(map(str, run)) for run in runs)
    return f"rank{'s' if len(ranks) > 1 else ''} {text}"


def named(text: str) -> set[int]:
    """The ranks of which a sentence of the library says that they are lost."""
    if not text:
        return set()
    found = re.match(r"ranks? (\d[\d, -]*) (?:stopped answering|left job|has ended)", text)
    ranks: set[int] = set()
    for part in re.findall(r"(\d+)(?:-(\d+))?", found.group(1) if found else ""):
        ranks.update(range(int(part[0]), int(part[1] or part[0]) + 1))
    return ranks


# Processes.


@functools.cache
def _host() -> str:
    """Where a process's number means the same."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _begin_of(pid: int) -> str:
    """When it began; "": it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[STAT_START]


def process() -> str:
    """This one, for others."""
    try:
        return f"{_host()} {os.getpid()} {_begin_of(os.getpid())}"
    except (OSError, IndexError):
        return ""


def has_ended(told: str) -> bool:
    """Whether the process that has told this of itself ran on this host, and runs no more."""
    host, _, rest = told.partition(" ")
    pid, _, begin = rest.partition(" ")
    if not host or not begin or host != _host():
        return False
    try:
        return _begin_of(int(pid)) != begin
    except (OSError, ValueError, IndexError):
        return False


# Ranks.


class Gathering:
    """Ranks that come to something of which `key` is a name in the store.  `tell` tells them where that is."""

    def __init__(
        self, store: PatientStore, key: str, size: int, tell: Callable[[], None] | None = None
    ) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._tell = tell
        self.count = 0  #: of those that had come at the last look

    def come(self, rank: int) -> None:
        """This rank's word."""
        self._store.add(f"{self._key}/{rank}", 1)
        self.count = self._store.add(self._key, 1)

    def are_all(self) -> bool:
        """Whether all have come."""
        if self.count < self._size:
            if self._tell is not None:
                self._tell()
            self.count = self._store.add(self._key, 0)
        return self.count >= self._size

    def has_come(self, rank: int) -> bool:
        """Whether this one has."""
        return self._store.add(f"{self._key}/{rank}", 0) > 0

    def missing(self, ranks: Iterable[int] | None = None) -> list[int]:
        """Of these, or of all, those that have not."""
        ranks = range(self._size) if ranks is None else ranks
        return [rank for rank in ranks if not self.has_come(rank)]


class Note:
    """What is waited for, logged from time to time; `seconds` is how long, at most."""

    def __init__(self, rank: int, seconds: float) -> None:
        self._rank = rank
        self._next = min(TELL_FIRST_S, seconds / 2)
        self._said = False

    def tell(self, waited: float, left: float, missing: Callable[[], str]) -> None:
        """If it is time."""
        if waited < self._next:
            return
        self._said = True
        self._next = waited + max(TELL_S, waited / TELL_RARER)
        _waiting.tell(self._rank, f"waits for {missing()}; gives up in {max(1, math.ceil(left))} s")

    def end(self) -> None:
        """All are there."""
        if self._said:
            _waiting.tell(self._rank, "all ranks have come")


def gather(
    gathering: Gathering, rank: int, size: int, seconds: float, look: Callable[[], None]
) -> None:
    """Come, and wait for the others.  `look` raises what makes that hopeless.  JoinTimeoutError: some
    have not come within `seconds`."""
    gathering.come(rank)
    pauses, note, looked = Pauses(), Note(rank, seconds), LOOK_S
    until = pauses.begun + seconds

    def missing() -> str:
        return f"{in_words(gathering.missing())} of {size}"

    while not gathering.are_all():
        waited = pauses.waited
        if waited >= seconds:
            absent = gathering.missing()
            if not absent:
                break
            raise JoinTimeoutError(
                f"{in_words(absent)} of {size} {'have' if len(absent) > 1 else 'has'} not come to "
                f"the group within its timeout of {seconds:g} s",
                TIMEOUT,
            )
        if waited >= looked:
            look()
            looked = waited + LOOK_S
        note.tell(waited, seconds - waited, missing)
        pauses.sleep(until)
    note.end()


# A barrier.


class Monitored:
    """The barrier number `number` of a group.  `gone`: of ranks that are waited for, those that have
    ended."""

    def __init__(
        self,
        store: PatientStore,
        rank: int,
        size: int,
        number: int,
        gone: Callable[[list[int]], list[int]],
    ) -> None:
        self._store = store
        self._key = f"monitored/{number}"
        self._here = Gathering(store, self._key, size)
        self._heard = Gathering(store, f"{self._key}/heard", size)
        self._rank = rank
        self._size = size
        self._gone = gone

    def wait(self, seconds: float, all_ranks: bool) -> None:
        """RuntimeError: not all have passed; rank 0's names the first that has not come, or with
        `all_ranks` all of them."""
        if self._rank:
            self._follow(seconds)
        else:
            self._lead(seconds, all_ranks)

    def _lead(self, seconds: float, all_ranks: bool) -> None:
        self._here.come(0)
        missing = self._await(seconds)
        told = WELL if not missing else self._text(missing, seconds, all_ranks)
        self._store.set(f"{self._key}/end", told)
        there = [rank for rank in range(1, self._size) if rank not in missing]
        self._stay(there)
        if missing:
            raise RuntimeError(told)

    def _await(self, seconds: float) -> list[int]:
        """Those that have not come in time."""
        pauses, looked = Pauses(), LOOK_S
        until = pauses.begun + seconds
        missing = self._here.missing(range(1, self._size))
        while missing and pauses.waited < seconds:
            pauses.sleep(until)
            missing = self._here.missing(missing)
            if pauses.waited >= looked:
                looked = pauses.waited + LOOK_S
                if self._gone(missing):
                    break
        return missing

    def _text(self, missing: list[int], seconds: float, all_ranks: bool) -> str:
        ms = round(seconds * 1000)
        if seconds <= 0:
            return f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {ms} ms"
        gone = self._gone(missing)
        blamed = missing if all_ranks else (gone or missing)[:1]
        text = f"[Rank 0]: Rank{'s' if len(blamed) > 1 else ''} {', '.join(map(str, blamed))}"
        text += f" failed to pass monitoredBarrier in {ms} ms"
        ended = [rank for rank in gone if rank in blamed]
        return text + (f": {', '.join(map(str, ended))} ended" if ended else "")

    def _stay(self, there: list[int]) -> None:
        """The store may be this process's."""
        pauses = Pauses()
        until = pauses.begun + LEAVE_S
        while self._heard.missing(there) and time.monotonic() < until:
            pauses.sleep(until)

    def _follow(self, seconds: float) -> None:
        self._here.come(self._rank)
        pauses = Pauses()
        until = pauses.begun + seconds
        try:
            while not self._store.told(f"{self._key}/end"):
                if pauses.waited >= seconds:
                    raise RuntimeError(self._why_late(seconds))
                pauses.sleep(until)
            told = self._store.get(f"{self._key}/end").decode()
            if told != WELL:
                raise RuntimeError(told)
        except RuntimeError as error:
            raise RuntimeError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                f"while waiting for send/recv from rank 0: {error}"
            ) from error
        finally:
            self._say_heard()

    def _why_late(self, seconds: float) -> str:
        late = "has not come" if self._here.missing([0]) else "has come, but waits for other ranks"
        return f"it {late} after {round(seconds * 1000)} ms"

    def _say_heard(self) -> None:
        try:
            self._heard.come(self._rank)
        except RuntimeError:  # rank 0 has gone with the store
            pass


def monitored_barrier(
    of: Any, number: int, limit: datetime.timedelta | float | None, all_ranks: bool
) -> None:
    """The barrier number `number` of the ranks of a Membership."""
    if of.size > 1:
        seconds = UNBOUND_S if limit is None else seconds_of(limit)
        Monitored(of.store, of.rank, of.size, number, of.gone).wait(seconds, all_ranks)
