# SPDX-License-Identifier: Apache-2.0
"""The log: lines with their time, to standard error; where that is the journal, to its socket.

Strangers can cause lines, so lines are bounded: a burst, then a rate; refusals have a bound of their
own, so that they displace no others.  A thread writes them, so that nobody else waits for who reads
standard error; lines that find no room, or nobody to read them, are lost and counted.
"""

from __future__ import annotations

import atexit
import os
import queue
import socket
import threading
import time
from dataclasses import dataclass
from typing import Dict, Optional

JOURNAL = "/run/systemd/journal/socket"
LINES_MAX = 8192  # that wait to be written
END_S = 1.0  # for those that wait when the program ends


@dataclass
class _Bound:
    """Lines of a kind: so many at once, then so many a second."""

    name: str
    burst: int
    a_second: float
    full_s: float = 0  # when a whole burst is permitted again
    omitted: int = 0  # since the last line

    def takes(self, now_s: float) -> bool:
        full_s = max(self.full_s, now_s)
        if full_s - now_s > (self.burst - 1) / self.a_second:
            self.omitted += 1
            return False
        self.full_s = full_s + 1 / self.a_second
        return True


def _journal() -> Optional[socket.socket]:
    """The journal's socket, if standard error is its stream."""
    try:
        device, inode = os.environ["JOURNAL_STREAM"].split(":")
        found = os.fstat(2)
        if (found.st_dev, found.st_ino) == (int(device), int(inode)):
            return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except (KeyError, ValueError, OSError):
        pass
    return None


class Log:
    """`write` takes a line and does not wait."""

    def __init__(self) -> None:
        self.lost = 0  # lines without room, or that could not be written
        self._unread = 0  # of these, not yet told
        self._bounds: Dict[bool, _Bound] = {
            True: _Bound("refusals", 200, 2),
            False: _Bound("rest", 2000, 20),
        }
        self._queue: queue.Queue[str] = queue.Queue(LINES_MAX)
        self._thread: Optional[threading.Thread] = None
        self._socket = _journal()

    def write(self, line: str) -> None:
        bound = self._bounds[line.startswith("refused: ")]
        if not bound.takes(time.monotonic()):
            return
        if bound.omitted:
            self._put(f"event=log_omitted lines={bound.omitted} of={bound.name}")
            bound.omitted = 0
        self._put(line)

    def _put(self, line: str) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            atexit.register(self.end)
        try:
            self._queue.put_nowait(_stamped(line))
        except queue.Full:
            self.lost += 1
            self._unread += 1

    def _run(self) -> None:
        while True:
            line = self._queue.get()
            self._write_one(line)
            if self._unread and self._queue.empty():
                lines, self._unread = self._unread, 0
                self._write_one(_stamped(f"event=log_omitted lines={lines} of=unread"))
            self._queue.task_done()

    def _write_one(self, line: str) -> None:
        if self._socket is not None:
            text = line.partition(" ")[2]
            entry = f"PRIORITY=6\nSYSLOG_IDENTIFIER=fanin\nMESSAGE={text}\n"
            try:
                self._socket.sendto(entry.encode(), socket.MSG_DONTWAIT, JOURNAL)
                return
            except OSError:
                pass  # a journal that is behind, or away, has the line by standard error
        try:
            left = (line + "\n").encode()
            while left:
                left = left[os.write(2, left) :]
        except OSError:
            self.lost += 1
            self._unread += 1

    def end(self) -> None:
        """Wait until all lines are written, END_S at most."""
        by_s = time.monotonic() + END_S
        while self._queue.unfinished_tasks and time.monotonic() < by_s:
            time.sleep(0.001)


def _stamped(line: str) -> str:
    now_s = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))
    return f"{stamp}.{int(now_s * 1000) % 1000:03d}Z {line}"
