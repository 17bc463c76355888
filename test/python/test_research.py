# SPDX-License-Identifier: Apache-2.0
"""fanin.research: settings, models, outcomes; flat scenarios, and what the engine says of wrong ones."""

import copy
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from fanin.research import engine, fields, files, jobs, models, outcome, planned, settings, topology
from fanin.research.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="program", scope="module")
def _program():
    beside = os.path.join(os.path.dirname(os.environ.get("FANIN_LIBRARY", "")), "..", "fanin")
    for path in (os.path.join(os.environ.get("BUILD", "build"), "fanin"), beside):
        if os.access(path, os.X_OK):
            return path
    return engine.find_program()


# ---- outcomes ----


def run_of(variant, slots, seed, mean, failed=0):
    by = {"variant": variant, "n.slots": slots, "seed": seed}
    return {"set": by, "avg_jct_s": mean, "failed_jobs": failed, "jobs": [1, 2]}


SWEEP = {
    "runs": [
        run_of("a", 8, 1, 2),
        run_of("a", 8, 2, 6),
        run_of("b", 8, 1, 5),
        run_of("a", 8, 3, 1),
        run_of("b", 8, 2, 1, failed=1),
        run_of("a", 16, 1, None, failed=2),
    ]
}


def test_runs_that_differ_in_their_seed_are_one_outcome():
    first, second, third = outcome.outcomes(SWEEP)
    assert (first.name, first.runs, first.times, first.failed) == ("a, slots=8", 3, [2, 6, 1], 0)
    assert first.mean == 3
    # a run in which a job failed has no time
    assert (second.name, second.runs, second.times) == ("b, slots=8", 2, [5])
    assert (second.mean, second.failed, second.jobs) == (5, 1, 4)
    assert not third.times and third.mean != third.mean
    rows = list(outcome.sweep_rows(SWEEP))
    assert rows[2].split()[-2:] == ["1.667", "1"] and " - " in rows[3], rows


# ---- settings ----

