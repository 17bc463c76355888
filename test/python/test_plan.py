# SPDX-License-Identifier: Apache-2.0
"""fanin.research.plan: what `fanin plan` asks for, prints and writes, from a planner's answer."""

import json
import os
import signal
import stat

import pytest

from fanin.research import engine, formats, plan, plan_table

NETWORK = "star:workers=3,link=10,switch=30,server=20"


def load(gbps, capacity, background=0.0, **names):
    return {**names, "gbps": gbps, "background_gbps": background, "capacity_gbps": capacity}


PLAN = {
    "algorithm": "best",
    "seed": 1,
    "feasible_gbps": 10.0,
    "gradients_gbps": 10.0,
    "with_results_gbps": 10.0,
    "bound_gbps": 12.5,
    "gap": 0.2,
    "proven": False,
    "binding": "link W1-S1",
    "jobs": [{"name": "job", "gbps": 10.0, "servers": [{"name": "PS1", "share": 1.0}]}],
    "trees": [
        {"tree": 0, "job": "job", "server": "PS1", "share": 1.0,
         "sums": [{"switch": "S1", "fan_in": 2, "route": ["S1", "PS1"]}]}
    ],
    "assignments": [
        {"job": "job", "tree": 0, "worker": f"W{i}", "server": "PS1", "share": 1.0, "at": at,
         "route": [f"W{i}", "S1"]}
        for i, at in ((1, "S1"), (2, "S1"), (3, "PS1"))
    ],
    "loads": {
        "links": [load(9.0, 10.0, **{"from": "S1", "to": "PS1"}),
                  load(10.0, 10.0, **{"from": "W1", "to": "S1"})],
        "switches": [load(10.0, 30.0, 10.0, name="S1")],
        "servers": [load(10.0, 20.0, name="PS1")],
        "workers": [load(10.0, None, name="W1")],
    },
    "installable": True,
    "seconds": 0.25,
}  # fmt: skip


def rows(**changes):
    return list(plan_table.one(formats.load(NETWORK), {**PLAN, **changes}, True))


def test_a_plan_as_a_table():
    assert rows() == [
        "best: 10 Gb/s for every worker; no plan gives more than 12.5 (gap 20.0 %); made in 0.25 s",
        "link W1-S1 is full first",
        "10 Gb/s for gradients alone, as papers count",
        "",
        "job              server          share   summed at (by how many workers)",
        "job              PS1          100.00 %   S1 (2)  server (1)",
        "",
        "fullest                                Gb/s free for it     load",
        "link W1-S1                               10          10  100.0 %",
        "link S1-PS1                               9          10   90.0 %",
        "switch S1                                10          20   50.0 %",
        "server PS1                               10          20   50.0 %",
    ]


def test_what_a_table_leaves_out_is_counted():
    sums = [{"switch": f"S{i}", "fan_in": 1, "route": []} for i in range(9)]
    trees = [{**PLAN["trees"][0], "tree": i, "sums": sums} for i in range(15)]
    text = "\n".join(rows(trees=trees, refused="no way", proven=True, drawings={
        "count": 2, "least_gbps": 1.0, "mean_gbps": 1.5, "most_gbps": 2.0}))  # fmt: skip
    assert "  S5 (0)  and 3 more switches" in text and "... and 3 trees more" in text
    assert "cannot be installed: no way" in text and "proven: no plan that sums once" in text
    assert "2 drawings: 1 to 2 Gb/s, 1.5 on the mean" in text


def test_several_plans_are_compared_with_the_first():
    failed = {"algorithm": "exact", "error": "FAN_E_BUSY", "text": "this instance is too large"}
    first = {**PLAN, "algorithm": "geryon", "feasible_gbps": 5.0}
    lines = list(plan_table.several([first, failed, {**PLAN, "refused": "no"}]))
    assert lines[1].split()[-3:] == ["1", "1", "0.250"]
    assert lines[2] == "exact                -   this instance is too large"
    assert lines[3].split()[-6:] == ["2", "1", "0.250", "cannot", "be", "installed"]


# ---- with a program that answers ----


@pytest.fixture(name="ask")
def _ask(tmp_path, monkeypatch, capsys):
    """Run `fanin plan` with a planner that gives this answer: status, output, errors, request."""

    def ask(answer, *flags, program="cat >%s; cat %s"):
        said, heard, file = tmp_path / "said", tmp_path / "heard", tmp_path / "fanin"
        said.write_text(answer if isinstance(answer, str) else json.dumps(answer) + "\n")
        file.write_text("#!/bin/sh\n" + program.replace("%s", str(heard), 1) % said)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(engine, "chosen", str(file))
        try:
            status = plan.main(["--algorithm=best", "--seed=1", "--slots=64", *flags])
        except SystemExit as end:
            status = end.code
        finally:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python begins
        request = json.loads(heard.read_text()) if heard.exists() else None
        return (status, *capsys.readouterr(), request)

    return ask


