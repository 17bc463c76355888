# SPDX-License-Identifier: Apache-2.0
"""The generator of pages as a program, which `fanin sim --report` and `fanin plan --html` start:

python3 PAGE sim <RESULT.json >PAGE.html       the result that `fanin sim --json` writes
python3 PAGE page <PAGE.json >PAGE.html        the description of a page (doc/reports.md)
"""

import json
import signal
import sys

import report
import sim

KINDS = {"sim": sim.page, "page": lambda page: page}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads has seen enough
    given = json.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(report.whole(KINDS[sys.argv[1]](given)).encode())


main()
