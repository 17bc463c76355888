# SPDX-License-Identifier: Apache-2.0
"""`fanin top` and `fanin ps`: their flags, which src/cmd/top.c has read."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

from ...research.files import FileError
from ..flags import Wrong, parse
from . import here, query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SWITCHES_MAX = 32


def _parse(name: str, arguments: list[str]) -> SimpleNamespace:
    """The flags; Wrong: there is none such."""
    texts = dict.fromkeys("job switch controller page json".split(), "")
    numbers = {"pid": 0, "interval": 1}
    truths = dict.fromkeys("all_hosts merge here once".split(), False)
    values: dict[str, Any] = {**texts, **numbers, **truths}
    if name == "ps":
        values["json"] = False
    return SimpleNamespace(**parse(arguments, values))


def check(name: str, options: SimpleNamespace) -> list[str]:
    """The addresses of switches; Wrong: the options do not go together."""
    at = [address for address in options.switch.split(",") if address]
    if options.all_hosts and (not options.job or options.merge):
        more = ", and no --merge" if options.merge else ""
        raise Wrong(f"--all-hosts: expected --job JOB with it{more}")
    if at and options.controller:
        raise Wrong("--switch: expected ADDR:PORT of a running switch, or --controller PATH")
    if len(at) > SWITCHES_MAX:
        raise Wrong(f"--switch: {at[SWITCHES_MAX]}: expected at most {SWITCHES_MAX} switches")
    for number, address in enumerate(at):
        if address in at[:number]:
            raise Wrong(f"--switch: {address}: named twice: expected different ones")
    return at if name == "top" else []


def _top(options: SimpleNamespace, at: list[str]) -> int:
    """`fanin top`; the exit status."""
    from . import watch  # `fanin ps` does without

    try:
        watch.run(options, at)
    except query.Silent as error:
        which = "--controller: " if options.controller else ""
        print(f"fanin top: {which}{error}", file=sys.stderr)
        return 1
    return 0


def _run(name: str, arguments: list[str]) -> int:
    """Run "ps" or "top" with these flags; the exit status."""
    try:
        options = _parse(name, arguments)
        at = check(name, options)
        return here.ps(options) if name == "ps" else _top(options, at)
    except Wrong as error:
        print(f"fanin {name}: {error}", file=sys.stderr)
        return 2
    except (FileError, query.Silent) as error:
        print(f"fanin {name}: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on
    except OSError as error:
        print(
            f"fanin {name}: {error.filename or 'standard output'}: {error.strerror}",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        return 0
    return 1


def main(arguments: list[str]) -> int:
    """`fanin top`; the exit status."""
    return _run("top", arguments)


def ps(arguments: list[str]) -> int:
    """`fanin ps`; the exit status."""
    return _run("ps", arguments)
