# SPDX-License-Identifier: Apache-2.0
"""What the planner's experiments share: running `fanin plan`, figures that were asked and
obtained, result.json and its report page."""

import argparse
import concurrent.futures
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from explib import ROOT, revision

TIMEOUT_S = 600

with open(os.path.join(ROOT, "share", "report.css"), encoding="utf-8") as css:
    STYLE = css.read()

# Of a chart, in pixels of its drawing.
WIDTH, NAMES, BARS, ROW, THICK = 960, 190, 560, 26, 14


def arguments(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--quick", action="store_true", help="one seed: under 50 s")
    parser.add_argument("--seeds", type=int, metavar="N", help="how many (20)")
    parser.add_argument(
        "--build",
        default=os.path.join(ROOT, "build"),
        metavar="DIR",
        help="where fanin was built (default: build)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="where results go (default: beside the script)"
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        metavar="J",
        default=os.cpu_count() or 1,
        help="plans at a time (default: processors)",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is missed")
    return parser.parse_args()


class Experiment:
    """Figures, charts and tables, in the order in which they come."""

    def __init__(self, name, title, args):
        self.name, self.title, self.args = name, title, args
        self.figures, self.parts, self.tables = [], [], []
        self.seeds = args.seeds or (1 if args.quick else 20)
        self.settings = {"quick": args.quick, "seeds": self.seeds}
        self.folder = args.out or os.path.join(ROOT, "experiments", name)
        self.fanin = os.path.join(args.build, "fanin")
        self.revision = revision()  # before results are written: they are tracked files
        if not os.access(self.fanin, os.X_OK):
            sys.exit("%s: not there; build first (./demo), or say --build DIR" % self.fanin)

    def plan(self, topology, algorithm, *options):
        """One plan as its JSON says, with the seconds of processor time in which it was made."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            argv = [self.fanin, "plan", topology, "--algorithm", algorithm, "--json", file.name]
            run = subprocess.run(
                argv + list(options), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            if run.returncode != 0:
                sys.exit("%s: %s" % (" ".join(argv), run.stderr))
            plan = json.load(file)
        plan["made_s"] = float(re.search(r"made in ([0-9.e+-]+) s", run.stdout).group(1))
        return plan

    def plans(self, asked):
        """Several at a time; each (topology, algorithm, option...).  In their order."""
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            return list(pool.map(lambda a: self.plan(*a), asked))

    def rate(self, topology, algorithm, *options):
        return self.plan(topology, algorithm, "--no-bound", *options)["feasible_gbps"]

    def figure(self, name, relation, asked, obtained, unit, holds):
        self.figures.append(
            {
                "name": name,
                "asked": asked,
                "relation": relation,
                "obtained": obtained,
                "unit": unit,
                "holds": bool(holds),
            }
        )
        print(
            "%-6s %s: asked %s %.7g, obtained %.6g %s"
            % ("holds" if holds else "FAILS", name, relation, asked, obtained, unit),
            flush=True,
        )

    def exactly(self, name, asked, obtained, unit, slack=1e-6):
        self.figure(name, "=", asked, obtained, unit, abs(obtained - asked) <= slack * asked)

    def at_least(self, name, asked, obtained, unit):
        self.figure(name, ">=", asked, obtained, unit, obtained >= asked - 1e-9)

    def at_most(self, name, asked, obtained, unit):
        self.figure(name, "<=", asked, obtained, unit, obtained <= asked + 1e-9)

    def table(self, title, text, head, rows):
        self.tables.append({"title": title, "columns": head, "rows": rows})
        self.parts.append(heading(title, text) + table_html(head, rows))

    def chart(self, title, text, unit, published, rates):
        """`rates`: by name, a list with one for each seed.  `published`: by name."""
        rows = [[name, mean(r), min(r), max(r), published.get(name)] for name, r in rates.items()]
        columns = ["", "mean, " + unit, "least", "most", "published"]
        self.tables.append({"title": title, "columns": columns, "rows": rows})
        self.parts.append(heading(title, text) + chart_svg(rows, unit))

    def finish(self):
        result = {
            "figures": self.figures,
            "seed": "1..%d" % self.seeds,
            "revision": self.revision,
            "settings": self.settings,
            "tables": self.tables,
        }
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(os.path.join(self.folder, "report.html"), "w", encoding="utf-8") as file:
            file.write(self.page())
        bad = sum(not f["holds"] for f in self.figures)
        print("%d figures hold, %d do not" % (len(self.figures) - bad, bad))
        sys.exit(1 if bad and self.args.strict else 0)

    def page(self):
        rows = [
            [f["name"], "%s %.6g" % (f["relation"], f["asked"]), "%.6g" % f["obtained"], f["unit"]]
            + ["yes" if f["holds"] else "no"]
            for f in self.figures
        ]
        return (
            "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width'><title>%s</title>\n<style>%s</style>"
            "</head><body><main class=figures><h1>%s</h1><p>revision %s, %s%s</p>\n%s\n%s\n"
            "</main></body></html>\n"
            % (
                html.escape(self.title),
                STYLE,
                html.escape(self.title),
                self.revision,
                seeds_text(self.seeds),
                ", quick" if self.args.quick else "",
                table_html(["figure", "asked", "obtained", "", "holds"], rows),
                "\n".join(self.parts),
            )
        )


def heading(title, text):
    return "<h2>%s</h2><p>%s</p>\n" % (html.escape(title), html.escape(text))


def wrappable(text):
    """A topology made from numbers is long, and has no spaces."""
    return html.escape(text).replace(",", ",<wbr>").replace(",<wbr> ", ", ")


def cell(x):
    if x is None:
        return "<td>"
    if isinstance(x, str):
        return "<td%s>%s" % (" class=" + x if x in ("yes", "no") else "", wrappable(x))
    return "<td>%.4g" % x


def table_html(head, rows):
    lines = ["<tr>" + "".join(cell(x) for x in row) + "</tr>" for row in rows]
    return "<table><tr>%s</tr>\n%s</table>" % (
        "".join("<th>" + html.escape(h) for h in head),
        "\n".join(lines),
    )


def chart_svg(rows, unit):
    """A bar for each mean, a thin line from least to most, a mark where it is published."""
    most = max(x for row in rows for x in row[2:] if x is not None)
    lines = []
    for i, (name, middle, low, high, published) in enumerate(rows):
        y = i * ROW + ROW / 2
        at = [NAMES + BARS * x / most for x in (middle, low, high, published or 0)]
        lines.append("<text x=0 y=%g>%s</text>" % (y + 5, html.escape(name)))
        lines.append(
            "<rect class=bar x=%d y=%g width=%.1f height=%d rx=2 />"
            % (NAMES, y - THICK / 2, at[0] - NAMES, THICK)
        )
        if high > low:
            lines.append("<path class=span d='M%.1f %gH%.1f'/>" % (at[1], y, at[2]))
        note = "%.4g" % middle
        if published is not None:
            lines.append(
                "<path class=mark d='M%.1f %gV%g'/>" % (at[3], y - ROW / 2 + 2, y + ROW / 2 - 2)
            )
            note += " (published: %g)" % published
        lines.append(
            "<text class=soft x=%.1f y=%g>%s</text>" % (max(at[0], *at[2:]) + 8, y + 5, note)
        )
    return (
        "<figure><svg viewBox='0 0 %d %d'>%s</svg></figure><p class=legend>Bars are means in %s, "
        "lines go from the least to the most, and <b>marks</b> are what the paper prints.</p>"
        % (WIDTH, len(rows) * ROW, "\n".join(lines), html.escape(unit))
    )


def seeds_text(count):
    return "%d seed%s" % (count, "" if count == 1 else "s")


def mean(values):
    return statistics.fmean(values)
