# SPDX-License-Identifier: Apache-2.0
"""`fanin probe` as a child process: what it prints, a line of JSON for each finding and for what
is measured.  src/cmd/doctor prints it; test/python/probe_lines.py has what each line says."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Dict, Iterator, List, Tuple

from ..shape import Bad, load

LINES_MAX = 256
LINE_BYTES = 1 << 20


class Ended(Exception):
    """The child has ended before it had told everything; `status` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"its probe ended early, with status {status}")
        self.status = status


def parse(line: bytes) -> Tuple[str, Dict[str, Any]]:
    """The kind of a line and what it says; Bad: it is none."""
    said = load(line)
    if not isinstance(said, dict) or len(said) != 1:
        raise Bad("expected an object with one member")
    ((kind, value),) = said.items()
    if not isinstance(value, dict):
        raise Bad("expected an object")
    return kind, value


def lines(flags: List[str]) -> Iterator[Tuple[str, Any]]:
    """What `fanin probe` with these flags prints, up to "end", and then waits for its end.

    Ended: it has ended before; Bad: it prints something else; OSError: it cannot be started."""
    command = [os.environ.get("FANIN", "fanin"), "probe", *flags]
    env = {name: value for name, value in os.environ.items() if name != "FANIN_VERSION"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        try:
            for _ in range(LINES_MAX):
                line = child.stdout.readline(LINE_BYTES)
                if not line:
                    raise Ended(child.wait())
                kind, of = parse(line)
                yield kind, of
                if kind == "end":
                    child.wait()
                    return
            raise Bad("too many lines")
        except BaseException:
            child.kill()
            raise
