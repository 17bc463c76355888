# SPDX-License-Identifier: Apache-2.0
"""Plans at work on an emulated network: Mininet's hosts and shaped links, the real daemons.

Runs one job under every chosen algorithm and prints what was planned, simulated and measured.
"""

import argparse
import difflib
import json
import os
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# The generator of pages: beside this folder where it is installed, beside the simulator otherwise.
sys.path[:0] = [HERE, os.path.join(HERE, "..", "page"), os.path.join(HERE, "..", "..", "page")]

import page  # noqa: E402  pylint: disable=wrong-import-position
from job import ITERATIONS, PART_MIN_BYTES, Job, Kill, Tools  # noqa: E402
from layout import WIRE, LabError, Layout, frames_per_s, scaled  # noqa: E402
from network import Network, missing  # noqa: E402

ALGORITHMS = ("geryon", "lbmm", "switchml", "atp", "grid", "inart", "exact", "best")
DEFAULT = "geryon,lbmm,switchml,atp,grid,inart,best"
FRAMES_MAX = 30000  # of all links together in a second, where no --scale is given
EXIT_FAILED, EXIT_BAD, EXIT_SKIPPED = 1, 2, 77


class Parser(argparse.ArgumentParser):
    """What is wrong comes alone, as in the other commands."""

    def error(self, message):
        self.exit(EXIT_BAD, "%s: %s\nTry `%s --help`.\n" % (self.prog, message, self.prog))

    def parse_args(self, args=None, namespace=None):
        """Of options that there are not, the first is named, and the nearest one."""
        known, rest = self.parse_known_args(args, namespace)
        for word in rest:
            if not word.startswith("--"):
                self.error('unexpected argument "%s"' % word)
            name = word.partition("=")[0]
            near = difflib.get_close_matches(name, self._option_string_actions, 1)
            self.error("unknown option %s%s" % (name, "; nearest: " + near[0] if near else ""))
        return known


def list_options(parser):
    """As the other commands do for a shell's completion: src/cmd/args.h."""
    for action in parser._actions:
        if action.option_strings:
            short = [name for name in action.option_strings if not name.startswith("--")]
            what = "-" if action.nargs == 0 else action.metavar or "NAME"
            row = action.option_strings[-1], short[0] if short else "-", what
            print(*row, ",".join(action.choices or "-"), action.help % vars(action), sep="\t")


def arguments(argv):
    parser = Parser(
        prog="fanin lab",
        description="Put a topology on Mininet with the real daemons, run a job under every chosen "
        "algorithm, and print planned, simulated and measured rates side by side.  Needs root.",
    )
    parser.add_argument(
        "topology", metavar="TOPOLOGY", help="as for fanin plan: a JSON file, or made from numbers"
    )
    parser.add_argument("--rate", metavar="R", help="of links without one, as for fanin plan")
    parser.add_argument("--attach", metavar="WHAT", help="hosts, as for fanin plan")
    parser.add_argument(
        "-a", "--algorithms", default=DEFAULT, metavar="A,B,...", help="or all (%s)" % DEFAULT
    )
    parser.add_argument(
        "--seconds", type=float, default=6, metavar="S", help="about how long each job takes (6)"
    )
    parser.add_argument(
        "--bytes", type=int, metavar="B", help="of gradient, each of %d times" % ITERATIONS
    )
    parser.add_argument(
        "--scale",
        type=float,
        metavar="F",
        help="all rates by so much (so that %d frames a second are on all links)" % FRAMES_MAX,
    )
    parser.add_argument(
        "--policy", choices=("atp", "esa", "grid"), default="atp", help="of switches (atp)"
    )
    parser.add_argument("--sums-at", choices=("nearest", "rack", "two-level"), default="nearest",
                        help="which switch sums for a host under switchml and atp (nearest)")  # fmt: skip
    parser.add_argument("--window", type=int, metavar="W",
                        help="fragments in flight, of all parts together (8 a part, at least 32)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of plans (1)")
    parser.add_argument(
        "--kill",
        action="append",
        default=[],
        metavar="WHAT@T[+D]",
        help="T s into each job, end a node's daemon or the controller, or let nothing pass a link "
        "A-B; undo it after D s",
    )
    parser.add_argument("--no-sim", action="store_true", help="do not simulate")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--report", metavar="FILE", help="write a page there")
    parser.add_argument("--keep", metavar="DIR", help="keep plans and logs there")
    if argv == ["--list-options"]:
        list_options(parser)
        parser.exit(0)
    args = parser.parse_args(argv)
    args.algorithms = args.algorithms.split(",")
    if args.algorithms == ["all"]:
        args.algorithms = DEFAULT.split(",")
    for name in args.algorithms:
        if name not in ALGORITHMS:
            parser.error('--algorithms: "%s": expected %s or all' % (name, ", ".join(ALGORITHMS)))
    for name, least, most in (("seconds", 0.1, 600), ("bytes", 4096, 1 << 30), ("window", 4, 4096),
                              ("scale", 1e-9, 1e3)):  # fmt: skip
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            parser.error("--%s: expected a number from %g to %g" % (name, least, most))
    try:
        args.kill = [Kill(text) for text in args.kill]
    except LabError as error:
        parser.error(str(error))
    return args


