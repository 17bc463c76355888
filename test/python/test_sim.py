# SPDX-License-Identifier: Apache-2.0
"""fanin.sim: `fanin sim` on a dictionary; fanin.workload: models for it from traces."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fanin.sim
import fanin.workload

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


# ---- fanin.workload: traces as models ----

TRAINING = Path(__file__).resolve().parents[1] / "data" / "training.json"


def recorded(tmp_path, part, count=None):
    """A file with what PyTorch has recorded: "profile" or "execution"; of it `count` all-reduces alone."""
    trace = json.loads(TRAINING.read_text(encoding="utf-8"))[part]
    key = {"profile": "traceEvents", "execution": "nodes"}[part]
    if count:
        trace[key] = [one for one in trace[key] if one["name"] == "c10d::allreduce_"][:count]
    path = tmp_path / f"{part}.json"
    path.write_text("\n" + json.dumps(trace), encoding="utf-8")
    return str(path)


def convert(*args):
    env = dict(os.environ, PYTHONPATH=str(Path(fanin.__file__).resolve().parents[1]))
    argv = [sys.executable, "-m", "fanin.workload", *args]
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=300, check=False)


def rows(done):
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "layer,numel,forward_ns,backward_ns"
    return [[int(n) for n in line.split(",")[1:]] for line in lines[1:]]


def test_a_profile_becomes_a_model_that_is_simulated(program, tmp_path):
    done = convert(recorded(tmp_path, "profile"))
    layers = rows(done)
    assert [numel for numel, _, _ in layers] == [2000, 33280, 267786, 33280, 267786]
    assert done.stderr == "fanin.workload: left out, no data parallelism: 1 broadcast of 40 bytes\n"
    assert "\\x1b[31m\\u202e: " in convert(str(tmp_path / "\x1b[31m\u202e")).stderr
    assert all(forward == 0 and backward > 0 for _, forward, backward in layers)
    done = convert("--steps", "2", recorded(tmp_path, "profile", 4))
    assert [numel for numel, _, _ in rows(done)] == [33280, 267786]
    assert rows(done) == layers[1:3]  # times of the last step
    (tmp_path / "model.csv").write_text(done.stdout, encoding="utf-8")
    scenario = dict(STAR, jobs=[{"name": "j", "model": "model.csv"}])
    result = fanin.sim.run(scenario, folder=tmp_path, program=program, timeout=300)
    (job,) = result["jobs"]
    assert job["model_elements"] == 33280 + 267786 and job["error"] is None
    assert job["jct_s"] > sum(backward for _, _, backward in rows(done)) / 1e9


def of_nccl(name, dtype, in_numel, out_numel, at):
    """What NCCL's process group notes of a collective, by the names that PyTorch 2.9.1's profiler has."""
    args = {"Collective name": name, "dtype": dtype, "Group size": 4}
    args.update({"In msg nelems": in_numel, "Out msg nelems": out_numel})
    return {"ph": "X", "name": "record_param_comms", "ts": at, "dur": 5, "args": args}


def test_sizes_that_nccl_notes_count_and_once(tmp_path):
    shapes = {"Input Dims": [[[999]]], "Input type": ["TensorList"]}  # would be float32
    events = [
        {"ph": "X", "name": "aten::mm", "ts": 100.0, "dur": 5, "args": {}},
        {"ph": "X", "name": "c10d::allreduce_", "ts": 199.0, "dur": 9, "args": shapes},
        of_nccl("allreduce", "BFloat16", 6000, 6000, 200.0),
        of_nccl("_reduce_scatter_base", "Float", 8000, 2000, 300.0),
        of_nccl("_allgather_base", "Half", 1000, 4000, 400.0),
        of_nccl("wait", "Byte", 0, 0, 450.0),
        of_nccl("barrier", "Byte", 1, 1, 460.0),
    ]
    path = tmp_path / "nccl.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    done = convert(str(path))
    assert sorted(numel for numel, _, _ in rows(done)) == [2000, 3000, 8000]
    assert "999" not in done.stdout and "1 barrier" in done.stderr, done
    # an execution trace has them below the operation that counts
    before = rows(convert(recorded(tmp_path, "execution")))
    trace = json.loads((tmp_path / "execution.json").read_text(encoding="utf-8"))
    for node in [one for one in trace["nodes"] if one["name"] == "c10d::allreduce_"]:
        trace["nodes"].append(dict(node, id=node["id"] + 100000, name="record_param_comms"))
    path.write_text(json.dumps(trace), encoding="utf-8")
    assert rows(convert(str(path))) == before


def test_an_execution_trace_has_no_times(tmp_path):
    layers = rows(convert("--compute-ms", "10", recorded(tmp_path, "execution")))
    assert [numel for numel, _, _ in layers] == [2000, 33280, 267786, 33280, 267786]
    assert [backward for _, _, backward in layers] == [2000000] * 5
    assert rows(convert("--steps", "2", recorded(tmp_path, "execution", 4)))[0] == [33280, 0, 0]


def gloo(name, dtype, numels, at):
    """What Gloo's process group notes of an operation in PyTorch 2.15."""
    args = {"Input Dims": [[n] for n in numels], "Input type": [dtype] * len(numels)}
    return {"ph": "X", "name": f"gloo:{name}", "ts": at, "dur": 5, "args": args}