def test_one_request_has_all_that_is_asked_for(ask, tmp_path):
    out = tmp_path / "out"
    earlier = tmp_path / "earlier"
    earlier.write_text('{"trees": [], "assignments": []}')
    status, text, _, request = ask(
        {"plans": [PLAN], "install": {"parts": []}}, f"--network={NETWORK}", "--sums-at=rack",
        "--no-bound", f"--from={earlier}", f"--install={out}", "--trees=3",
    )  # fmt: skip
    assert status == 0 and text.startswith("best: 10 Gb/s")
    assert json.loads(out.read_text()) == {"parts": []}
    assert request.pop("topology") == formats.load(NETWORK).to_json()
    assert request == {
        "from": {"trees": [], "assignments": []},
        "algorithms": ["best"],
        "options": {"seed": 1, "trees": 3, "slots": 64, "sums_at": "rack"},
        "results": True,
        "bound": False,
        "wants_install": True,
    }


def test_json_is_the_plan_without_what_only_the_table_shows(ask):
    status, text, _, request = ask({"plans": [PLAN]}, f"--network={NETWORK}", "--json=-")
    shown = json.loads(text)
    assert status == 0 and text.startswith('{\n  "algorithm": "best",\n  "seed": 1,\n')
    assert '"share": 1.0' in text and set(PLAN) - set(shown) == {"seconds"}
    assert set(shown["loads"]) == {"links", "switches", "servers"} and request["bound"] is True
    many = {**PLAN, "assignments": PLAN["assignments"] * 5000}
    assert ask({"plans": [many]}, f"--network={NETWORK}", "--json=-")[1].count("\n") == 1


def test_a_number_keeps_all_its_digits(ask, tmp_path):
    out = tmp_path / "topology"
    network = tmp_path / "network"
    root = formats.load(NETWORK).to_json()
    root["links"][0]["gbps"] = 0.1 + 0.2
    network.write_text(json.dumps(root))
    ask({"plans": [PLAN]}, f"--network={network}", f"--topology={out}")
    assert "0.30000000000000004" in out.read_text() and json.loads(out.read_text()) == root


@pytest.mark.parametrize(
    "answer, flags, status, text",
    [
        ({"error": "jobs: none", "of_plan": False}, (), 2, f"{NETWORK}: jobs: none\n"),
        ({"plans": [{"algorithm": "atp", "error": "E", "text": "too large"}]}, (), 1,
         f"{NETWORK}: atp: too large\n"),
        ({"plans": [{**PLAN, "feasible_gbps": 0.0, "binding": ""}]}, (), 2,
         "infeasible: nothing has nothing left for best's plan\n"),
        ({"plans": [PLAN], "refused": "a circle"}, ("--install=-",), 2,
         f"{NETWORK}: --install: a circle\n"),
        ({"plans": [PLAN]}, ("--json=/nowhere/x",), 2, "fanin plan: --json: /nowhere/x: No such"),
        ({"plans": [PLAN]}, ("--topology=/nowhere/x",), 1, "--topology: /nowhere/x: No such"),
        ({"plans": [PLAN]}, ("--attach=k=3",), 2, 'fanin plan: --attach: "k": expected workers'),
        ({"plans": [PLAN]}, ("--plan=x", "--algorithm=atp"), 2, "there is no other plan"),
        ({"plans": [PLAN]}, ("--from=x", "--algorithm=all"), 2, "only best, grid and inart mend"),
        ({"plans": [PLAN]}, ("--plan=/nowhere/x",), 2, "/nowhere/x: No such file"),
        ({"plans": [PLAN]}, ("--wheels=4",), 2, "--wheels=4: expected --FLAG or --OPTION=VALUE"),
        ("half a li", (), 1, "fanin plan: the planner ended with 0\n"),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_ends_in_an_error(ask, answer, flags, status, text):
    ended, _, said, _ = ask(answer, f"--network={NETWORK}", *flags)
    assert ended == status and text in said


def test_a_planner_that_is_not_there_has_said_so(ask):
    ended, out, said, _ = ask("", f"--network={NETWORK}", program="exit 3 # %s %s")
    assert (ended, out, said) == (3, "", "")


def test_a_demand_that_is_not_met(ask, tmp_path):
    network = tmp_path / "network"
    root = formats.load(NETWORK).to_json()
    root["jobs"][0].update(demand_gbps=13, weight=1)
    network.write_text(json.dumps(root))
    status, _, said, _ = ask({"plans": [PLAN]}, f"--network={network}")
    assert status == 2 and said == (
        f'fanin plan: {network}: jobs[0].demand_gbps: infeasible: job "job" asks for 13 Gb/s, and best gives it '
        "10, for link W1-S1 is full; beside the others no plan gives it more than 12.5\n"
    )


def test_without_a_generator_there_is_no_page(ask):
    status, _, said, _ = ask({"plans": [PLAN]}, f"--network={NETWORK}", "--html=-")
    assert status == 1 and said.startswith("fanin plan: --html: no page/__main__.py")
    assert os.path.basename(engine.chosen) == "fanin"


def test_limits_between_switches_can_be_lifted():
    network = formats.load("leaf-spine:leaves=2,spines=1,workers=4,servers=1,link=10")
    network.links[0].background_gbps = 3
    network.lift_limits()
    assert [(one.gbps, one.background_gbps) for one in network.links[:2]] == [(100, 0), (100, 0)]
    assert {one.gbps for one in network.links[2:]} == {10}