class Lab:
    """A topology at one scale, and the rows of what came of it."""

    def __init__(self, args, tools):
        self.args, self.tools = args, tools
        topology = tools.topology(args.topology)
        for kill in args.kill:
            kill.check(topology)
        self.scale = args.scale or self._find_scale(topology)
        small = scaled(topology, self.scale)
        self.file = tools.save("scaled.json", small)
        self.layout, self.full = Layout(small), Layout(topology)
        self.rows = []

    def _find_scale(self, topology):
        file = self.tools.save("full.json", topology)
        return FRAMES_MAX / max(
            frames_per_s(self.tools.plan(file, name)[0]) for name in self.args.algorithms
        )

    def run(self):
        plans = {}
        for name in self.args.algorithms:
            plans[name] = self.tools.plan(self.file, name)
        page.head(self)
        with Network(self.layout) as net:
            for name in self.args.algorithms:
                row = self.one(net, name, *plans[name])
                self.rows.append(row)
                page.line(self, row)
        return 1 if any(row.get("error") or row["wrong"] for row in self.rows) else 0

    def unscaled(self, install):
        """The installation with the rates of the topology, at which the simulation runs."""
        parts = [dict(p, gbps=p["gbps"] / self.scale) for p in install["parts"]]
        return dict(install, parts=parts)

    def simulated_gbps(self, install):
        """Virtual time needs no scale, but a window is long or short beside the round trips that the
        lab's rates make."""
        if self.args.window:
            return self.tools.simulate(self.layout, install, self.args.window) / self.scale
        return self.tools.simulate(self.full, self.unscaled(install))

    def one(self, net, name, plan, install):
        gbps = plan["with_results_gbps"]
        size = self.args.bytes or gbps * 1e9 / 8 / WIRE * self.args.seconds / ITERATIONS
        size = max(int(size), PART_MIN_BYTES) // 4096 * 4096
        planned_s = size * 8 * WIRE / gbps / 1e9 * (ITERATIONS + 1)
        row = {
            "algorithm": name,
            "planned_gbps": plan["gradients_gbps"] / self.scale,
            "with_results_gbps": gbps / self.scale,
            "simulated_gbps": None,
            "measured_gbps": None,
            "parts": len(install["parts"]),
            "seed": plan["seed"],
            "bytes": size,
            "wrong": 0,
        }
        try:
            if not self.args.no_sim:
                row["simulated_gbps"] = self.simulated_gbps(install)
            result = Job(net, self.tools, name, self.args.kill).run(
                self.file, install, size, planned_s
            )
        except LabError as error:
            row["error"] = str(error)
            return row
        seconds = result["time_us_p50"] / 1e6
        row.update(
            measured_gbps=size * 8 * WIRE / seconds / 1e9 / self.scale,
            seconds=seconds,
            wrong=result["wrong"],
            retransmits=result["retransmits"],
            gap_s=result.get("gap_s"),
            restarts=result.get("restarts"),
            moves=result.get("moves"),
            cpu_idle=result["cpu_idle"],
            events=result["events"],
        )
        return row

    def result(self):
        return {
            "topology": self.args.topology,
            "nodes": {k: len(self.layout.of(k)) for k in ("worker", "switch", "server")},
            "scale": self.scale,
            "seed": self.args.seed,
            "sums_at": self.args.sums_at,
            "window": self.args.window,
            "policy": self.args.policy,
            "kills": [kill.text for kill in self.args.kill],
            "rows": self.rows,
        }


def lab(args):
    folder = args.keep or tempfile.mkdtemp(prefix="fanin-lab-")
    os.makedirs(folder, exist_ok=True)
    try:
        made = Lab(args, Tools(os.environ.get("FANIN", "fanin"), folder, args))
        status = made.run()
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(made.result(), file, indent=1)
                file.write("\n")
        if args.report:
            page.write(args.report, made.result())
        return status
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


def end_by_signal(number, _):
    raise SystemExit(128 + number)


def main():
    args = arguments(sys.argv[1:])
    lack = missing()
    if lack:
        print("fanin lab: SKIPPED: needs " + lack, file=sys.stderr)
        return EXIT_SKIPPED
    if os.geteuid() != 0:
        print("fanin lab: SKIPPED: needs root, for network namespaces", file=sys.stderr)
        return EXIT_SKIPPED
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by_signal)
    try:
        return lab(args)
    except LabError as error:
        print("fanin lab: %s" % error, file=sys.stderr)
        return EXIT_BAD
    except KeyboardInterrupt:
        print("fanin lab: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
