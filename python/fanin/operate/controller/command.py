# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: reads its options, and asks or serves."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from typing import List

from . import options

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
    answered, 2 when an option, the topology or a plan made no sense."""
    values = options.read(arguments)
    if values["ask"] and values["socket"]:
        return _ask(values["socket"], values["ask"])
    if values["ask"]:
        options.wrong("fanin controller: --ask: expected with --socket PATH")
    if not values["topology"]:
        options.wrong("fanin controller: expected TOPOLOGY.json, or a topology to make")
    if not values["listen"]:
        options.wrong(
            "fanin controller: --listen: expected ADDR:PORT, for instance --listen 10.8.0.1:7700"
        )
    if not values["key"] and os.environ.get("FANIN_CONTROLLER_KEY_FILE"):
        print(
            "fanin controller: FANIN_CONTROLLER_KEY_FILE is set, which only ranks read, so no job "
            "may be open; expected --key FILE, or FANIN_CONTROLLER_KEY_FILE unset",
            file=sys.stderr,
        )
        return 2
    from .serve import serve  # what --ask does not need takes a while

    return serve(values)
