# SPDX-License-Identifier: Apache-2.0
"""An open communicator of the library: its handle, and the operations that nobody holds any more."""

from __future__ import annotations

import collections
import ctypes
import threading
import warnings
from typing import Any

from .errors import ClosedError, from_code

PENDING = -24  # FANIN_E_PENDING
CLOSED = -21  # FANIN_E_CLOSED
RANK_LEFT = -8  # FANIN_E_RANK_LEFT


class Open:
    """What must be freed, apart from Communicator so that a finalizer can hold it.

    `abandoned` are operations that nobody holds any more and that may not have ended: the library
    still uses their memory.  Garbage collection adds to it at any moment, even while this thread
    holds the lock, so it is a deque and changes without the lock.
    """

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self.library = library
        self.handle = handle
        self.lock = threading.RLock()  # calls on `handle` and closing exclude each other...
        self.calls = 0  # ...and these are under way without it
        self.returned = threading.Condition(self.lock)
        self.open = True
        self.last_error = ""  # of the communicator, once closed
        self.abandoned: collections.deque[tuple[int, Any]] = collections.deque()

    def abandon(self, op: int, owners: Any) -> None:
        """Free `op` when it has ended, and keep `owners` until then."""
        self.abandoned.append((op, owners))
        if not self.open:
            self.reap()

    def reap(self) -> None:
        """Free the abandoned operations that have ended."""
        for _ in range(len(self.abandoned)):
            try:
                op, owners = self.abandoned.popleft()
            except IndexError:  # another thread was quicker
                return
            if self.library.fanin_op_test(op) == PENDING:
                self.abandoned.append((op, owners))
            else:
                self.library.fanin_op_free(op)

    def error(self) -> str:
        """What ended the communicator; "" while it works."""
        with self.lock:
            if not self.open:
                return self.last_error
            return str(self.library.fanin_comm_error(self.handle).decode(errors="replace"))

    def enter(self) -> None:
        """Until `leave` it is not closed, though other calls may use it.  ClosedError: it is already."""
        with self.lock:
            if not self.open:
                raise ClosedError("the communicator is closed", CLOSED)
            self.calls += 1

    def leave(self) -> None:
        """As many times as `enter`."""
        with self.lock:
            self.calls -= 1
            if not self.open:
                self.returned.notify_all()

    def close(self) -> None:
        """Leave the job and free everything.  Repeating it does nothing."""
        with self.lock:
            if not self.open:
                return
            self.last_error = self.error()
            self.open = False
            while self.calls:
                self.returned.wait()
            self.library.fanin_comm_destroy(self.handle)
        warn_of_files(self.library)
        self.reap()


_warned = threading.Event()  #: of a file, once in a process


def warn_of_files(library: ctypes.CDLL) -> None:
    """Warn of a file of FANIN_TRACE or FANIN_METRICS that could not be written."""
    text = library.fanin_file_error().decode(errors="replace")
    if text and not _warned.is_set():
        _warned.set()
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def sentence(opened: Open, code: int) -> str:
    """What ended an operation: the communicator's sentence if there is one."""
    text = "" if code == CLOSED else opened.error()
    return text or str(opened.library.fanin_strerror(code).decode())


class Calling:
    """The open communicator, not to be closed while the block runs, which other calls may."""

    def __init__(self, one: Open) -> None:
        self._opened = one

    def __enter__(self) -> Open:
        self._opened.enter()
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._opened.leave()


def opened(library: ctypes.CDLL, code: int, handle: ctypes.c_void_p) -> Open:
    """What a function has made that makes communicators, or an exception."""
    if code == 0 and handle.value is not None:
        return Open(library, handle.value)
    text = ""
    if handle.value is not None:
        text = library.fanin_comm_error(handle).decode(errors="replace")
        library.fanin_comm_destroy(handle)
    raise from_code(code, text or library.fanin_strerror(code).decode())


class Locked:
    """The open communicator, not to be closed while the block runs."""

    def __init__(self, opened: Open) -> None:
        self._opened = opened

    def __enter__(self) -> Open:
        self._opened.lock.acquire()
        if not self._opened.open:
            self._opened.lock.release()
            raise ClosedError("the communicator is closed", CLOSED)
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._opened.lock.release()
