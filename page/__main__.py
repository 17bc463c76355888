# SPDX-License-Identifier: Apache-2.0
"""The generator of pages as a program, which `fanin sim --report` and `fanin plan --html` start:

python3 PAGE sim <RESULT.json >PAGE.html       the result that `fanin sim --json` writes
python3 PAGE plan <PLAN.json >PAGE.html        {"sub", "topology", "plan"}: a plan (picture.py)
python3 PAGE page <PAGE.json >PAGE.html        the description of a page (doc/reports.md)
"""

import json
import signal
import sys

import picture
import report
import sim


def whole(describe):
    return lambda given: report.whole(describe(given))


KINDS = {
    "sim": whole(sim.page),
    "plan": whole(picture.page),
    "page": report.whole,
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when the reader closes the pipe
    given = json.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(KINDS[sys.argv[1]](given).encode())


main()
