# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: asks or serves.  src/cmd/controller.c has its options."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List

from ..flags import Wrong, parse
from ..top import query

TEXTS = "algorithm sums_at topology listen metrics plan socket ask state key json".split()
NUMBERS = {"trees": 1, "wait": 0}


def _ask(path: str, line: str) -> int:
    """Print the answer; the exit status."""
    try:
        text = query.ask_controller(path, line).decode(errors="replace")
    except query.Silent as error:
        print(f"fanin controller: --socket: {error}", file=sys.stderr)
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
