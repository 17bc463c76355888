# SPDX-License-Identifier: Apache-2.0
"""Which of two ways a group's sums take, fanin or Gloo: the program's own steps show the faster one.

A program that trains starts the same sums again and again: their sizes repeat with a *period*.  At one
place of it, or of a few periods, a sum starts when none before it is under way, on all ranks: there a
*step* begins, and the time to the next one is all that the sums between have cost the program.  Where
there is no such *quiet* place, times of starts tell nothing, and sums stay as they are.

A trial has steps of each way in turns, and the other way is taken until the next trial if it is clearly
faster.  Where neither is, as with steps that differ by themselves, the next trial has longer ones.

All ranks decide alike: by the number of sums so far and their sizes, which are equal on all ranks, and
by times and quiet places on which they have agreed.  Where there is such an answer to look at, a start
waits a moment for ranks that are LEAD sums behind, then all ranks do without it; otherwise it waits for
nobody.
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from typing import Callable, Optional, Protocol

LEAST_BYTES = 1 << 16  # smaller sums are fanin's, and not counted
RANKS_MAX = 64  # Gloo connects each rank with each
FIRST = 32  # sums before the first look for a period; at a quiet place none of as many was busy
PERIOD_MAX = 256  # sums of a step
PERIODS = 4  # that have to be alike
WINDOW = PERIODS * PERIOD_MAX  # sums that are looked at
LEAD = 16  # sums between a question to all ranks and the look at its answer
ROUNDS = 3  # of a trial: as many steps by fanin as by Gloo
TIMED = 2  # steps of each way in a round, after one that is not timed
STEPS = 2 * ROUNDS * (1 + TIMED)
CLEAR = 30  # pairs of 36 in which one way is faster: by chance 1 trial of 30 (Mann and Whitney)
LONGER = 6  # times, after a trial that shows nothing
SHARE = 0.01  # of the time, that trials may waste
REST_MIN, REST_MAX = 100, 1_000_000  # periods between trials
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


def place_of(sizes: list[int], busy: list[float]) -> tuple[int, int]:
    """The smallest period with a place at which no sum was busy, and the number of sums since the last one
    there; 0, 0: there is none."""
    least, back = period_of(sizes), busy[::-1]
    for period in range(least, min(PERIOD_MAX, len(sizes) // PERIODS) + 1, least) if least else ():
        last = back[: max(FIRST, PERIODS * period)]
        quiet = [place for place in range(period) if not any(last[place::period])]
        if quiet:
            before = [sum(back[place::period]) for place in quiet]
            return period, quiet[before.index(min(before))]
    return 0, 0


def is_gloos(step: int) -> bool:
    """Whether a step of a trial goes by Gloo: rounds change places, so that no period of their own length,
    and nothing that becomes slower or faster, is in the steps of one way alone."""
    return (step // (1 + TIMED) + 1) // 2 % 2 == 1


def is_timed(step: int) -> bool:
    """Whether it follows a step of its own way."""
    return step % (1 + TIMED) > 0


def times_of(times: list[float], by_gloo: bool) -> list[float]:
    """Of the timed steps of a trial that went this way."""
    steps = enumerate(times)
    return [time for step, time in steps if is_timed(step) and is_gloos(step) == by_gloo]


def is_faster(one: list[float], other: list[float], share: float = 1.0) -> bool:
    """Whether times of a trial are clearly below this part of others."""
    return sum(mine < share * theirs for mine in one for theirs in other) >= CLEAR


class Learner:
    """One group's.  `next` is called before each sum, in their order, and `started` after its start."""

    def __init__(self, ways: Ways, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_gloo = False  #: between trials
        self.trials = 0  #: that have come to their end
        self.off = False  #: there will be none
        self._ways = ways
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0  # sums so far
        self._look = FIRST  # the count at which a trial may begin
        self._sizes: list[int] = []  # the last ones
        self._busy: list[float] = []  # 1: others were under way when it started
        self._asked: Answer | None = None
        self._then: Callable[[list[float]], None] = self._decide  # what the answer is for
        self._due = 0  # the count at which the answer is looked at
        self._questions = 0
        self._connecting = False
        self._period = 0  # of the last trial
        self._many = 1  # periods of a step, if there is room
        self._pattern: list[int] = []  # sizes of a step of the trial in progress
        self._began = 0  # the count at which that begins
        self._at = 0.0  # when the last sum was to start
        self._starts: list[tuple[float, float]] = []  # of its steps: when, and whether busy
        self._rest = REST_MIN  # periods between trials, sums between looks for a period

    def next(self, size: int) -> bool:
        """Whether the next sum, of `size` bytes, goes by Gloo."""
        with self._lock:
            if self._asked is not None and self._count >= self._due:
                answer = self._asked()
                self._asked = None
                if answer is None:
                    self._later()
                else:
                    self._then(answer)
            self._at = self._clock()
            step, place = self._place()
            is_tried = 0 <= step < STEPS and size == self._pattern[place]
            return is_gloos(step) if is_tried else self.by_gloo

    def started(self, size: int, busy: bool) -> None:
        """That sum has started, while others were under way (`busy`) or none.  One that could not start is
        none: others may have started theirs, and wait for it."""
        with self._lock:
            self._sizes.append(size)
            self._busy.append(float(busy))
            if len(self._sizes) > 2 * WINDOW:
                del self._sizes[:WINDOW], self._busy[:WINDOW]
            if self._pattern:
                self._try(size)
            elif self._asked is None and self._count >= self._look:
                self._find()
            self._count += 1

    def _place(self) -> tuple[int, int]:
        """Of the next sum: the step of the trial, below 0 before that begins, and its place there."""
        return divmod(self._count - self._began, len(self._pattern)) if self._pattern else (-1, 0)

    def _find(self) -> None:
        """Ask for a trial if the sums show a period."""
        if not period_of(self._sizes):
            self._later()
        elif not self._connecting:
            self._connecting, self._look = True, self._count + LEAD
            self._ways.connect()
        else:
            begin = functools.partial(self._begin, self._sizes[-WINDOW:], self._count)
            self._ask([self._ways.connected(), *self._busy[-WINDOW:]], begin)

    def _later(self) -> None:
        """Look for a period again, each time after twice as many sums."""
        self._look, self._rest = self._count + self._rest, min(REST_MAX, 2 * self._rest)

    def _ask(self, values: list[float], then: Callable[[list[float]], None]) -> None:
        self._asked, self._due, self._then = self._ways.agree(values), self._count + LEAD, then

    def _begin(self, sizes: list[int], last: int, answer: list[float]) -> None:
        """A trial, at the next quiet place of sums of which number `last` was the last one, if all ranks are
        connected."""
        state, *busy = answer
        self._questions += state == PENDING
        if state == PENDING and self._questions < QUESTIONS_MAX:
            self._look = self._count + (LEAD << self._questions)
            return
        self.off = state != READY
        self._period, place = place_of(sizes, busy)
        if self.off or not self._period:
            self._later()
            return
        until = len(sizes) - 1 - place
        many = max(1, min(self._many, PERIOD_MAX // self._period))
        self._pattern = many * sizes[until - self._period : until]
        self._began = self._count + (last - place - self._count) % self._period
        self._starts = []

    def _try(self, size: int) -> None:
        """One sum of a trial, which ends where the sizes are not the period's any more."""
        step, place = self._place()
        if size != self._pattern[place]:
            self._pattern = []
            self._later()
        elif step >= 0 and place == 0:
            self._starts.append((self._at, self._busy[-1]))
            if step == STEPS:
                begun, busy = zip(*self._starts)
                self._many, self._pattern = len(self._pattern) // self._period, []
                times = [end - begin for begin, end in zip(begun, begun[1:])]
                self._ask([max(busy), *times], self._decide)

    def _decide(self, answer: list[float]) -> None:
        """After a trial: the way, and the sums until the next one."""
        busy, *times = answer
        if busy:
            self._later()
            return
        fanin, gloo = (times_of(times, by_gloo) for by_gloo in (False, True))
        back, on = is_faster(fanin, gloo), is_faster(gloo, fanin, MARGIN)
        by_gloo = not back if self.by_gloo else on
        best, other = sorted([statistics.median(fanin), statistics.median(gloo)])
        is_sure = by_gloo == self.by_gloo and (back or on or best > MARGIN * other)
        wasted = STEPS / 2 * (other - best) / (SHARE * best) * self._many if best > 0 else 0
        least = 2 * self._rest if is_sure else REST_MIN
        self._rest = round(min(REST_MAX, max(least, wasted)))
        self._look = self._count + self._rest * self._period
        if not (back or on):
            self._many = min(PERIOD_MAX, LONGER * self._many)
        self.by_gloo = by_gloo
        self.trials += 1
