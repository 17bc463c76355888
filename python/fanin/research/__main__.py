# SPDX-License-Identifier: Apache-2.0
"""The programs of this package: `python3 -m fanin.research sim ARGUMENT...`.

`fanin sim` starts this file by its path, which needs nothing else of the package fanin.
"""

import os
import signal
import sys

PROGRAMS = ("sim", "plan", "flow", "formats")


def main() -> int:
    """Run the program that the first argument names; its exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        print(f"usage: python3 -m fanin.research {'|'.join(PROGRAMS)} ...", file=sys.stderr)
        return 2
    package = __package__
    if not package:  # isolated, Python has no folder of its own in sys.path
        folder, package = os.path.split(os.path.dirname(os.path.realpath(__file__)))
        sys.path.insert(0, folder)
    module = __import__(f"{package}.{sys.argv[1]}", fromlist=["main"])
    try:
        status: int = module.main(sys.argv[2:])
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when the reader has gone
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        print(f"fanin: standard output: {error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
