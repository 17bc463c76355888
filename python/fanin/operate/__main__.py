# SPDX-License-Identifier: Apache-2.0
"""The commands of `fanin` that are Python: `python3 -I .../fanin/operate/__main__.py NAME ARG...`.

The program `fanin` executes this file by its path.  The package `fanin`, which loads libfanin, is
not imported: these commands need only the standard library.
"""

from __future__ import annotations

import os
import sys

COMMANDS = {
    "controller": ("controller", "main"),
    "top": ("top", "main"),
    "ps": ("top", "ps"),
    "doctor": ("forecast", "main"),
    "info": ("forecast", "info"),
}


def main() -> int:
    """Run the command that the first argument names; its exit status."""
    if "fanin" not in sys.modules:
        package = type(sys)("fanin")
        package.__path__ = [os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]
        sys.modules["fanin"] = package
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        print(f"fanin: expected one of: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    folder, function = COMMANDS[name]
    command = __import__(f"fanin.operate.{folder}.command", fromlist=[function])
    try:
        status: int = getattr(command, function)(sys.argv[2:])
        print(end="", flush=True)
        return status
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # somebody reads on
            where = error.filename or "standard output"
            print(f"fanin {name}: {where}: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left does not fail once more
        return 1


if __name__ == "__main__":
    sys.exit(main())