def c10d(name, at, *arguments):
    """An operation's event: (dims, type) of each argument."""
    args = {"Input Dims": [a for a, _ in arguments], "Input type": [b for _, b in arguments]}
    return {"ph": "X", "name": f"c10d::{name}", "ts": at, "dur": 5, "args": args}


def sizes(path, trace, *flags):
    path.write_text(json.dumps(trace), encoding="utf-8")
    return [4 * numel for numel, _, _ in reversed(rows(convert(*flags, str(path))))]


def test_lists_have_the_types_that_gloo_notes_and_gathers_all_shares(tmp_path):
    events = [
        c10d("allreduce_", 10, ([[1024]], "TensorList"), ([], ""), ([], "Scalar")),
        c10d("allgather_", 20, ([], ""), ([[1024]], "TensorList"), ([], "Scalar")),
        c10d("allreduce_coalesced_", 30, ([[8], [16]], "TensorList"), ([], "")),
        c10d("allreduce_", 40, ([[7]], "TensorList")),  # nobody notes its type
        c10d("allreduce_", 50, ([], "double")),  # a number as a tensor
        gloo("all_reduce", "c10::BFloat16", [1024], 11),
        gloo("all_gather", "c10::BFloat16", [1024], 21),
        gloo("all_reduce", "float", [8, 16], 31),
    ]
    trace = {"distributedInfo": {"world_size": 2}, "traceEvents": events}
    assert sizes(tmp_path / "t", trace) == [2048, 4096, 96, 28, 8]
    assert sizes(tmp_path / "t", trace, "--ranks", "3")[1] == 6144
    del trace["distributedInfo"]
    (tmp_path / "t").write_text(json.dumps(trace), encoding="utf-8")
    assert "traceEvents[1]: all_gather of one rank's share" in convert(str(tmp_path / "t")).stderr


def test_operations_without_a_size_have_the_backends(tmp_path):
    """As PyTorch 1.13 writes them; one that nobody knows the size of is an error."""
    empty = ([], "TensorList"), ([], "")
    trace = [c10d("allreduce_", 10, *empty), c10d("allreduce_", 20, *empty),
             gloo("all_reduce", "float", [1000], 11), gloo("all_reduce", "half", [50], 21)]  # fmt: skip
    assert sizes(tmp_path / "t", {"traceEvents": trace}) == [4000, 100]
    trace[2:] = [c10d("_reduce_scatter_base_", 30, ([5], "float"), ([10], "float"))]
    (tmp_path / "t").write_text(json.dumps({"traceEvents": trace}), encoding="utf-8")
    assert "traceEvents[0]: all_reduce without a size" in convert(str(tmp_path / "t")).stderr
    noted = of_nccl("allreduce", "Float", 2049000, 2049000, 102.0)
    bare = {"ph": "X", "name": "c10d::allreduce_", "ts": 100, "dur": 9, "args": {"Ev Idx": 1}}
    assert sizes(tmp_path / "t", {"traceEvents": [bare, noted]}) == [4 * 2049000]


