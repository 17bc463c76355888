# SPDX-License-Identifier: Apache-2.0
"""How a run ends that cannot go on: one line for the user, and an exit code."""

from __future__ import annotations

USAGE = 2  # wrong option, file or data: running it again changes nothing
FAILED = 1


class ExampleError(Exception):
    """The run is over; the text says what happened, where, and what to do."""

    def __init__(self, text: str, exit_code: int = USAGE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class LostError(ExampleError):
    """Communication broke: a rank or the switch is gone.  The process group may be stuck."""

    def __init__(self, text: str) -> None:
        super().__init__(text, FAILED)
