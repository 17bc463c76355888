# SPDX-License-Identifier: Apache-2.0
"""`fanin plan`: where gradients are summed, and on which paths (doc/plan.md).

    python3 -m fanin.research plan --network=TOPOLOGY --OPTION=VALUE...

The program `fanin` reads the options from all their sources and gives them to this one as flags
(src/cmd/plan.c).  The network is read or made here, and `fanin plan --serve` is asked for plans in
one request (planner/cmd/main.c).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Sequence

from . import engine, fields, files, formats, page, plan_table

FAILED, WRONG = 1, 2  # exit status
LINES_MAX = 10000  # assignments; JSON of larger plans is not indented
MENDS = ("best", "grid", "inart")

_NUMBERS = ("seed", "roundings", "trees", "slots")
_WORDS = ("sums-at", "vertex", "rounding")
_FILES = ("network", "json", "install", "html", "topology", "from", "plan", "attach", "rate")
_SWITCHES = ("no-bound", "no-link-limits", "gradients-only")


class Stop(Exception):
    """The end, with a line on stderr and an exit status."""

    def __init__(self, text: str, status: int = WRONG) -> None:
        super().__init__(text)
        self.status = status


class _Options:
    """The flags of the program."""

    def __init__(self, argv: Sequence[str]) -> None:
        known = ("algorithm", *_NUMBERS, *_WORDS, *_FILES, *_SWITCHES)
        self._texts: dict[str, str] = {}
        for flag in argv:
            name, _, value = flag[2:].partition("=")
            if not flag.startswith("--") or name not in known:
                raise Stop(f'fanin plan: unexpected argument "{flag}"')
            self._texts[name] = value or "yes"

    def __getitem__(self, name: str) -> str:
        """The option's text; "": it was not given."""
        return self._texts.get(name, "")

    def numbers(self, names: Sequence[str]) -> dict[str, int]:
        """Numbers as the planner names them."""
        return {name.replace("-", "_"): int(self[name]) for name in names if self[name]}

    def words(self) -> dict[str, str]:
        """Words as the planner names them."""
        return {name.replace("-", "_"): self[name] for name in _WORDS if self[name]}


# ---- what is asked for ----


def _network(options: _Options) -> formats.Network:
    where = "fanin plan: --attach"
    try:
        hosts = formats.Attach(options["attach"]) if options["attach"] else None
        where = "fanin plan: --rate"
        rate = formats.Rate(options["rate"]) if options["rate"] else None
        where = options["network"]
        network = formats.load(where, hosts, rate)
    except formats.FormatError as error:
        raise Stop(f"{where}: {error}") from None
    if network.summary:
        print(files.plain(f"{options['network']}: {network.summary}"), file=sys.stderr)
    if options["no-link-limits"]:
        network.lift_limits()
    return network


def _earlier(options: _Options) -> dict[str, Any]:
    """The plan that is to be mended, or taken as it is."""
    key = "plan" if options["plan"] else "from"
    if not options[key]:
        return {}
    if key == "plan" and (options["algorithm"] != "best" or options["from"]):
        raise Stop("fanin plan: --plan: there is no other plan to be made")
    if options["algorithm"] not in MENDS:
        raise Stop("fanin plan: --from: only best, grid and inart mend a plan")
    try:
        return {key: formats.decode(files.read(options[key]))}
    except formats.FormatError as error:
        raise Stop(f"{options[key]}: {error}") from None


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """The planner's answer."""
    command = [engine.find_program(), "plan", "--serve"]
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    done = subprocess.run(command, input=line, stdout=subprocess.PIPE, check=False)
    if not done.stdout.endswith(b"\n"):
        if done.returncode > 0:
            sys.exit(done.returncode)  # it has said why
        raise Stop(f"fanin plan: the planner ended with {done.returncode}", FAILED)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _plans(options: _Options, network: formats.Network) -> dict[str, Any]:
    """The plans, and the installation of the last."""
    earlier, algorithm = _earlier(options), options["algorithm"]
    answer = _ask(
        {
            **earlier,
            "topology": network.to_json(),
            "algorithms": ["given" if "plan" in earlier else algorithm],
            "options": {**options.numbers(_NUMBERS), **options.words()},
            "results": not options["gradients-only"],
            "bound": not options["no-bound"],
            "wants_install": bool(options["install"]),
        }
    )
    if "error" in answer:
        if answer["error"].startswith("--algorithm: "):
            names = answer["error"].partition(", got ")[0].replace(",", "").split()[2:]
            near = fields.nearest(algorithm, [*names, "all"])
            meant = f'; did you mean "{near}"?' if near else ""
            raise Stop(f"fanin plan: {answer['error']}; all is each of them{meant}")
        where = options["plan"] or options["from"] if answer.get("of_plan") else options["network"]
        raise Stop(f"{where}: {answer['error']}")
    return answer


