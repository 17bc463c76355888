# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: running `fanin sim`, figures, result.json and the page.

An experiment is experiments/NAME/run.  It prints figures asked and obtained, and writes result.json (these,
seed, revision, settings, plots) and from it report.html where tools/records.py has whole results, or under --out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import pages
import records
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TIMEOUT_S = 3600


class ExperimentError(Exception):
    """A run that failed; its text says which and why."""


def flags(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer settings: under 50 s")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR",
                        help="where fanin was built (default: build)")
    parser.add_argument("--out", metavar="DIR", help="where results go (default: $FAN_RECORDS/experiments/NAME)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default 1")
    parser.add_argument("-j", "--jobs", type=int, metavar="J", default=os.cpu_count() or 1,
                        help="simulations at a time (default: processors)")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is missed")
    return parser


class Experiment:
    """Runs scenarios, and collects figures and pages."""

    def __init__(self, name, title, args):
        self.name, self.title, self.args = name, title, args
        self.folder = os.path.join(HERE, name)
        self.out = args.out or records.whole("experiments/" + name).parent
        self.figures, self.plots, self.settings = [], [], {}
        self.seeds = (args.seed,)
        self.revision = records.revision()

    def sim(self, heading, scenario, sets=(), sweeps=(), variants=None):
        """Run experiments/NAME/SCENARIO; its JSON.  The page's plots go under `heading`,
        or nowhere if it is None.  With `variants`, a file or a dictionary, jobs may fail."""
        program = os.path.join(self.args.build, "fanin")
        with tempfile.TemporaryDirectory() as work:
            result, page = os.path.join(work, "result"), os.path.join(work, "page")
            argv = [program, "sim", os.path.join(self.folder, scenario), "-q", "--seed",
                    str(self.args.seed), "-j", str(self.args.jobs), "--json", result,
                    "--report", page]
            for key, value in sets:
                argv += ["--set", "%s=%s" % (key, value)]
            if isinstance(variants, dict):
                named, variants = variants, os.path.join(work, "variants")
                with open(variants, "w") as file:
                    json.dump(named, file)
            if variants:
                argv += ["--variants", os.path.join(self.folder, variants)]
            for key, values in sweeps:
                argv += ["--sweep", "%s=%s" % (key, ",".join(str(v) for v in values))]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, check=False,
                                      timeout=TIMEOUT_S)
            except OSError as error:
                raise ExperimentError("%s: %s; build it first" % (program, error)) from None
            if done.returncode != 0 and not (variants and os.path.exists(result)):
                raise ExperimentError("%s: exit status %d: %s" % (
                    " ".join(argv), done.returncode, done.stderr.strip()))
            with open(result) as file:
                answer = json.load(file)
            if heading is not None:
                self.plots.append(pages.plots_of(report.read(page), heading))
        return answer

    def runs(self, scenario, sets=(), sweeps=()):
        """The scenario's runs with each of self.seeds, without plots."""
        answer = self.sim(None, scenario, sets, list(sweeps) + [("seed", self.seeds)])
        for run in answer["runs"]:
            if run["failed_jobs"]:
                raise ExperimentError("%s, %s: %d jobs failed" % (
                    scenario, run["set"], run["failed_jobs"]))
        return answer["runs"]

    def time(self, scenario, sets=()):
        """Average completion time in seconds, mean of the seeds."""
        return mean_jct(self.runs(scenario, sets))

    def times(self, heading, scenario, sets, sweeps):
        """The same by the sweeps' values; the page's plots are of the first seed."""
        if heading is not None:
            self.sim(heading, scenario, sets, sweeps)
        found = {}
        for run in self.runs(scenario, sets, sweeps):
            found.setdefault(tuple(run["set"][k] for k, _ in sweeps), []).append(run)
        return {values: mean_jct(runs) for values, runs in found.items()}

    def spread(self, name, runs):
        """Average completion time in ms: its mean, least and most; None where jobs failed."""
        failed = sum(run["failed_jobs"] for run in runs)
        times = [run["avg_jct_s"] * 1e3 for run in runs if not run["failed_jobs"]]
        self.figure(name, None, sum(times) / len(times) if times else None, "ms")
        self.figures[-1].update(least=min(times, default=None), most=max(times, default=None),
                                failed_jobs=failed)

    def figure(self, name, asked, obtained, unit, at_most=False):
        """`asked` None: for information; `obtained` None: nothing was."""
        holds = None
        if asked is not None and obtained is not None:
            holds = obtained <= asked if at_most else obtained >= asked
        self.figures.append({"name": name, "asked": asked, "obtained": obtained, "unit": unit,
                             "at_most": at_most, "holds": holds})

    def rows(self):
        for f in self.figures:
            asked = "-" if f["asked"] is None else "%s %g %s" % (
                "<=" if f["at_most"] else ">=", f["asked"], f["unit"])
            got = "-" if f["obtained"] is None else "%.4g" % f["obtained"]
            if f.get("failed_jobs"):
                got = "%d jobs failed, %s" % (f["failed_jobs"], got)
            if f.get("least") is not None:
                got += " (%.4g to %.4g)" % (f["least"], f["most"])
            yield (f["name"], asked.strip(), ("%s %s" % (got, f["unit"])).strip(),
                   {True: "yes", False: "no", None: "-"}[f["holds"]])

    def finish(self):
        os.makedirs(self.out, exist_ok=True)
        result = {"name": self.name, "title": self.title, "figures": self.figures, "seed": self.args.seed,
                  "revision": self.revision, "settings": dict(self.settings, quick=self.args.quick)}
        pages.write_result(self.out, result, self.plots)
        pages.render(self.out)
        print("%-72s %14s %14s  %s" % (self.title, "asked", "obtained", "holds"))
        for row in self.rows():
            print("%-72s %14s %14s  %s" % row)
        missed = any(f["holds"] is False for f in self.figures)
        return 1 if self.args.strict and missed else 0


def mean_jct(runs):
    return sum(run["avg_jct_s"] for run in runs) / len(runs)


def main(run):
    """Run an experiment's main; a failure is one message and exit code 1."""
    try:
        sys.exit(run())
    except ExperimentError as error:
        print("FAILED: %s" % error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