def test_execution_traces_of_all_schemas(tmp_path):
    old = {"name": "c10d::allreduce_", "id": 7, "inputs": [[[6, 5, 0, 500, 4, "cpu"]], "<Object>", -1],
           "input_shapes": [[[500]], [], []], "input_types": ["GenericList[Tensor(float)]", "Object", "Int"]}  # fmt: skip
    assert sizes(tmp_path / "t", {"schema": "1.0.1", "nodes": [old]}) == [2000]
    half = "Tensor(c10::BFloat16)"
    inputs = {"shapes": [[[[64], [64]]], [[64]], []],
              "types": [f"GenericList[GenericList[{half},{half}]]", f"GenericList[{half}]", "Object"]}  # fmt: skip
    new = {"name": "c10d::allgather_", "id": 9, "inputs": inputs}
    assert sizes(tmp_path / "t", {"schema": "1.1.1-chakra.0.0.4", "nodes": [new]}) == [256]


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def chakra(nodes):
    """A file of Chakra's messages: (type, start, duration, comm_type, comm_size)."""
    metadata = field(1, b"0.0.4")
    out = varint(len(metadata)) + metadata
    for i, (kind, start, duration, comm, size) in enumerate(nodes):
        node = field(1, i) + field(2, b"node") + field(3, kind) + field(6, start)
        node += field(7, duration)
        for name, value in (("comm_type", comm), ("comm_size", size)):
            node += field(10, field(1, name.encode()) + field(9, value))
        out += varint(len(node)) + node
    return out


COMPUTES, COLLECTIVE = 4, 7
NODES = [
    (COMPUTES, 0, 300, 0, 0),
    (COLLECTIVE, 0, 50, 0, 4000),  # all-reduce
    (COMPUTES, 0, 200, 0, 0),
    (COLLECTIVE, 0, 50, 2, 8001),  # all-gather
    (COLLECTIVE, 0, 50, 6, 9999),  # all to all
    (COMPUTES, 0, 100, 0, 0),
    (COLLECTIVE, 0, 50, 7, 12000),  # reduce-scatter
]


def test_chakra_as_messages_and_as_their_json(tmp_path):
    path = tmp_path / "trace.et.gz"
    path.write_bytes(gzip.compress(chakra(NODES)))
    done = convert("--ranks", "4", str(path))
    assert (
        done.returncode == 1 and "17% of the bytes would be left out: 1 all_to_all" in done.stderr
    )
    chosen = ["--ranks", "4", "--partial"]
    done = convert(*chosen, str(path))
    wanted = [[3000, 0, 100000], [8001, 0, 200000], [1000, 0, 300000]]
    assert rows(done) == wanted and "1 all_to_all of 9999 bytes" in done.stderr
    done = convert("--partial", str(path))
    assert (
        done.returncode == 1
        and "node 3: all_gather of one rank's share: of how many" in done.stderr
    )
    names = {COMPUTES: "COMP_NODE", COLLECTIVE: "COMM_COLL_NODE"}
    text = '{"version": "0.0.4"}\n'
    for i, (kind, _, duration, comm, size) in enumerate(NODES):
        attr = [
            {"name": "comm_type", "int64Val": str(comm)},
            {"name": "comm_size", "int64Val": size},
        ]
        node = {"id": str(i), "type": names[kind], "durationMicros": str(duration), "attr": attr}
        text += json.dumps(node, indent=1) + "\n"
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    assert rows(convert(*chosen, str(path))) == wanted
    timed = [(kind, 1000 + 100 * i, *more) for i, (kind, _, *more) in enumerate(NODES)]
    path.write_bytes(chakra(timed))
    assert [ns for _, _, ns in rows(convert(*chosen, str(path)))] == [300000, 200000, 100000]


