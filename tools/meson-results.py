#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One line for each test of some suites: how it ended, or that it did not run.

    meson-results.py FOLDER LOG.json LABEL SUITE...
    meson-results.py FOLDER LOG.json LABEL --tests NAME...
    meson-results.py --named FOLDER PREFIX      only the names of unit programs that begin so
    meson-results.py --programs FOLDER SUITE    the programs that tests of the suite are, for ninja

FOLDER is a build folder, LOG.json what "meson test --logbase" left there.  Prints
"passed|failed|skipped<TAB>NAME (LABEL)<TAB>SECONDS<TAB>NOTE" for every test that the
build knows in the suites, so one that Meson never started is a failure and not a
gap.  NOTE of a failed one ends with what it wrote about that.  Exits 1 when any failed, or when a suite has no test at all.
"""

import json
import os
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
TOLD = 900  # characters of a failed test's output


def tests(folder):
    """What the build knows of each of its tests."""
    with open(os.path.join(folder, "meson-info", "intro-tests.json"), encoding="utf-8") as info:
        return json.load(info)


def named(folder, prefix):
    """Tests whose program has the name of the test, which is the prefix, or begins with it."""
    for test in tests(folder):
        name = test["name"]
        if os.path.basename(test["cmd"][0]) == name and re.match(prefix + "([_-]|$)", name):
            print(name)


def programs(folder, suite):
    """Files of the build folder that its tests of a suite are, but for scripts and what is installed."""
    top = os.path.abspath(folder) + "/"
    for test in tests(folder):
        if suite in {own.split(":")[-1] for own in test["suite"]} and test["cmd"][0].startswith(
            top
        ):
            print(test["cmd"][0][len(top) :])


def expected(folder, suites):
    """Names of the tests in the suites, and the suites that have none."""
    names, empty = [], set(suites)
    for test in tests(folder):
        own = {suite.split(":")[-1] for suite in test["suite"]}
        if own & set(suites):
            names.append(test["name"])
            empty -= own
    return names, sorted(empty)


def told(test):
    """What a test wrote, on one line, without the cases of it that passed."""
    lines = (test.get("stdout") or "").splitlines() + (test.get("stderr") or "").splitlines()
    telling = [
        " ".join(line.split())
        for line in lines
        if line.strip() and not re.match(r"\[( *OK *| *RUN *|[=-]+|  PASSED  )\]|=+$", line)
    ]
    text = " | ".join(telling)
    return text if len(text) <= TOLD else text[: TOLD - 4] + " ..."


def obtained(path):
    """Result, duration and what it wrote, by name.  Meson writes "suite / name" or "name"."""
    results = {}
    try:
        with open(path, encoding="utf-8") as log:
            for line in log:
                test = json.loads(line)
                name = test["name"].split(" / ")[-1]
                results[name] = (test["result"], test["duration"], told(test))
    except FileNotFoundError:
        pass
    return results


def main(folder, path, label, suites):
    names, empty = (suites[1:], []) if suites[0] == "--tests" else expected(folder, suites)
    results = obtained(path)
    failed = False
    for suite in empty:
        print(f"failed\t{suite} ({label})\t0\tthe suite has no test")
        failed = True
    for name in names:
        result, duration, wrote = results.get(name, ("did not run", 0, ""))
        if result in PASSED:
            status, note = "passed", ""
        elif result in SKIPPED:
            status, note = "skipped", "see its log"
        else:
            status, failed = "failed", True
            note = result.lower() + (": " + wrote if wrote else "")
        print(f"{status}\t{name} ({label})\t{duration:.0f}\t{note}")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--named"] and len(sys.argv) == 4:
        sys.exit(named(*sys.argv[2:]))
    if sys.argv[1:2] == ["--programs"] and len(sys.argv) == 4:
        sys.exit(programs(*sys.argv[2:]))
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
