# SPDX-License-Identifier: Apache-2.0
"""What the planner's experiments share: running `fanin plan`, figures that were asked and
obtained, result.json and its report page."""

import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import pages
import records

ROOT = records.ROOT
TIMEOUT_S = 600


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
        "--out", metavar="DIR", help="where results go (default: $FAN_RECORDS/experiments/NAME)"
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
        self.figures, self.tables = [], []
        self.seeds = args.seeds or (1 if args.quick else 20)
        self.settings = {"quick": args.quick, "seeds": self.seeds}
        self.folder = args.out or records.whole("experiments/" + name).parent
        self.fanin = os.path.join(args.build, "fanin")
        self.revision = records.revision()
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
        """As papers count: of gradients only."""
        options = ("--no-bound", "--gradients-only", *options)
        return self.plan(topology, algorithm, *options)["feasible_gbps"]

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
        self.tables.append({"title": title, "text": text, "columns": head, "rows": rows})

    def chart(self, title, text, unit, published, rates):
        """`rates`: by name, a list with one for each seed.  `published`: by name."""
        rows = [[name, mean(r), min(r), max(r), published.get(name)] for name, r in rates.items()]
        columns = ["", "mean, " + unit, "least", "most", pages.PUBLISHED]
        self.tables.append({"title": title, "text": text, "columns": columns, "rows": rows})

    def finish(self):
        result = {
            "name": self.name,
            "title": self.title,
            "figures": self.figures,
            "seed": "1..%d" % self.seeds,
            "revision": self.revision,
            "settings": self.settings,
            "tables": self.tables,
        }
        os.makedirs(self.folder, exist_ok=True)
        pages.write_result(self.folder, result)
        pages.render(self.folder)
        bad = sum(not f["holds"] for f in self.figures)
        print("%d figures hold, %d do not" % (len(self.figures) - bad, bad))
        sys.exit(1 if bad and self.args.strict else 0)


def seeds_text(count):
    return "%d seed%s" % (count, "" if count == 1 else "s")


def mean(values):
    return statistics.fmean(values)
