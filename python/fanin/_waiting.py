# SPDX-License-Identifier: Apache-2.0
"""What a join waits for, told to the logger "fanin" while it waits: the library calls `waiting` after two
seconds and then every five, on the thread that joins; and once for whom an operation waits that has
made no progress for 30 s."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
from typing import Any

from . import _launcher

logger = logging.getLogger("fanin")


class _Join(threading.local):
    """This thread's."""

    said = False
    interrupt: BaseException | None = None  # what a callback of C cannot raise


_join = _Join()


def _level() -> int:
    """One rank of each host warns: what it cannot reach others of its host cannot reach, either."""
    return logging.WARNING if os.environ.get("LOCAL_RANK", "0") == "0" else logging.DEBUG


def tell(rank: int, text: str) -> None:
    """A rank waits for something else than the library's join."""
    logger.log(_level(), "fanin: rank %d: %s", rank, text)


def _tell(rank: int | None, text: bytes | None) -> None:
    try:
        who = f"rank {rank - 1}: " if rank else ""
        _join.said |= not (text or b"").startswith(b"FANIN_")  # a variable that nothing reads
        logger.log(_level(), "fanin: %s%s", who, (text or b"").decode(errors="replace"))
    except BaseException as error:  # such as KeyboardInterrupt
        _join.interrupt = error


_CALL: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(_tell)  # never freed


def callback() -> int:
    """For the library: fanin_options.waiting."""
    found = ctypes.cast(_CALL, ctypes.c_void_p).value
    assert found is not None
    return found


def argument(rank: int | None) -> int | None:
    """The same: fanin_options.waiting_arg, which _tell gets."""
    if rank is None:
        told = _launcher.rank(os.environ)
        rank = int(told) if told.isdecimal() else -1
    return rank + 1 if rank >= 0 else None


def _tell_long(_: int | None, text: bytes | None) -> None:
    """On a thread of the library's."""
    logger.log(_level(), "fanin: %s", (text or b"").decode(errors="replace"))


_CALL_LONG: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(_tell_long)
_watched = threading.Event()


def watch(library: ctypes.CDLL) -> None:
    """Have operations that wait for long logged, until the interpreter ends."""
    if _watched.is_set():
        return
    _watched.set()
    library.fanin_on_wait(ctypes.cast(_CALL_LONG, ctypes.c_void_p), None)
    atexit.register(library.fanin_on_wait, None, None)


def begin() -> None:
    """A communicator is about to be made on this thread."""
    _join.said, _join.interrupt = False, None


def end(rank: int) -> None:
    """It is made: if it was said that it waits, it is said that it does no more."""
    if _join.interrupt is not None:
        raise _join.interrupt
    if _join.said:
        logger.log(_level(), "fanin: rank %d: all ranks have joined", rank)