def wrong_profiles():
    """Traces that make no sense, and what is said."""
    event = {"ph": "X", "name": "c10d::allreduce_", "ts": 1.0}
    args = {"Input Dims": [[[5]]], "Input type": ["TensorList"]}
    for change, text in (
        ({"ts": None}, "traceEvents[0]: ts: 'None': expected microseconds"),
        ({"ts": float("nan")}, "traceEvents[0]: ts: 'nan': expected microseconds"),
        ({"args": 3}, "traceEvents[0]: no args"),
        ({"args": {}}, "traceEvents[0]: no shapes: profile with record_shapes=True"),
        ({"args": dict(args, **{"Input Dims": [[[-5]]]})}, "'-5': expected a whole number"),
        ({"args": dict(args, **{"Input Dims": [[[1 << 40]]]})}, "expected a whole number up to"),
        ({"args": dict(args, **{"Input type": ["complex"]})}, "no type whose size is known"),
        ({"name": "c10d::send"}, "no all-reduce, reduce-scatter or all-gather in it"),
    ):
        yield json.dumps({"traceEvents": [{**event, "args": args, **change}]}), text
    deep = "[" * 100 + "3" + "]" * 100
    yield json.dumps({"traceEvents": [{**event, "args": args}]}).replace("[[[5]]]", deep), "shape"
    many = [{**event, "args": args, "ts": i} for i in range(5000)]
    yield json.dumps({"traceEvents": many}), "5000 collectives an iteration: at most 4096"
    yield '{"traceEvents": 5}', "traceEvents: expected a list"
    yield '{"nodes": [{"name": "c10d::allreduce_", "id": 1}]}', "nodes[0]: inputs: expected"
    yield "workload:\n  steps: 3\n", "text: expected JSON of torch.profiler"
    yield "", "empty: expected JSON"
    yield "[steps]\nn = 3\n", "no JSON: Expecting value: line 1 column 2 (char 1): expected JSON of"
    yield '{"workload": [{"size": 3}]}', "JSON of another kind: expected"
    yield "[" * 100000, ""
    yield '{"traceEvents": [', ""


def test_traces_that_make_no_sense_are_named(tmp_path):
    path = tmp_path / "trace"
    for text, said in wrong_profiles():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(fanin.workload.WorkloadError) as error:
            fanin.workload.model(fanin.workload.read(str(path)))
        assert said in str(error.value), (text[:80], error.value)
    whole = chakra(NODES)
    for end in range(1, len(whole)):  # cut off anywhere
        path.write_bytes(whole[:end])
        if any(whole[:end] == chakra(NODES[:n]) for n in range(len(NODES))):
            continue
        with pytest.raises(fanin.workload.WorkloadError):
            fanin.workload.read(str(path))
    inner = field(3, COLLECTIVE) + varint(10 << 3 | 2) + varint(200) + b"short"
    path.write_bytes(chakra([]) + varint(len(inner)) + inner)
    with pytest.raises(fanin.workload.WorkloadError, match="a field of 200 bytes in 5"):
        fanin.workload.read(str(path))
    for at in range(0, len(whole), 3):  # and damaged anywhere
        for byte in (0, 0x7F, 0xFF, whole[at] ^ 1):
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            try:
                fanin.workload.model(fanin.workload.read(str(path)))
            except fanin.workload.WorkloadError as error:
                assert len(str(error)) < 300
    done = convert(str(tmp_path / "none"))
    assert done.returncode == 1 and done.stdout == "" and "No such file" in done.stderr
    done = convert("--steps", "3", recorded(tmp_path, "profile"))
    assert done.returncode == 1 and "its 5 collectives are not 3 times the same" in done.stderr


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
