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
from types import SimpleNamespace
from typing import Any, Sequence

from . import engine, fields, files, formats, page, plan_table
from .flags import Wrong, parse, texts

FAILED, WRONG = 1, 2  # exit status
LINES_MAX = 10000  # assignments; JSON of larger plans is not indented
MENDS = ("best", "grid", "inart")

_NUMBERS = "seed roundings trees slots"
_WORDS = "sums_at vertex rounding"
_OPTIONS: dict[str, Any] = {
    **texts("algorithm network json install html topology from plan attach rate"),
    **texts(f"{_NUMBERS} {_WORDS}"),
    **dict.fromkeys("no_bound no_link_limits gradients_only".split(), False),
}


class Failed(Exception):
    """The end with status FAILED, and the line that says why."""


# ---- what is asked for ----


def _network(options: SimpleNamespace) -> formats.Network:
    with files.of("--attach"):
        hosts = formats.Attach(options.attach) if options.attach else None
    with files.of("--rate"):
        rate = formats.Rate(options.rate) if options.rate else None
    network = formats.load(options.network, hosts, rate)
    if network.summary:
        print(files.plain(f"{options.network}: {network.summary}"), file=sys.stderr)
    if options.no_link_limits:
        network.lift_limits()
    return network


def _earlier(options: SimpleNamespace) -> dict[str, Any]:
    """The plan that is to be mended, or taken as it is."""
    key, mended = "plan" if options.plan else "from", getattr(options, "from")
    if not (options.plan or mended):
        return {}
    if options.plan and (options.algorithm != "best" or mended):
        raise Wrong("--plan: there is no other plan to be made")
    if options.algorithm not in MENDS:
        raise Wrong("--from: only best, grid and inart mend a plan")
    return {key: files.load(options.plan or mended)}


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """The planner's answer."""
    command = [engine.find_program(), "plan", "--serve"]
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    done = subprocess.run(command, input=line, stdout=subprocess.PIPE, check=False)
    if not done.stdout.endswith(b"\n"):
        if done.returncode > 0:
            sys.exit(done.returncode)  # it has said why
        raise Failed(f"the planner ended with {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _plans(options: SimpleNamespace, network: formats.Network) -> dict[str, Any]:
    """The plans, and the installation of the last."""
    earlier, algorithm, given = _earlier(options), options.algorithm, vars(options)
    answer = _ask(
        {
            **earlier,
            "topology": network.to_json(),
            "algorithms": ["given" if "plan" in earlier else algorithm],
            "options": {
                **{key: int(given[key]) for key in _NUMBERS.split() if given[key]},
                **{key: given[key] for key in _WORDS.split() if given[key]},
            },
            "results": not options.gradients_only,
            "bound": not options.no_bound,
            "wants_install": bool(options.install),
        }
    )
    if "error" in answer:
        if answer["error"].startswith("--algorithm: "):
            names = answer["error"].partition(", got ")[0].replace(",", "").split()[2:]
            near = fields.nearest(algorithm, [*names, "all"])
            meant = f'; did you mean "{near}"?' if near else ""
            raise Wrong(f"{answer['error']}; all is each of them{meant}")
        of_plan = options.plan or given["from"] if answer.get("of_plan") else ""
        raise Wrong(f"{of_plan or options.network}: {answer['error']}")
    return answer


# ---- what is made of the answer ----


def _write(options: SimpleNamespace, name: str, value: dict[str, Any]) -> None:
    """Write JSON to the file of an option."""
    step = 0 if len(value.get("assignments", ())) > LINES_MAX else 2
    text = files.dump(value, step=step, digits=17, ascii_only=False) + "\n"
    try:
        files.write(getattr(options, name), text)
    except files.FileError as error:
        raise Failed(f"--{name}: {error}") from None


def _shown(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan as --json has it."""
    if "error" in plan:
        return {key: plan[key] for key in ("algorithm", "error")}
    shown = {key: value for key, value in plan.items() if key != "seconds"}
    shown["loads"] = {key: value for key, value in plan["loads"].items() if key != "workers"}
    return shown


def _tell(options: SimpleNamespace, network: formats.Network, plans: list[dict[str, Any]]) -> None:
    """Print tables, and write --json."""
    last, is_one = plans[-1], len(plans) == 1
    if "-" not in (options.json, options.install) and not (is_one and "error" in last):
        results = not options.gradients_only
        rows = plan_table.one(network, last, results) if is_one else plan_table.several(plans)
        print("\n".join(rows))
        sys.stdout.flush()
    if is_one and "error" in last:
        raise Failed(f"{options.network}: {last['algorithm']}: {last['text']}")
    if options.json:
        shown = [_shown(plan) for plan in plans]
        _write(options, "json", shown[0] if is_one else {"plans": shown})
    if "error" in last:
        sys.exit(FAILED)


def _check_demands(source: str, network: formats.Network, plan: dict[str, Any]) -> None:
    """Check that every job gets a rate, and at least what it demands."""
    full = plan["binding"] or "nothing"
    if not plan["feasible_gbps"] > 0:
        raise Wrong(f"{source}: infeasible: {full} has nothing left for {plan['algorithm']}'s plan")
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
        raise Wrong(text)


def _draw(options: SimpleNamespace, network: formats.Network, plan: dict[str, Any]) -> None:
    """Do --html."""
    sub = f"fanin plan {options.network}, seed {options.seed}"
    shown = {"sub": sub, "topology": network.to_json(), "plan": _shown(plan)}
    try:
        page.write("plan", options.html, json.dumps(shown))
    except files.FileError as error:
        raise Failed(f"--html: {error}") from None


def _run(options: SimpleNamespace) -> None:
    if not options.network:
        raise Wrong("expected TOPOLOGY.json, or a topology to make\nTry `fanin plan --help`.")
    for name in ("json", "install"):
        with files.of(f"--{name}"):
            files.can_write(getattr(options, name) or "-")
    network = _network(options)
    answer = _plans(options, network)
    plans = answer["plans"]
    if options.topology:
        _write(options, "topology", network.to_json())
    _tell(options, network, plans)
    _check_demands(options.network, network, plans[-1])
    if options.html:
        _draw(options, network, plans[-1])
    if "refused" in answer:
        raise Wrong(f"{options.plan or options.network}: --install: {answer['refused']}")
    if options.install:
        _write(options, "install", answer["install"])


def main(argv: Sequence[str]) -> int:
    """Run `fanin plan` with these flags; its exit status."""
    try:
        _run(parse(argv, _OPTIONS))
    except (Wrong, Failed, files.FileError) as error:
        print("\n".join(map(files.plain, f"fanin plan: {error}".split("\n"))), file=sys.stderr)
        return FAILED if isinstance(error, Failed) else WRONG
    return 0
