# SPDX-License-Identifier: Apache-2.0
"""The simulator itself: `fanin sim --engine`, or of flows flow.py, a child for each run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable

WRONG = 2  # exit status of a request that makes no sense

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


def _command(request: dict[str, Any]) -> list[str]:
    """What answers a request: of flows, flow.py."""
    if request.get("scenario", {}).get("level") != "flows":
        return [find_program(), "sim", "--engine"]
    return [sys.executable, "-I", "-S", "-B", os.path.join(_HERE, "__main__.py"), "flow"]


def ask(request: dict[str, Any], timeout: float | None = None) -> str:
    """The engine's answer, JSON.  subprocess.TimeoutExpired: it took longer."""
    done = subprocess.run(
        _command(request),
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        timeout=timeout,
        check=False,
    )
    if done.returncode < 0:  # as prlimit or a user ended it
        signal.signal(-done.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -done.returncode)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise EngineError(_cause(text), done.returncode == WRONG)
    return text


def ask_all(
    requests: list[dict[str, Any]],
    at_a_time: int = 0,
    step: Callable[[], None] | None = None,
    until: float | None = None,
) -> list[str]:
    """The answers to all requests, one a processor at a time unless the caller says how many.

    `step` is called after each; `until`: the time.monotonic() by which all have to end."""

    def one(request: dict[str, Any]) -> str:
        answer = ask(request, None if until is None else max(0.0, until - time.monotonic()))
        if step:
            step()
        return answer

    if len(requests) == 1:
        return [one(requests[0])]
    from concurrent.futures import ThreadPoolExecutor  # not for one run: it takes 10 ms

    with ThreadPoolExecutor(at_a_time or len(os.sched_getaffinity(0))) as pool:
        try:
            return list(pool.map(one, requests))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _cause(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return "the engine ended without an answer"
