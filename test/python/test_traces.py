# SPDX-License-Identifier: Apache-2.0
"""fanin.workload and `fanin sim TRACE`: traces, workloads and lists of jobs."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path


import pytest
from conftest import free_port

import fanin.sim
import fanin.workload

BUILD = os.environ.get("BUILD", "build")
STAR = {"topology": "star:workers=4,link=10", "jobs": [{"name": "j", "model": {"numel": 100000}}]}


@pytest.fixture(name="program")
def _program():
    beside = os.path.join(os.path.dirname(os.environ.get("FANIN_LIBRARY", "")), "..", "fanin")
    for path in (os.path.join(BUILD, "fanin"), beside):
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    return fanin.sim.find_program()


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
    assert done.stderr.startswith(
        "fanin.workload: profile of torch.profiler: 1 all_gather of 8000 bytes"
    )
    assert done.stderr.endswith("; left out, 0.00% of the bytes: 1 broadcast of 40 bytes float32\n")
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
        trace["nodes"].append(
            dict(node, id=node["id"] + 100000, name="record_param_comms", ctrl_deps=node["id"])
        )
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
    assert (
        "traceEvents[0]: all_reduce without a size: this PyTorch notes"
        in convert(str(tmp_path / "t")).stderr
    )
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
        ({"ts": None}, "traceEvents[0]: ts: 'None': expected a time"),
        ({"ts": float("nan")}, "traceEvents[0]: ts: 'nan': expected a time"),
        ({"args": 3}, "traceEvents[0]: all_reduce without a size: profile with record_shapes=True"),
        ({"args": {}}, "traceEvents[0]: all_reduce without a size"),
        ({"args": dict(args, **{"Input Dims": [[[-5]]]})}, "'-5': expected a whole number"),
        ({"args": dict(args, **{"Input Dims": [[[1 << 50]]]})}, "expected a whole number up to"),
        ({"args": dict(args, **{"Input type": ["quint"]})}, "no type whose size is known"),
        (
            {"name": "c10d::send"},
            "no all-reduce, reduce-scatter or all-gather in it: 1 send of 20 bytes",
        ),
    ):
        yield json.dumps({"traceEvents": [{**event, "args": args, **change}]}), text
    deep = "[" * 100 + "3" + "]" * 100
    yield json.dumps({"traceEvents": [{**event, "args": args}]}).replace("[[[5]]]", deep), "shape"
    many = [{**event, "args": args, "ts": i} for i in range(5000)]
    yield json.dumps({"traceEvents": many}), "5000 collectives an iteration: at most 4096"
    yield '{"traceEvents": 5}', "traceEvents: expected a list"
    yield '{"nodes": [{"name": "c10d::allreduce_", "id": 1}]}', "nodes[0]: inputs: expected"
    yield "workload:\n  steps: 3\n", "looks like YAML of another kind; traces are read as PyTorch"
    yield "", "it is empty; traces are read as PyTorch"
    yield "[steps]\nn = 3\n", "not JSON: Expecting value at character 2"
    yield '{"workload": [{"size": 3}]}', "JSON of another kind; traces are read as"
    yield "[" * 100000, "not JSON: too deep a nesting at character"
    yield '{"traceEvents": [', "not JSON: it ends too early"


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
                assert len(str(error)) < 500
    done = convert(str(tmp_path / "none"))
    assert done.returncode == 1 and done.stdout == "" and "No such file" in done.stderr
    done = convert("--steps", "3", recorded(tmp_path, "profile"))
    assert done.returncode == 1 and "its 5 collectives are not 3 times the same" in done.stderr


# ---- what PyTorch itself records ----

PYTHON = os.environ.get("TRACED_PYTHON", sys.executable)  # one whose PyTorch is to be tried


@pytest.fixture(name="traced", scope="module")
def _traced(tmp_path_factory):
    """A folder with the files of two ranks, and PyTorch's version."""
    asked = subprocess.run(
        [PYTHON, "-c", "import torch.distributed; print(torch.__version__)"],
        check=False,
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        pytest.skip(f"{PYTHON}: no PyTorch")
    if asked.stdout.startswith("2.14"):  # Debian's
        pytest.skip("PyTorch 2.14: its Gloo refuses bfloat16")
    folder, port = tmp_path_factory.mktemp("traced"), free_port()
    program = Path(__file__).with_name("traced.py")
    ranks = [
        subprocess.Popen(
            [PYTHON, program, folder, str(rank), "2", str(port)],
            env=dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES=""),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    return folder, said[0].split()[-1]


def found_in(path):
    """Kind, type and bytes of all collectives."""
    trace = fanin.workload.read(str(path))
    fanin.workload.complete(trace)
    return sorted((one.kind, one.dtype, one.nbytes) for one in trace.found if one.nbytes)


def expected(version):
    """Of traced.py's collectives, but for those that PyTorch 1.13 or its Gloo has not."""
    is_2 = version >= "2"
    half = "bfloat16" if is_2 else "float16"
    rows = [("all_reduce", "float32", 4096), ("all_reduce", "float64", 4096)]
    rows += [("all_reduce", half, 512), ("all_gather", half, 400), ("broadcast", "float32", 40)]
    return sorted(rows + [("all_gather", "float32", 480), ("all_reduce", "float32", 96)] * is_2)


def test_an_execution_trace_has_all_types_lists_and_shares(traced):
    folder, version = traced
    assert found_in(folder / "execution.json") == expected(version)


def test_a_profile_of_gloo_has_them_too(traced):
    folder, version = traced
    if version >= "2":
        assert found_in(folder / "profile.json") == expected(version)
    else:
        with pytest.raises(fanin.workload.WorkloadError, match="its execution trace does"):
            found_in(folder / "profile.json")


def test_a_flight_recorder_has_them_too(traced):
    folder, version = traced
    names = [name for name in ("flight.pickle", "flight.json") if (folder / name).exists()]
    for name in names:
        assert found_in(folder / name) == sorted(expected(version) * 2)
    if not names:
        pytest.skip(f"PyTorch {version} has none of Gloo")
