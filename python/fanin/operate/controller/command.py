# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: asks or serves.  src/cmd/controller.c has its options."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

from ...research.flags import Wrong, parse, texts
from ..top import query

OPTIONS: Dict[str, Any] = {
    **texts("algorithm sums_at topology listen metrics plan socket ask state key json"),
    **{"trees": 1, "wait": 0, "quiet": False},
}


def _ask(path: str, line: str) -> int:
    """Print the answer; the exit status."""
    try:
        text = query.ask_controller(path, line).decode(errors="replace")
    except query.Silent as error:
        print(f"fanin controller: --socket: {error}", file=sys.stderr)
        return 1
    is_wrong = text.startswith("error:")
    (sys.stderr if is_wrong else sys.stdout).write(text)
    return 2 if is_wrong else 0


def main(arguments: List[str]) -> int:
    """Run it; the exit status: 0 after SIGINT or SIGTERM, 1 when it could not start, or nobody
    answered, 2 when the topology or a plan made no sense."""
    try:
        options = parse(arguments, OPTIONS)
    except Wrong as error:
        print(f"fanin controller: {error}", file=sys.stderr)
        return 2
    if options.ask:
        return _ask(options.socket, options.ask)
    from .serve import serve  # what --ask does not need takes a while

    return serve(options)
