# SPDX-License-Identifier: Apache-2.0
"""The programs of this package: `python3 -m fanin.research sim ARGUMENT...`.

`fanin sim` starts this file by its path, which needs nothing else of the package fanin.
"""

import os
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
    status: int = module.main(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
