# SPDX-License-Identifier: Apache-2.0
"""The last rates of each job, a value a look: as JSON, as a table, and drawn in a line."""

from __future__ import annotations

import math
import sys
from collections import deque

from . import cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

LOOKS = 60  # that are kept
JOBS_MAX = 256  # more are not kept
LEVELS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"


def drawn(values: list[float]) -> str:
    """A character a value, by its share of the largest; the lowest is 0 alone."""
    is_utf = "utf" in (sys.stdout.encoding or "").lower()
    levels, most = LEVELS if is_utf else ASCII, max(values, default=0)
    return "".join(levels[math.ceil(7 * (value / most)) if most else 0] for value in values)


class History:
    """Of jobs by name.  `unit` is that of their rates, and `text` writes one."""

    def __init__(self, unit: str, text: Callable[[float], str]) -> None:
        self.unit = unit
        self.text = text
        self._rates: dict[str, deque[float]] = {}

    def take(self, rates: dict[str, float]) -> None:
        """The rates of the jobs that there are; others' are forgotten."""
        kept = {job: self._rates[job] for job in rates if job in self._rates}
        for job in rates:
            if len(kept) < JOBS_MAX:
                kept.setdefault(job, deque(maxlen=LOOKS))
        for job, values in kept.items():
            values.append(rates[job])
        self._rates = kept

    def of(self, job: str) -> list[float]:
        """Its rates, the last one last."""
        return list(self._rates.get(job, ()))

    def told(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [
            {"job": job, "unit": self.unit, "values": list(values)}
            for job, values in self._rates.items()
        ]

    def lines(self, interval_s: int) -> list[str]:
        """The table of jobs that were seen more than once; [] if there are none."""
        seen = {job: list(values) for job, values in self._rates.items() if len(values) > 1}
        if not seen:
            return []
        last_s = max(map(len, seen.values())) * interval_s
        rows = [
            [job or "-", self.text(values[-1]), self.text(max(values)), drawn(values)]
            for job, values in seen.items()
        ]
        heads = ["JOB", "RATE", "MOST", f"LAST {last_s} s"]
        return ["", *cells.table([heads, *rows], (1, 2))]
