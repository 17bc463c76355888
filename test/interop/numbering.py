# SPDX-License-Identifier: Apache-2.0
"""Results that have not come, by their numbers: doc/protocol/recovery.md, section 6.8."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List

MOST_AT_ONCE, MOST_TIMES, MOST_ASKED, MOST_LATER = 4, 4, 64, 48
LONGEST_STEP = 64


@dataclass
class Hole:
    later: int = 0  # by how much the highest number that has come is higher
    asked: int = 0  # times
    sent: int = 0  # DATA sent before the last MISS


class Holes:
    """The numbers below the highest one heard that have not come."""

    def __init__(self) -> None:
        self.holes: Dict[int, Hole] = {}  # lowest number first
        self.later = 3

    def clear(self) -> None:
        self.holes.clear()

    def arrived(self, number: int, heard: int, replay: bool) -> bool:
        """False if so much is missing that nothing should be asked for."""
        step = (number - heard) & 0xFFFF
        if step < 0x8000:
            if step >= LONGEST_STEP:
                return False
            for i in range(1, step):
                self.holes[(heard + i) & 0xFFFF] = Hole()
        else:
            hole = self.holes.pop(number, None)
            if hole and hole.asked and not replay:
                self.later = min(2 * self.later, MOST_LATER)
        for missing, hole in self.holes.items():
            step = (number - missing) & 0xFFFF
            if step < 0x8000:
                hole.later = max(hole.later, step)
        return sum(hole.asked > 0 for hole in self.holes.values()) <= MOST_ASKED

    def overtaken(self, sent: int, answered: int) -> List[int]:
        """Numbers to ask for now, the lowest first.  So many DATA have been sent; a result has
        come for number `answered` of them."""
        for number in [n for n, h in self.holes.items() if h.asked == MOST_TIMES]:
            del self.holes[number]  # the timer asks for the fragment
        wanted: List[int] = []
        for number, hole in self.holes.items():
            due = answered >= hole.sent + 3 if hole.asked else hole.later >= self.later
            near = not wanted or (number - wanted[0]) & 0xFFFF < 64
            if due and near and len(wanted) < MOST_AT_ONCE:
                wanted.append(number)
                hole.asked += 1
                hole.sent = sent
        return wanted
