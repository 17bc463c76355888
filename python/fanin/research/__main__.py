# SPDX-License-Identifier: Apache-2.0
"""The programs of this package: `python3 -m fanin.research sim ARGUMENT...`.

`fanin sim` starts this file by its path, which needs nothing else of the package fanin.
"""

import sys
from pathlib import Path

PROGRAMS = ("sim",)


def main() -> int:
    """Run the program that the first argument names; its exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        print(f"usage: python3 -m fanin.research {'|'.join(PROGRAMS)} ...", file=sys.stderr)
        return 2
    if __package__:
        from . import sim

        return sim.main(sys.argv[2:])
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here.parent))  # isolated, Python has no folder of its own there
    module = __import__(f"{here.name}.sim", fromlist=["main"])
    status: int = module.main(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
