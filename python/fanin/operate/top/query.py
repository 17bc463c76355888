# SPDX-License-Identifier: Apache-2.0
"""Questions to switches, servers and controllers: by `fanin query`, which speaks their protocol,
and on a controller's socket.

Modules that only some questions need are loaded for these: `fanin ps` is to take no longer.
"""

from __future__ import annotations

import os
import re
import time

from .. import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # What a line of `fanin query` says: "at", "error", "jobs", "slots", "ranks" (src/cmd/query.c).
    Switch = dict[str, Any]

AT_ONCE = 64  # addresses of one `fanin query`
MORE_S = 60.0  # for `fanin query` beyond what it was given
ANSWER_BYTES = 256 << 20  # of a controller of 4,096 nodes
CONTROLLER_S = 30.0  # a controller that plans answers afterwards
_ADDRESS = re.compile(
    r"([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-fA-F:.]+(%[\w.-]+)?\]):[0-9]{1,5}", re.A
)


class Silent(Exception):
    """Nobody answers, or not as expected."""


def is_address(text: str) -> bool:
    """Is it a numeric address with a port?  Names are not looked up because a process says so."""
    return _ADDRESS.fullmatch(text) is not None


def _run(flags: list[str], within_ms: int) -> list[Switch]:
    """What `fanin query` prints with these flags."""
    import subprocess

    from ...research import engine

    patience = within_ms / 1000 + MORE_S if within_ms else None
    try:
        done = subprocess.run(
            [engine.find_program(), "query", *flags],
            stdout=subprocess.PIPE,
            timeout=patience,
            check=True,
        )
        return [shape.load(line) for line in done.stdout.splitlines()]
    except (OSError, subprocess.SubprocessError, shape.Bad) as error:
        raise Silent(f"fanin query: {error}") from error


def ask(
    addresses: list[str],
    within_ms: int = 0,
    jobs: bool = False,
) -> list[Switch]:
    """What the switches at these addresses tell, each within the time of all; [] of none.

    jobs: of jobs alone."""
    told: list[Switch] = []
    by = time.monotonic() + within_ms / 1000
    for first in range(0, len(addresses), AT_ONCE):
        left_ms = max(1, int(1000 * (by - time.monotonic()))) if within_ms else 0
        flags = [f"--switch={address}" for address in addresses[first : first + AT_ONCE]]
        flags += [f"--within={left_ms}"] if left_ms else []
        flags += ["--jobs"] if jobs else []
        told += _run(flags, left_ms)
    return told


def ask_controller(path: str, line: str) -> bytes:
    """The answer of the controller that has its --socket there; Silent: there is none."""
    import errno
    import socket

    by = time.monotonic() + CONTROLLER_S
    text = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(CONTROLLER_S)
            talk.connect(path)
            talk.sendall(line.encode(errors="surrogateescape") + b"\n")
            while len(text) < ANSWER_BYTES and time.monotonic() < by:
                part = talk.recv(1 << 16)
                if not part:
                    break
                text += part
        if not text:
            raise OSError(None, "no answer")
        if not text.endswith(b"\n"):
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    except OSError as error:
        what = error.strerror or str(error)
        raise Silent(f"{path}: {what}; does a controller run there with that --socket?") from error
    return bytes(text)
