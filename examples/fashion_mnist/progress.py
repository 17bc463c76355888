# SPDX-License-Identifier: Apache-2.0
"""What is shown while training goes on: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
from typing import Any

LINES_PER_EPOCH = 5

try:
    from tqdm import tqdm  # type: ignore[import]
except ModuleNotFoundError:
    tqdm = None


class Progress:
    """Of one epoch, on the rank that speaks; the others make a silent one."""

    def __init__(self, title: str, done: int, total: int, speaks: bool) -> None:
        self.title, self.done, self.total = title, done, total
        self.speaks = speaks
        self.every = max(1, -(-total // LINES_PER_EPOCH))
        self.bar: Any = None
        if speaks and tqdm is not None and sys.stderr.isatty():
            self.bar = tqdm(total=total, initial=done, desc=title, unit="step", leave=False)

    def step(self, loss: float) -> None:
        """One more is done; `loss` is this rank's."""
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            self.bar.update()
        elif self.speaks and self.done % self.every == 0 and self.done < self.total:
            say(f"  {self.title}, step {self.done} of {self.total}: loss {loss:.3f}")

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()


def say(text: str) -> None:
    """A line to stdout, at once: other ranks and launchers write to the same place."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
