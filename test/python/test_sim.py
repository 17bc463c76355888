# SPDX-License-Identifier: Apache-2.0
"""fanin.sim: `fanin sim` on a dictionary, and --calibrate."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fanin.sim

BUILD = os.environ.get("BUILD", "build")
STAR = {"topology": "star:workers=4,link=10", "jobs": [{"name": "j", "model": {"numel": 100000}}]}


@pytest.fixture(name="program")
def _program():
    beside = os.path.join(os.path.dirname(os.environ.get("FANIN_LIBRARY", "")), "..", "fanin")
    for path in (os.path.join(BUILD, "fanin"), beside):
        if os.access(path, os.X_OK):
            return path
    return fanin.sim.find_program()


def test_every_element_is_checked_and_series_are_arrays(program):
    numpy = pytest.importorskip("numpy")
    result = fanin.sim.run(STAR, seed=3, program=program, timeout=300)
    job = result["jobs"][0]
    assert job["error"] is None and job["checked_elements"] == job["reduced_elements"] > 0
    series = result["switches"][0]["series"]
    assert isinstance(series["occupancy"], numpy.ndarray) and (series["occupancy"] <= 1).all()
    assert isinstance(fanin.sim.arrays({"a": [[1, 2], "x"]})["a"][0], numpy.ndarray)


def test_settings_sweeps_and_files(program, tmp_path):
    (tmp_path / "mlp.csv").write_text(
        "layer,numel,forward_ns,backward_ns\nall,50000,1000,2000\n", encoding="utf-8"
    )
    scenario = dict(STAR, jobs=[{"name": "j", "model": "mlp.csv"}])
    result = fanin.sim.run(
        scenario,
        sets={"jobs.j.iterations": 2},
        sweep={"jobs.j.window": [8, 64]},
        parallel=2,
        folder=tmp_path,
        program=program,
        timeout=300,
    )
    assert [run["set"]["jobs.j.window"] for run in result["runs"]] == [8, 64]
    assert all(run["jobs"][0]["iterations"] == 2 for run in result["runs"])
    slow, fast = (run["jobs"][0]["jct_s"] for run in result["runs"])
    assert fast <= slow


def test_rings_carry_the_wire_type(program):
    scenario = dict(STAR, jobs=[{"name": "j", "model": {"numel": 1000000}, "reduce": "ring"}])
    sweep = {"jobs.j.wire": ["float32", "float16"], "jobs.j.reduce": ["ring", "tree"]}
    runs = fanin.sim.run(scenario, sweep=sweep, program=program, timeout=300)["runs"]
    comm_s = {tuple(run["set"].values()): run["jobs"][0]["comm_s"] for run in runs}
    for reduce in "ring", "tree":
        assert comm_s["float16", reduce] == pytest.approx(comm_s["float32", reduce] / 2, rel=0.05)


def test_what_is_wrong_is_said_and_who_fails_is_in_the_result(program):
    with pytest.raises(fanin.sim.ScenarioError, match='jbos: no such key; did you mean "jobs"'):
        fanin.sim.run(dict(STAR, jbos=[]), program=program, timeout=300)
    result = fanin.sim.run(dict(STAR, limit_s=1e-5), program=program, timeout=300)
    assert result["failed_jobs"] == 1 and "limit_s" in result["jobs"][0]["error"]


def test_flows_are_spread_over_shortest_paths(program):
    """Eight workers on two leaves, four spines: by hash more than one spine carries them, all sums exact."""
    scenario = {
        "topology": "leaf-spine:leaves=2,spines=4,workers=8,hosts=4,link=10",
        "jobs": [{"name": f"j{i}", "model": {"numel": 20000}, "workers": 8} for i in range(4)],
    }
    used = {}
    for ecmp in (False, True):
        result = fanin.sim.run(dict(scenario, ecmp=ecmp), program=program, timeout=300)
        assert all(job["error"] is None for job in result["jobs"])
        used[ecmp] = {
            link["to"]
            for link in result["links"]
            if link["to"].startswith("S") and link["bytes"] > 0
        }
        again = fanin.sim.run(dict(scenario, ecmp=ecmp), program=program, timeout=300)
        assert again["end_s"] == result["end_s"]
    assert len(used[False]) == 1 and len(used[True]) > 1, used


def test_the_notebook_runs_from_its_first_cell_to_its_last(program, monkeypatch, capsys):
    path = Path(__file__).resolve().parents[2] / "examples" / "simulation.ipynb"
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    monkeypatch.setattr(fanin.sim, "find_program", lambda: program)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # no window, where matplotlib is there
    names = {}
    for cell in book["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    result, times = names["result"], names["times"]
    assert all(job["error"] is None and job["checked_elements"] > 0 for job in result["jobs"])
    assert times["esa"][32] < times["switchml"][32]  # what the notebook is about: memory is scarce
    said = capsys.readouterr().out
    assert "elements were checked" in said and "switchml" in said


# ---- a scenario from a trace of real ranks ----

# Two hosts with links of 200 Mb/s, in network namespaces: five all-reduces of 256 KiB and of 4 MiB,
# each after 30 ms.
MEASURED = Path(__file__).parent.parent / "data" / "calibrate.json"


def calibrated(program, trace):
    done = subprocess.run(
        [program, "sim", "--calibrate", str(trace)], capture_output=True, text=True, timeout=60
    )
    return done, json.loads(done.stdout) if done.returncode == 0 else None


def measured_ms(size):
    """Median time between two beginnings of rank 0's all-reduces of so many bytes."""
    begins = [
        e["ts"] / 1e3
        for e in json.loads(MEASURED.read_text())
        if e["ph"] == "b" and e["pid"] == 0 and e["args"]["bytes"] == size
    ]
    periods = sorted(b - a for a, b in zip(begins, begins[1:]))
    return periods[len(periods) // 2]


def test_a_calibrated_scenario_takes_as_long_as_what_was_measured(program):
    done, scenario = calibrated(program, MEASURED)
    assert done.returncode == 0, done.stderr
    assert 0.18 < scenario["topology"]["links"][0]["gbps"] < 0.22  # 200 Mb/s
    iteration_ms = measured_ms(4 << 20)
    job = fanin.sim.run(scenario)["jobs"][0]
    ends = job["iteration_ends_s"]
    assert abs((ends[2] - ends[1]) * 1e3 / iteration_ms - 1) < 0.1


def test_a_trace_without_all_reduces_is_no_scenario(program, tmp_path):
    empty = tmp_path / "empty.json"
    for text in ("[]", "{}", '[{"ph": "b", "name": "allreduce", "args": {"bytes": 65536}}]'):
        empty.write_text(text)
        done, _ = calibrated(program, empty)
        assert done.returncode == 2 and "expected two all-reduces" in done.stderr, done.stderr
    done, _ = calibrated(program, tmp_path / "none.json")
    assert done.returncode == 2 and "none.json" in done.stderr, done.stderr


def test_buckets_of_an_iteration_are_found(program, tmp_path):
    """Three buckets, 10 ms of computing, at 8 ns a byte and 1 ms each."""
    events, now = [], 0.0
    for i in range(12):
        size = (1 << 20, 1 << 20, 1 << 18)[i % 3]
        took = 1000 + size * 8e-3
        for phase, at in (("b", now), ("e", now + took)):
            events.append({"ph": phase, "name": "allreduce", "id": "0.%d" % i, "pid": 0, "ts": at})
        events[-2]["args"] = {"bytes": size}
        now += took + (10000 if i % 3 == 2 else 0)
    trace = tmp_path / "buckets.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    done, scenario = calibrated(program, trace)
    assert done.returncode == 0, done.stderr
    model = scenario["jobs"][0]["model"]
    assert (model["layers"], model["numel"]) == (3, (2 << 18) + (1 << 16))
    assert abs(model["forward_ms"] - 10) < 1e-6
    link = scenario["topology"]["links"][0]
    assert abs(link["delay_us"] - 500) < 1e-6
    assert abs(link["gbps"] * 1408 / 1510 - 1) < 1e-6
