# SPDX-License-Identifier: Apache-2.0
"""`fanin top` and `fanin ps`: their flags, which src/cmd/top.c has read."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from ...research.files import FileError
from ...research.flags import Wrong, parse, texts
from . import here, query

SWITCHES_MAX = 32
OPTIONS = {
    **texts("job switch controller page json"),
    **{"pid": 0, "interval": 1},
    **dict.fromkeys("all_hosts merge here once".split(), False),
}


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


def _run(name: str, arguments: list[str]) -> int:
    """Run "ps" or "top" with these flags; the exit status."""
    try:
        options = parse(arguments, {**OPTIONS, "json": False} if name == "ps" else OPTIONS)
        at = check(name, options)
        if name == "ps":
            return here.ps(options)
        from . import watch  # `fanin ps` does without

        watch.run(options, at)
        return 0
    except Wrong as error:
        print(f"fanin {name}: {error}", file=sys.stderr)
        return 2
    except (FileError, query.Silent) as error:
        which = "--controller: " if options.controller and isinstance(error, query.Silent) else ""
        print(f"fanin {name}: {which}{error}", file=sys.stderr)
    return 1


def main(arguments: list[str]) -> int:
    """`fanin top`; the exit status."""
    return _run("top", arguments)


def ps(arguments: list[str]) -> int:
    """`fanin ps`; the exit status."""
    return _run("ps", arguments)
