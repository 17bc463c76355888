#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One page over all recorded figures: what was asked, what was obtained, what misses.

    tools/results-page.py [OUT.html]      from bench/results and experiments (build/results.html)

Nothing is measured here.  Of an experiment it shows only the figures that were asked; the others are in its figures.csv.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "experiments"))
import pages  # noqa: E402  pylint: disable=wrong-import-position
import records  # noqa: E402  pylint: disable=wrong-import-position
import report  # noqa: E402  pylint: disable=wrong-import-position


class Source:
    """A record: its figures, and how many hold and miss."""

    def __init__(self, name):
        head, self.figures = records.read(name)
        self.name, self.revision = name, head.get("revision", "")[:12]
        self.command = head.get("command", "")
        self.holds = sum(f["holds"] is True for f in self.figures)
        self.misses = [f for f in self.figures if f["holds"] is False]

    def row(self):
        return [self.name, len(self.figures), self.holds, len(self.misses), self.revision, self.command]  # fmt: skip

    def details(self):
        text = "%d figures" % len(self.figures)
        if self.misses:
            text = "%d of %d figures miss" % (len(self.misses), self.holds + len(self.misses))
        chart = pages.asked_chart(self.figures)
        bench = self.name.startswith("bench/")
        shown = [f for f in self.figures if f["holds"] is not None or bench]
        return report.fold(
            "%s: %s" % (self.name, text), [chart, pages.figure_table(shown)],
            self.name.replace("/", "-"))  # fmt: skip


def chart(found):
    rows = [
        {"name": s.name, "values": [s.holds, len(s.misses)], "misses": [False, True]}
        for s in found
        if s.holds or s.misses
    ]
    title = "Figures that were asked, by the command that obtains them"
    return report.bars(title, "", [(None, rows)], ["hold", "miss (hatched)"])


def missed_table(found):
    """The farthest first: by the share of what was asked."""
    rows = [[s.name, f["name"], pages.asked_text(f), f["obtained"], f.get("unit") or "", pages.reached(f)]
            for s in found for f in s.misses]  # fmt: skip
    columns = ["from", "figure", "asked", "obtained", "unit", ("of it", "share")]
    return report.table(columns, rows, (5, "up"))


def main():
    out = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT + "/build/results.html")
    found = [Source(name) for name in records.names()]
    holds, misses = sum(s.holds for s in found), sum(len(s.misses) for s in found)
    others = sum(len(s.figures) for s in found) - holds - misses
    title = "fanin: %d of %d figures hold" % (holds, holds + misses)
    sub = (
        "As recorded in bench/results and experiments; %d further figures are for information"
        % others
    )
    columns = ["recorded by", "figures", "hold", "miss", "revision", "command"]
    blocks = [chart(found), report.heading("What misses, the farthest first"), missed_table(found),
              report.heading("Recorded results"), report.table(columns, [s.row() for s in found]),
              report.heading("Figures, of experiments those that were asked")] + [s.details() for s in found]  # fmt: skip
    report.write(out, "fanin", title, sub, blocks)
    print("%s: %d results, %d figures, %d of them asked, %d miss" % (
        out, len(found), holds + misses + others, holds + misses, misses))  # fmt: skip


if __name__ == "__main__":
    main()
