# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions: one class for each cause that a program may want to tell apart.

Every exception carries ``code``, the library's error code (``enum fanin_error`` in fanin.h; 0 when
the library itself could not be used), and a text that names ranks or the switch.
"""

from __future__ import annotations


class FaninError(RuntimeError):
    """The base of all exceptions of this package."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[FaninError], tuple[str, int]]:
        return type(self), (str(self), self.code)


class LibraryError(FaninError):
    """libfanin was not found, or it is of another version."""


class InvalidError(FaninError, ValueError):
    """An argument is out of its range."""


class ConfigError(FaninError, ValueError):
    """Wrong configuration; the text says which variable, file or argument."""


class BusyError(FaninError):
    """Too many operations in flight: wait for one."""


class UnreachableError(FaninError, ConnectionError):
    """The switch does not answer, or is being stopped."""


class RestartedError(FaninError, ConnectionError):
    """The switch was restarted and does not know the job."""


class JoinTimeoutError(FaninError, TimeoutError):
    """Not every rank joined in time; the text says which are missing."""


class RankLostError(FaninError):
    """A rank died or stopped answering; the text names it."""


class RankLeftError(RankLostError):
    """A rank left the job while others still needed it; the text names it."""


class StalledError(FaninError, TimeoutError):
    """A rank is alive but did not take part in time; the text names it."""


class MismatchError(FaninError):
    """Ranks disagree about the number of elements, the type or the operation."""


class RefusedError(FaninError):
    """The switch refused the join: rank taken, switch full, other size or options, other version."""


class LaunchesError(RefusedError):
    """Two launches of the program use one job name at once; the text names rank and hosts."""


class ClosedError(FaninError):
    """The communicator was closed, or belongs to the process that forked this one."""


#: enum fanin_error -> class.  Codes that are not here are FaninError.
BY_CODE: dict[int, type[FaninError]] = {
    -1: InvalidError,
    -4: BusyError,
    -5: UnreachableError,
    -6: JoinTimeoutError,
    -7: RankLostError,
    -8: RankLeftError,
    -9: StalledError,
    -10: MismatchError,
    -11: RefusedError,
    -12: RefusedError,
    -13: RefusedError,
    -14: RefusedError,
    -15: RefusedError,
    -16: RestartedError,
    -17: RefusedError,
    -21: ClosedError,
    -22: RefusedError,
    -25: ConfigError,
    -26: RefusedError,
    -27: RefusedError,
    -30: UnreachableError,
    -31: LaunchesError,
}


def from_code(code: int, text: str) -> FaninError:
    """The exception for the library's error `code`, with `text`."""
    return BY_CODE.get(code, FaninError)(text, code)
