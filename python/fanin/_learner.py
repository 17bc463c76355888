# SPDX-License-Identifier: Apache-2.0
"""Which of two ways a group's sums take, fanin or Gloo: the program's own steps show the faster one.

A program that trains starts the same sums again and again: their sizes repeat with a *period*, and the
time from one period's first sum to the next one's is a *step*, with all that the program does besides.
A trial has steps of each way in turns, takes the median step of each, and the faster way until the
next trial.

All ranks decide alike: by the number of sums so far and their sizes, which are equal on all ranks, and
by times on which they have agreed.  Where there is such an answer to look at, a start waits a moment for
ranks that are LEAD sums behind, then all ranks do without it; otherwise it waits for nobody.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from typing import Callable, Optional, Protocol

LEAST_BYTES = 1 << 16  # smaller sums are fanin's, and not counted
RANKS_MAX = 64  # Gloo connects each rank with each
FIRST = 32  # sums before the first look for a period
PERIOD_MAX = 256  # sums of a step
PERIODS = 4  # that have to be alike
LEAD = 16  # sums between a question to all ranks and the look at its answer
ROUNDS = 2  # of a trial: steps by fanin, then as many by Gloo
TIMED = 2  # steps of each way in a round, after one that is not timed
ROUND_STEPS = 2 * (1 + TIMED)
STEPS = ROUNDS * ROUND_STEPS
SHARE = 0.01  # of the time, that trials may waste
REST_MIN, REST_MAX = 100, 1_000_000  # steps between trials
MARGIN = 0.97  # Gloo is taken below this part of fanin's time, and fanin again at Gloo's
QUESTIONS_MAX = 16  # whether Gloo is connected, each after twice as many sums
READY, PENDING, FAILED = 0.0, 1.0, 2.0  # the answers; the largest counts
Answer = Callable[[], Optional[list[float]]]


class Ways(Protocol):
    """What a learner asks of a group."""

    def connect(self) -> None:
        """Begin to connect the ranks by Gloo."""

    def connected(self) -> float:
        """READY, PENDING or FAILED."""

    def agree(self, values: list[float]) -> Answer:
        """Start to find the largest of each on all ranks; what waits for it a moment.  Its None, on all ranks:
        one has waited in vain."""


def period_of(sizes: list[int]) -> int:
    """The smallest one with which the last PERIODS of them are alike; 0: there is none."""
    for period in range(1, min(PERIOD_MAX, len(sizes) // PERIODS) + 1):
        last = sizes[-period * PERIODS :]
        if last[period:] == last[:-period]:
            return period
    return 0


def is_gloos(step: int) -> bool:
    """Whether a step of a trial goes by Gloo."""
    return step % ROUND_STEPS >= 1 + TIMED


def is_timed(step: int) -> bool:
    """Whether it follows a step of its own way."""
    return step % (1 + TIMED) > 0


def median_of(times: list[float], by_gloo: bool) -> float:
    """Of the timed steps of a trial that went this way."""
    return statistics.median(
        time for step, time in enumerate(times) if is_timed(step) and is_gloos(step) == by_gloo
    )


class Learner:
    """One group's.  `next` is called for each sum, in their order."""

    def __init__(self, ways: Ways, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_gloo = False  #: between trials
        self.trials = 0  #: that have come to their end
        self._ways = ways
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0  # sums so far
        self._look = FIRST  # the count at which a trial may begin
        self._sizes: list[int] = []  # the last ones
        self._asked: Answer | None = None
        self._due = 0  # the count at which the answer is looked at
        self._questions = 0
        self._connecting = self._connected = self._off = False
        self._period = 0  # of the last trial
        self._pattern: list[int] = []  # sizes of a step of the trial in progress
        self._began = 0  # the count at which that has begun
        self._starts: list[float] = []  # when its steps have
        self._rest = REST_MIN  # steps between trials, sums between looks for a period

    def next(self, size: int) -> bool:
        """Whether the next sum, of `size` bytes, goes by Gloo."""
        if self._off:
            return False
        with self._lock:
            by_gloo = self._next(size)
            self._count += 1
        return by_gloo

    def _next(self, size: int) -> bool:
        if self._asked is not None and self._count >= self._due:
            answer, self._asked = self._asked(), None
            if answer is None:
                self._later()
            else:
                self._decide(answer) if self._connected else self._begin(answer[0])
        if self._pattern:
            return self._try(size)
        self._sizes.append(size)
        if len(self._sizes) > 2 * PERIODS * PERIOD_MAX:
            del self._sizes[: PERIODS * PERIOD_MAX]
        if self._asked is None and self._count >= self._look and not self._off:
            self._find()
        return self.by_gloo

    def _find(self) -> None:
        """Begin a trial with the next sum if those before it show a period."""
        period = period_of(self._sizes)
        if not period:
            self._later()
        elif not self._connected:
            if not self._connecting:
                self._connecting, self._look = True, self._count + LEAD
                self._ways.connect()
            else:
                self._ask([self._ways.connected()])
        else:
            self._pattern, self._period = self._sizes[-period:], period
            self._began, self._starts = self._count + 1, []

    def _later(self) -> None:
        """Look for a period again, each time after twice as many sums."""
        self._look, self._rest = self._count + self._rest, min(REST_MAX, 2 * self._rest)

    def _ask(self, values: list[float]) -> None:
        self._asked, self._due = self._ways.agree(values), self._count + LEAD

    def _begin(self, state: float) -> None:
        """Once all ranks know whether all are connected."""
        self._questions += 1
        if state == PENDING and self._questions < QUESTIONS_MAX:
            self._look = self._count + (LEAD << self._questions)
            return
        self._connected, self._off = state == READY, state != READY

    def _try(self, size: int) -> bool:
        """One sum of a trial, which ends where the sizes are not the period's any more."""
        step, place = divmod(self._count - self._began, len(self._pattern))
        if size != self._pattern[place]:
            self._pattern, self._sizes = [], [size]
            self._later()
            return self.by_gloo
        if place == 0:
            self._starts.append(self._clock())
        if step < STEPS:
            return is_gloos(step)
        self._sizes, self._pattern = [*PERIODS * self._pattern, size], []
        self._ask([end - begin for begin, end in zip(self._starts, self._starts[1:])])
        return self.by_gloo

    def _decide(self, times: list[float]) -> None:
        """After a trial: the way, and the sums until the next one."""
        fanin, gloo = (median_of(times, by_gloo) for by_gloo in (False, True))
        by_gloo = gloo < fanin * (1.0 if self.by_gloo else MARGIN)
        least = 2 * self._rest if by_gloo == self.by_gloo else REST_MIN
        best = min(fanin, gloo)
        wasted = math.fsum(times) - STEPS * best  # the same by each Python
        self._rest = round(min(REST_MAX, max(least, wasted / (SHARE * best) if best > 0 else 0)))
        self._look = self._count + self._rest * self._period
        self.by_gloo = by_gloo
        self.trials += 1
