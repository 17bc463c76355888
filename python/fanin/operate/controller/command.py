# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: asks or serves.  src/cmd/controller.c has its options."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from typing import Any, Dict, List

from ..flags import Wrong, parse

TEXTS = "algorithm sums_at topology listen metrics plan socket ask state key json".split()
NUMBERS = {"seed": 1, "trees": 1, "wait": 0}
PATIENCE_S = 30  # a controller that plans answers afterwards
ANSWER_BYTES_MAX = 256 << 20


def _answer(path: str, line: str) -> str:
    """The answer of the controller there; OSError: there is none."""
    by_s = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE_S)
        s.connect(path)
        s.sendall(line.encode(errors="surrogateescape") + b"\n")
        found = bytearray()
        while part := s.recv(65536):
            found += part
            if len(found) > ANSWER_BYTES_MAX or time.monotonic() > by_s:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    if not found:
        raise OSError(0, "no answer")
    if not found.endswith(b"\n"):  # a part of an answer
        raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return found.decode(errors="replace")


def _ask(path: str, line: str) -> int:
    """Print the answer; the exit status."""
    try:
        text = _answer(path, line)
    except OSError as error:
        print(
            f"fanin controller: --socket: {path}: {error.strerror or error}; does a controller run "
            "there with that --socket?",
            file=sys.stderr,
        )
        return 1
    is_wrong = text.startswith("error:")
    to = sys.stderr if is_wrong else sys.stdout
    try:
        to.write(text)
        to.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())
        print(f"fanin: standard output: {error.strerror}", file=sys.stderr)
        return 1
    return 2 if is_wrong else 0


def main(arguments: List[str]) -> int:
    """Run it; the exit status: 0 after SIGINT or SIGTERM, 1 when it could not start, or nobody
    answered, 2 when the topology or a plan made no sense."""
    defaults: Dict[str, Any] = {**dict.fromkeys(TEXTS, ""), **NUMBERS, "quiet": False}
    try:
        values = parse(arguments, defaults)
    except Wrong as error:
        print(f"fanin controller: {error}", file=sys.stderr)
        return 2
    if values["ask"]:
        return _ask(values["socket"], values["ask"])
    from .serve import serve  # what --ask does not need takes a while

    return serve(values)
