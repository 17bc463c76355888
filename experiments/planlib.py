# SPDX-License-Identifier: Apache-2.0
"""What the planner's experiments share: running `fanin plan`, figures that were asked and
obtained, result.json and its report page."""

import argparse
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT_S = 600
BAR_PIXELS = 420

STYLE = """body{font:15px sans-serif;margin:2em auto;max-width:62em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.3em .7em;
text-align:right}td:first-child,th:first-child{text-align:left}.yes{color:#086}.no{color:#b00}"""


def arguments(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--quick", action="store_true", help="fewer seeds; within 50 s")
    parser.add_argument("--seeds", type=int, default=None, help="how many (20)")
    parser.add_argument("--fanin", default=os.environ.get("FANIN") or
                        os.path.join(ROOT, "build", "fanin"), help="the program")
    parser.add_argument("--out", default=None, help="folder for result.json and report.html")
    return parser.parse_args()


class Experiment:
    """Figures and tables, in the order in which they come."""

    def __init__(self, name, title, args):
        self.name, self.title, self.args = name, title, args
        self.figures, self.tables, self.settings = [], [], {"quick": args.quick}
        self.seeds = args.seeds or (2 if args.quick else 20)
        self.settings["seeds"] = self.seeds
        self.folder = args.out or os.path.join(ROOT, "experiments", name)
        if not os.access(args.fanin, os.X_OK):
            sys.exit("%s: not there; build first (./demo), or say --fanin PROGRAM" % args.fanin)

    def plan(self, topology, algorithm, *options):
        """One plan as its JSON says, with the seconds that it took."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            begin = time.monotonic()
            run = subprocess.run([self.args.fanin, "plan", topology, "--algorithm", algorithm,
                                  "--json", file.name, *options], capture_output=True, text=True,
                                 timeout=TIMEOUT_S)
            seconds = time.monotonic() - begin
            if run.returncode != 0:
                sys.exit("fanin plan %s --algorithm %s: %s" % (topology, algorithm, run.stderr))
            plan = json.load(file)
        plan["seconds"] = seconds
        made = re.search(r"made in ([0-9.e+-]+) s", run.stdout)
        plan["made_s"] = float(made.group(1)) if made else seconds
        return plan

    def rate(self, topology, algorithm, *options):
        return self.plan(topology, algorithm, "--no-bound", *options)["feasible_gbps"]

    def figure(self, name, asked, obtained, unit, holds):
        self.figures.append({"name": name, "asked": asked, "obtained": obtained, "unit": unit,
                             "holds": bool(holds)})
        print("%-6s %s: asked %s, obtained %.6g %s" % ("holds" if holds else "FAILS", name, asked,
                                                       obtained, unit), flush=True)

    def exactly(self, name, asked, obtained, unit, slack=1e-6):
        self.figure(name, "%.7g" % asked, obtained, unit, abs(obtained - asked) <= slack * asked)

    def at_least(self, name, asked, obtained, unit):
        self.figure(name, ">= %g" % asked, obtained, unit, obtained >= asked - 1e-9)

    def at_most(self, name, asked, obtained, unit):
        self.figure(name, "<= %g" % asked, obtained, unit, obtained <= asked + 1e-9)

    def table(self, title, head, rows):
        """Rows of a name and numbers; the page shows the first number as a bar, too."""
        self.tables.append((title, head, rows))

    def finish(self):
        result = {"figures": self.figures, "seed": "1..%d" % self.seeds, "revision": revision(),
                  "settings": self.settings,
                  "tables": [{"title": t, "columns": h, "rows": r} for t, h, r in self.tables]}
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
        with open(os.path.join(self.folder, "report.html"), "w", encoding="utf-8") as file:
            file.write(self.page(result))
        bad = sum(not f["holds"] for f in self.figures)
        print("%d figures hold, %d do not" % (len(self.figures) - bad, bad))
        sys.exit(1 if bad else 0)

    def page(self, result):
        parts = ["<!doctype html><meta charset=utf-8><title>%s</title><style>%s</style><h1>%s</h1>"
                 % (self.title, STYLE, self.title),
                 "<p>Revision %s; %s.</p>" % (result["revision"], html.escape(str(self.settings))),
                 "<table><tr><th>figure<th>asked<th>obtained<th>unit<th>holds</tr>"]
        for f in self.figures:
            word = "yes" if f["holds"] else "no"
            parts.append("<tr><td>%s<td>%s<td>%.6g<td>%s<td class=%s>%s</tr>" % (
                html.escape(f["name"]), html.escape(f["asked"]), f["obtained"],
                html.escape(f["unit"]), word, word))
        parts.append("</table>")
        for title, head, rows in self.tables:
            parts.append(table_html(title, head, rows))
        return "\n".join(parts) + "\n"


def table_html(title, head, rows):
    most = max([row[1] for row in rows] + [1e-12])
    parts = ["<h2>%s</h2><table><tr>%s<th></tr>" % (
        html.escape(title), "".join("<th>" + html.escape(h) for h in head))]
    for row in rows:
        cells = "".join("<td>" + (html.escape(x) if isinstance(x, str) else "%.5g" % x)
                        for x in row)
        parts.append("<tr>%s<td><svg width=%d height=12><rect width=%.1f height=12 "
                     "fill=\"#48a\"/></svg></tr>" % (cells, BAR_PIXELS, BAR_PIXELS * row[1] / most))
    return "\n".join(parts + ["</table>"])


def mean(values):
    return statistics.fmean(values)


def revision():
    """The commit, with -dirty when tracked files differ from it; None outside git."""
    def git(*argv):
        return subprocess.run(("git", "-C", ROOT) + argv, capture_output=True, text=True)
    head = git("rev-parse", "--verify", "-q", "HEAD")
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("-dirty" if git("status", "--porcelain", "-uno").stdout else "")
