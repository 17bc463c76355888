#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One line for each test of a pytest run: "passed|failed|skipped<TAB>NAME<TAB>SECONDS<TAB>NOTE".

    pytest-results.py RESULTS.xml        what "pytest --junit-xml" wrote

Exits 1 when there is no test in it.
"""

import sys
import xml.etree.ElementTree


def line(case):
    """One <testcase>."""
    status, note = "passed", ""
    for child in case:
        if child.tag in ("failure", "error"):
            status, note = "failed", child.get("message", "")
        elif child.tag == "skipped":
            status, note = "skipped", child.get("message", "")
    name = "%s::%s" % (case.get("classname", "").split(".")[-1], case.get("name"))
    words = " ".join((name + "\t" + note).replace("\n", " ").split(" ")).split("\t")
    return "%s\t%s\t%.0f\t%s" % (status, words[0], float(case.get("time", 0)), words[1][:100])


def main(path):
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    for case in cases:
        print(line(case))
    return 0 if cases else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
