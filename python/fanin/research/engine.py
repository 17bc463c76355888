# SPDX-License-Identifier: Apache-2.0
"""The simulator itself: `fanin sim --engine`, or of flows flow.py, as children."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Sequence

READ_BYTES = 1 << 20

_HERE = os.path.dirname(os.path.realpath(__file__))
_PACKAGE = os.path.dirname(_HERE)


chosen = ""  # the program, if a caller of the package names one


class EngineError(RuntimeError):
    """A run without a result; `wrong`: since its scenario makes no sense."""

    def __init__(self, text: str, wrong: bool = False) -> None:
        super().__init__(text)
        self.wrong = wrong


def find_program() -> str:
    """Where `fanin` is: what started this process, a wheel's, a checkout's, or in PATH."""
    places = [
        os.path.join(_PACKAGE, "bin", "fanin"),
        os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "build", "fanin"),
    ]
    given = chosen or os.environ.get("FANIN")
    for path in [given] if given else places:
        if os.access(path, os.X_OK):
            return path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and os.access(os.path.join(folder, "fanin"), os.X_OK):
            return os.path.join(folder, "fanin")
    raise FileNotFoundError(f"no program fanin: {', '.join(places)}, or in PATH")


def _is_flows(request: dict[str, Any]) -> bool:
    return bool(request.get("scenario", {}).get("level") == "flows")


class _Child:
    """A process that answers requests one after the other."""

    def __init__(self, flows: bool) -> None:
        command = [find_program(), "sim", "--engine"]
        if flows:
            command = [sys.executable, "-I", "-S", "-B", os.path.join(_HERE, "__main__.py"), "flow"]
        self.flows = flows
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _read(self, until: float | None) -> str:
        """What comes until a zero."""
        fd = self.process.stdout.fileno()  # type: ignore[union-attr]
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\0"):
            left = None if until is None else max(0.0, until - time.monotonic())
            if left is not None and not select.select([fd], [], [], left)[0]:
                raise subprocess.TimeoutExpired(self.process.args, left)
            parts.append(os.read(fd, READ_BYTES))
            if not parts[-1]:
                raise EngineError(f"the engine ended with {self._ended()}")
        return b"".join(parts)[:-1].decode("utf-8", "replace")

    def _ended(self) -> int:
        """The status of the process, which has ended; what ended it ends this process as well."""
        status = self.process.wait()
        if status < 0:  # as prlimit or a user did
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        return status

    def ask(self, request: dict[str, Any], until: float | None) -> str:
        """The answer, JSON."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise EngineError(f"the engine ended with {self._ended()}") from None
        text = self._read(until)
        if text.startswith('{\n "error": '):
            said = json.loads(text)
            raise EngineError(str(said["error"]), bool(said["wrong"]))
        return text

    def end(self) -> None:
        """End the process, which may be at work."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()  # type: ignore[union-attr]
            except BrokenPipeError:
                pass


def ask(request: dict[str, Any], timeout: float | None = None) -> str:
    """The engine's answer, JSON.  subprocess.TimeoutExpired: it took longer."""
    return ask_all([request], 1, None, None if timeout is None else time.monotonic() + timeout)[0]


def ask_all(
    requests: Sequence[dict[str, Any]],
    at_a_time: int = 0,
    step: Callable[[], None] | None = None,
    until: float | None = None,
) -> list[str]:
    """The answers to all requests, one a processor at a time unless the caller says how many.

    `step` is called after each; `until`: the time.monotonic() by which all have to end.  Of several
    failures the first request's is raised."""
    answers: list[str] = [""] * len(requests)
    failures: dict[int, BaseException] = {}
    numbers, lock = iter(range(len(requests))), threading.Lock()

    def work() -> None:
        child: _Child | None = None
        while not failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            try:
                if child is None or child.flows != _is_flows(requests[number]):
                    if child:
                        child.end()
                    child = _Child(_is_flows(requests[number]))
                answers[number] = child.ask(requests[number], until)
                if step:
                    step()
            except (EngineError, OSError, subprocess.SubprocessError) as error:
                failures[number] = error
        if child:
            child.end()

    many = min(at_a_time or len(os.sched_getaffinity(0)), len(requests))
    others = [threading.Thread(target=work, daemon=True) for _ in range(many - 1)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if failures:
        raise failures[min(failures)]
    return answers