NODES = [{"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "0", "n": 3}]
GIVEN = {"seed": 1, "nodes": NODES, "list": [1, 2, 3]}


@pytest.mark.parametrize(
    "path, numbers",
    [("nodes.b.n", [1, 9, 3]), ("nodes.1.n", [1, 9, 3]), ("nodes.*.n", [9, 9, 9]),
     ("nodes.0.n", [9, 2, 9])],  # a name that is a number as well: both
)  # fmt: skip
def test_a_setting_finds_keys_names_and_numbers(path, numbers):
    root = copy.deepcopy(GIVEN)
    settings.put(root, path, 9)
    assert [node["n"] for node in root["nodes"]] == numbers
    settings.put(root, "list.2", 5)
    assert root["list"] == [1, 2, 5]


@pytest.mark.parametrize(
    "path, lost",
    [("nodes.c.n", "c"), ("nodes.3.n", "3"), ("jobs.0.n", "jobs"), ("seed.deeper", "deeper"),
     ("", ""), ("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q")],
)  # fmt: skip
def test_a_setting_that_leads_nowhere_changes_nothing(path, lost):
    root = copy.deepcopy(GIVEN)
    with pytest.raises(settings.SettingError) as error:
        settings.put(root, path, 1)
    assert str(error.value) == f'"{path}": the scenario has nothing at "{lost}"'
    assert root == GIVEN


def test_a_value_is_json_or_else_a_text():
    texts = ("[]", "esa", '"7"', "true", "0.5", "1 2", "NaN", "12345678901234567890")
    assert [files.value_of(text) for text in texts] == [
        [], "esa", "7", True, 0.5, "1 2", "NaN", "12345678901234567890"
    ]  # fmt: skip


# ---- models ----

PARAMETERS = {
    "alexnet": 61100840, "vgg16": 138357544, "vgg19": 143667240, "resnet50": 25557032,
    "resnet101": 44549160, "resnet152": 60192808, "bert-base": 109482240,
    "bert-large": 335141888, "gpt2-small": 124439808, "ncf": 31832577,
}  # fmt: skip


def test_models_have_the_published_parameters():
    found = {name: sum(layer.numel for layer in models.made(name)) for name in models.NAMES}
    assert found == PARAMETERS


def test_models_take_the_measured_times():
    def times(name):
        layers = models.made(name)
        return sum(l.forward_ns for l in layers), sum(l.backward_ns for l in layers)

    assert times("vgg16") == (252000000, 439000000)
    assert times("resnet50") == (202000000, 261000000)
    assert 315000000 < times("vgg19")[0] < 325000000
    assert 550000000 < times("resnet152")[0] < 580000000


def test_multiply_adds_are_those_of_the_literature():
    for name, low, high in (("vgg16", 15.4, 15.6), ("resnet50", 4.05, 4.15),
                            ("resnet152", 11.45, 11.65), ("alexnet", 0.7, 0.73)):  # fmt: skip
        assert low < models.macs(name) / 1e9 < high, name
    layers = models.made("vgg16")
    assert (len(layers), layers[13].name) == (16, "fc6")
    assert layers[13].numel * 100 // PARAMETERS["vgg16"] == 74


def test_a_table_of_layers_is_read():
    text = "layer, numel ,forward_ns,backward_ns\r\n# measured\n\nconv,10,20,30\nfc , 4096,0,1"
    assert models.parse(text) == [("conv", 10, 20, 30), ("fc", 4096, 0, 1)]


HEAD = "layer,numel,forward_ns,backward_ns\n"
NO_HEAD = f"line 1: expected the columns {HEAD.strip()}"


@pytest.mark.parametrize(
    "text, said",
    [
        ("", NO_HEAD),
        ("layer,numel,forward_ns\n", NO_HEAD),
        (HEAD.strip() + ",more\n", NO_HEAD),
        (HEAD, "expected at least one layer"),
        (HEAD + "a,1,2\n", "line 2: expected 4 fields"),
        (HEAD + "a,1,2,3\nb,-1,2,3\n", "line 3: numel: expected a whole number of at most 2^36"),
        (HEAD + "a,68719476737,2,3\n", "line 2: numel: expected a whole number of at most 2^36"),
        (HEAD + "a,1,2x,3\n", "line 2: forward_ns: expected a whole number of at most an hour"),
        (HEAD + "a,1,2,3600000000001\n", "line 2: backward_ns: expected a whole number"),
        (HEAD + "a,1,2,3\n" * 4097, "line 4098: too many layers"),
    ],
)
def test_a_table_that_makes_no_sense_is_named_by_line(text, said):
    with pytest.raises(models.ModelError) as error:
        models.parse(text)
    assert said in str(error.value)


# ---- flows ----

SHAKY = {
    "seed": 5,
    "level": "flows",
    "topology": {
        "nodes": [{"name": "s", "kind": "switch"}, {"name": "w", "kind": "worker", "count": 6}],
        "links": [{"a": "w*", "b": "s", "gbps": 10}],
    },
    "jobs": [
        {"name": "a", "model": {"of": "resnet50", "scale": 0.01}, "iterations": 3, "jitter": 0.1,
         "pareto": 2.5, "bucket_bytes": 100000},
        {"name": "b", "model": {"of": "vgg16", "scale": 0.01}, "iterations": 2, "reduce": "ring",
         "slow": [{"speed": 0.5, "chance": 0.3, "interval_ms": 1, "from_s": 0.001}]},
    ],
}  # fmt: skip


def test_flows_give_the_same_digits_everywhere(program, monkeypatch):
    monkeypatch.setattr(engine, "chosen", program)
    result = json.loads(engine.ask({"scenario": Scenario("shaky", SHAKY).flat()}))
    a, b = result["jobs"]
    assert (result["avg_jct_s"], result["end_s"]) == (0.0309028655037879, 0.0361833668636364)
    assert (a["comm_s"], a["wait_s"]) == (0.00547127442424242, 0.000120389363636367)
    assert b["iteration_ends_s"] == [0.0128769664621212, 0.0256223641439394]


# ---- flat scenarios ----

STAR = {
    "topology": {
        "nodes": [
            {"name": "ps", "kind": "server"},
            {"name": "s", "kind": "switch", "policy": "esa", "server": "ps", "slots": 64},
            {"name": "w", "kind": "worker", "count": 3},
        ],
        "links": [
            {"a": "w*", "b": "s", "gbps": 10},
            {"a": "s", "b": "ps", "gbps": 10, "loss": 0.01},
        ],
    },
    "jobs": [
        {"name": "a", "model": {"numel": 1000, "layers": 2}, "slow": [{"rank": 1, "speed": 0.5}]},
        {"name": "b", "model": "ncf", "reduce": "ring"},
    ],
    "background": [{"from": "w0", "to": "w1", "gbps": 1, "stop_s": 0.0001}],
    "flows": [{"from": "w1", "to": "w2", "kind": "cubic", "bytes": 1000}],
    "changes": [{"at_s": 0.0001, "a": "w0", "b": "s", "gbps": 5}],
}


def asked(program, request):
    """2 if the engine says that the request is wrong, 1 if another error, else 0; and what it says."""
    done = subprocess.run(
        [program, "sim", "--engine"], input=json.dumps(request), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode, done.stdout[-1]) == ("", 0, "\0")
    said = json.loads(done.stdout[:-1])
    return 2 if said.get("wrong") else 1 if "error" in said else 0, said


def leaves(value, path=()):
    """Paths of all numbers, texts and truths."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))
    else:
        yield path


def place_of(path):
    """How the engine writes it: "jobs[0].slow[0].rank"; of a list of numbers the key alone."""
    parts = list(path)
    while isinstance(parts[-1], int):
        parts.pop()
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


NUMBERS = ("node", "server", "parent", "a", "b", "from", "to", "link", "at", "model")  # of others


def test_the_engine_names_every_wrong_field(program):
    flat = json.loads(json.dumps(Scenario("star", STAR).flat()))
    status, result = asked(program, {"scenario": flat})
    assert status == 0 and result["failed_jobs"] == 0
    tried = 0
    for path in leaves(flat):
        for wrong in (-1, 1 << 62, {}):
            bad = copy.deepcopy(flat)
            at = bad
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = wrong
            status, said = asked(program, {"scenario": bad})
            place = place_of(path)
            if place.startswith("models"):
                place = "jobs"  # the first that has it
            assert status == 2 and said["error"].startswith(place), (path, wrong, said)
            tried += 1
    assert tried > 300


MILLIONTHS = {"slow.speed": 1, "slow.chance": 0, "background.jitter": 0, "link.loss": 0, "link.loss_burst": 0,
              "link.duplicate": 0, "link.reorder": 0, "link.corrupt": 0}  # fmt: skip
LISTS = {"node": "nodes", "link": "links", "background": "background", "job": "jobs"}


@pytest.mark.parametrize("field", MILLIONTHS)
def test_the_engine_takes_parts_of_a_million(program, field):
    """The field takes its least value and 10^6, and is named for one beyond either."""
    flat = json.loads(json.dumps(Scenario("star", STAR).flat()))
    of, key = field.split(".")
    if of == "slow":
        (at, where), *_ = [(j["slow"][0], f"jobs[{i}].slow[0]") for i, j in enumerate(flat["jobs"]) if j.get("slow")]  # fmt: skip
    else:
        at, where = flat[LISTS[of]][0], LISTS[of] + "[0]"
    least = MILLIONTHS[field]
    for value in (least - 1, 10**6 + 1):
        at[key] = value
        status, said = asked(program, {"scenario": flat})
        assert status == 2 and said["error"].startswith(f"{where}.{key}: "), (value, said)
    flat["limit_ns"] = 1000  # none of it runs
    for value in (least, 10**6):
        at[key] = value
        assert asked(program, {"scenario": flat})[0] != 2, value


def test_the_engine_takes_no_number_of_what_there_is_not(program):
    flat = json.loads(json.dumps(Scenario("star", STAR).flat()))
    for path in leaves(flat):
        route = path[-2:-1] == ("seats",) and path[-1] % 5 == 4  # any number may be one's
        if path[-1] in NUMBERS or path[-2:-1] in (("hosts",), ("seats",)) and not route:
            bad = copy.deepcopy(flat)
            at = bad
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = 4000
            status, said = asked(program, {"scenario": bad})
            assert status == 2 and said["error"].startswith(path[0]), (path, said)


def test_the_engine_refuses_circles_and_unknown_keys(program):
    flat = json.loads(json.dumps(Scenario("star", STAR).flat()))
    for key in ("parent", "server"):
        bad = copy.deepcopy(flat)
        bad["nodes"][0][key] = 1
        bad["nodes"][1][key] = 0
        status, said = asked(program, {"scenario": bad})
        assert status == 2 and "make no tree" in said["error"], said
    for bad in ({}, [], {"nodes": []}, {**flat, "x": 1}, {**flat, "jobs": []}):
        status, said = asked(program, {"scenario": bad})
        assert status == 2 and said["error"], said
    status, said = asked(program, {})
    assert status == 2


def test_bounds_are_those_of_the_core():
    text = (ROOT / "src" / "core" / "base" / "limits.h").read_text(encoding="utf-8")
    core = {k: int(v) for k, v in re.findall(r"#define FAN_(\w+)\s+(\d+)\b", text)}
    text = (ROOT / "simulator" / "sim" / "scenario.h").read_text(encoding="utf-8")
    core.update((k, int(v)) for k, v in re.findall(r"#define FAN_(SCENARIO_\w+)\s+(\d+)\b", text))
    ours = {
        "RANKS_MAX": topology.RANKS_MAX, "WINDOW_MAX": topology.WINDOW_MAX,
        "WINDOW_QUOTA": topology.WINDOW_QUOTA, "AHEAD_MAX": topology.AHEAD_MAX,
        "PAYLOAD_MIN": topology.PAYLOAD_MIN, "PAYLOAD_MAX": topology.PAYLOAD_MAX,
        "PAYLOAD_1500": topology.PAYLOAD_1500, "SLOTS_MAX": topology.SLOTS_MAX,
        "JOBS_MAX": topology.JOBS_MAX, "ENVELOPE_HOPS_MAX": topology.HOPS_MAX,
        "WORKERS_MAX": jobs.WORKERS_MAX, "CACHE_MAX": jobs.CACHE_MAX,
        "ROUTE_ENTRIES_MAX": planned.ENTRIES_MAX, "ROUTES_MAX": planned.ROUTES_MAX,
        "NAME_MAX": fields.NAME_MAX, "SCENARIO_NODES_MAX": topology.NODES_MAX,
        "SCENARIO_LINKS_MAX": topology.LINKS_MAX, "SCENARIO_JOBS_MAX": jobs.JOBS_MAX,
    }  # fmt: skip
    assert ours == {key: core[key] for key in ours}


def test_words_are_compared_like_a_reader_would():
    assert fields.nearest("swithces", ("workers", "switches", "servers")) == "switches"
    assert fields.nearest("x", ("workers", "switches")) == ""
    assert fields.nearest("y" * 100, ("y" * 100,)) == ""