# ---- what is made of the answer ----


def _write(options: _Options, name: str, value: dict[str, Any]) -> None:
    """Write JSON to the file of an option."""
    step = 0 if len(value.get("assignments", ())) > LINES_MAX else 2
    try:
        files.write(options[name], files.dump(value, step=step, digits=17, ascii_only=False) + "\n")
    except files.FileError as error:
        raise Stop(f"fanin plan: --{name}: {error}", FAILED) from None


def _shown(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan as --json has it."""
    if "error" in plan:
        return {key: plan[key] for key in ("algorithm", "error")}
    shown = {key: value for key, value in plan.items() if key != "seconds"}
    shown["loads"] = {key: value for key, value in plan["loads"].items() if key != "workers"}
    return shown


def _tell(options: _Options, network: formats.Network, plans: list[dict[str, Any]]) -> None:
    """Print tables, and write --json."""
    last, is_one = plans[-1], len(plans) == 1
    if "-" not in (options["json"], options["install"]) and not (is_one and "error" in last):
        results = not options["gradients-only"]
        rows = plan_table.one(network, last, results) if is_one else plan_table.several(plans)
        print("\n".join(rows))
        sys.stdout.flush()
    if is_one and "error" in last:
        raise Stop(f"{options['network']}: {last['algorithm']}: {last['text']}", FAILED)
    if options["json"]:
        shown = [_shown(plan) for plan in plans]
        _write(options, "json", shown[0] if is_one else {"plans": shown})
    if "error" in last:
        sys.exit(FAILED)


def _check_demands(source: str, network: formats.Network, plan: dict[str, Any]) -> None:
    """Check that every job gets a rate, and at least what it demands."""
    full = plan["binding"] or "nothing"
    if not plan["feasible_gbps"] > 0:
        raise Stop(f"{source}: infeasible: {full} has nothing left for {plan['algorithm']}'s plan")
    for j, (job, planned) in enumerate(zip(network.jobs, plan["jobs"])):
        if planned["gbps"] >= job.demand_gbps:
            continue
        text = (
            f'{source}: jobs[{j}].demand_gbps: infeasible: job "{job.name}" asks for '
            f"{job.demand_gbps:g} Gb/s, and {plan['algorithm']} gives it {planned['gbps']:g}, for "
            f"{full} is full"
        )
        most = plan["bound_gbps"] * job.weight
        if 0 < most < job.demand_gbps:
            text += f"; beside the others no plan gives it more than {most:g}"
        raise Stop(text)


def _draw(options: _Options, network: formats.Network, plan: dict[str, Any]) -> None:
    """Do --html."""
    sub = f"fanin plan {options['network']}, seed {options['seed']}"
    shown = {"sub": sub, "topology": network.to_json(), "plan": _shown(plan)}
    try:
        page.write("plan", options["html"], json.dumps(shown))
    except files.FileError as error:
        raise Stop(f"fanin plan: --html: {error}", FAILED) from None


def _run(options: _Options) -> None:
    if not options["network"]:
        raise Stop(
            "fanin plan: expected TOPOLOGY.json, or a topology to make\nTry `fanin plan --help`."
        )
    for name in ("json", "install"):
        try:
            files.can_write(options[name] or "-")
        except files.FileError as error:
            raise Stop(f"fanin plan: --{name}: {error}") from None
    network = _network(options)
    answer = _plans(options, network)
    plans = answer["plans"]
    if options["topology"]:
        _write(options, "topology", network.to_json())
    _tell(options, network, plans)
    _check_demands(options["network"], network, plans[-1])
    if options["html"]:
        _draw(options, network, plans[-1])
    if "refused" in answer:
        raise Stop(f"{options['plan'] or options['network']}: --install: {answer['refused']}")
    if options["install"]:
        _write(options, "install", answer["install"])


def main(argv: Sequence[str]) -> int:
    """Run `fanin plan` with these flags; its exit status."""
    try:
        _run(_Options(argv))
    except (Stop, files.FileError) as error:
        text = str(error) if str(error).startswith("fanin plan: ") else f"fanin plan: {error}"
        print("\n".join(map(files.plain, text.split("\n"))), file=sys.stderr)
        return getattr(error, "status", WRONG)
    return 0
