#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One page over all recorded results: what was asked, what was obtained, what misses.

    tools/results-page.py [OUT.html]      from bench/results and experiments (build/results.html)

Nothing is measured here: the figures are those of the JSON files.  The page of each experiment is written
to the folder experiments beside OUT.html.  What has such a page shows only the figures that were asked here:
the others are there.
"""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [
    os.path.join(ROOT, "experiments"),
    os.path.join(ROOT, "page"),
    os.path.join(ROOT, "simulator", "lab"),
]
import pages  # noqa: E402  pylint: disable=wrong-import-position
import report  # noqa: E402  pylint: disable=wrong-import-position


class Source:
    """A recorded result: its figures, and how many hold and miss."""

    def __init__(self, name, path, page):
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        self.name, self.figures, self.page = name, result["figures"], page
        self.revision = str(result.get("revision"))[:12]
        self.holds = sum(f["holds"] is True for f in self.figures)
        self.misses = [f for f in self.figures if f["holds"] is False]

    def row(self):
        page = {"text": "page", "href": self.page} if self.page else None
        return [self.name, len(self.figures), self.holds, len(self.misses), self.revision, page]

    def details(self):
        text = "%d figures" % len(self.figures)
        if self.misses:
            text = "%d of %d figures miss" % (len(self.misses), self.holds + len(self.misses))
        chart = pages.asked_chart(self.figures)
        shown = [f for f in self.figures if f["holds"] is not None or not self.page]
        return report.fold(
            "%s: %s" % (self.name, text), [chart, pages.figure_table(shown)],
            self.name.replace("/", "-"))  # fmt: skip


def sources(beside):
    """All recorded results; the pages of experiments are written below the folder `beside`."""
    found = []
    folder = os.path.join(ROOT, "bench", "results")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            found.append(Source("bench/" + name[:-5], os.path.join(folder, name), None))
    folder = os.path.join(ROOT, "experiments")
    os.makedirs(os.path.join(beside, "experiments"), exist_ok=True)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "result.json")
        if os.path.exists(path):
            link = "experiments/%s.html" % name
            pages.render(os.path.join(folder, name), os.path.join(beside, link))
            found.append(Source("experiments/" + name, path, link))
    return found


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
    found = sources(os.path.dirname(out))
    holds, misses = sum(s.holds for s in found), sum(len(s.misses) for s in found)
    others = sum(len(s.figures) for s in found) - holds - misses
    title = "fanin: %d of %d figures hold" % (holds, holds + misses)
    sub = (
        "As recorded in bench/results and experiments; %d further figures are for information"
        % others
    )
    columns = ["recorded by", "figures", "hold", "miss", "revision", "page"]
    blocks = [chart(found), report.heading("What misses, the farthest first"), missed_table(found),
              report.heading("Recorded results"), report.table(columns, [s.row() for s in found]),
              report.heading("Figures; those for information of what has a page are there")] + [s.details() for s in found]  # fmt: skip
    report.write(out, "fanin", title, sub, blocks)
    print("%s: %d results, %d figures, %d of them asked, %d miss" % (
        out, len(found), holds + misses + others, holds + misses, misses))  # fmt: skip


if __name__ == "__main__":
    main()
