# SPDX-License-Identifier: Apache-2.0
"""fanin.research.formats: every form of traces by hand from its documentation, and what is hostile."""

import io
import itertools
import json
import os
import pickle
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from test_traces import (  # noqa: F401  pylint: disable=unused-import
    BUILD,
    NODES,
    _program,
    c10d,
    chakra,
    field,
    of_nccl,
    varint,
)

import fanin.sim
import fanin.workload
from fanin.research import recorded
from fanin.research.formats import FormatError, flight, stream, traces
from fanin.research.formats.arrivals import Arrivals

ROOT = Path(__file__).resolve().parents[2]


def read(given):
    """What is read of a text, bytes or a value of JSON, and the form."""
    given = given if isinstance(given, (str, bytes)) else json.dumps(given)
    return traces.parse(given if isinstance(given, bytes) else given.encode())


def found(given, ranks=None):
    """Kind, bytes, type and group of all collectives."""
    trace, _ = read(given)
    recorded.complete(trace, ranks)
    return [(one.kind, one.nbytes, one.dtype, one.group) for one in trace.found]


def why(given, choice=recorded.Choice()):
    with pytest.raises(FormatError) as error:
        trace, form = read(given)
        recorded.model(trace, choice)
        recorded.said(trace, form, choice)
    return str(error.value)


# ---- profiles ----


def test_calls_within_each_other_are_one_collective():
    """Operation, what NCCL notes, and NCCL's work; on the device it is there once more."""
    tensors = {"Input Dims": [[[64], [64]], []], "Input type": ["TensorList", ""]}
    events = [
        {**c10d("allreduce_", 10), "args": tensors, "dur": 9, "pid": 1, "tid": 1},
        {**of_nccl("allreduce", "BFloat16", 128, 128, 11), "pid": 1, "tid": 1},
        {**c10d("broadcast_", 30, ([5], "long int")), "pid": 1, "tid": 1},
        {"ph": "X", "name": "nccl:all_reduce", "cat": "gpu_user_annotation", "ts": 50, "dur": 5,
         "pid": 0, "tid": 7, "args": {"Input Dims": [[128]], "Input type": ["float"]}},
    ]  # fmt: skip
    assert found({"traceEvents": events}) == [
        ("all_reduce", 256, "bfloat16", ""),
        ("broadcast", 40, "int64", ""),
    ]


def test_lists_have_the_type_of_the_call_within_or_are_said_to_be_float32():
    """PyTorch 2.0 and NCCL, where the process group notes nothing."""
    work = {"Input Dims": [[100]], "Input type": ["c10::Half"]}
    outer = c10d("allreduce_", 10, ([[100]], "TensorList"), ([], ""))
    inner = {"ph": "X", "name": "nccl:all_reduce", "ts": 11, "dur": 2, "args": work}
    assert found({"traceEvents": [outer, inner]}) == [("all_reduce", 200, "float16", "")]
    trace, form = read({"traceEvents": [outer]})
    assert [one.nbytes for one in trace.found] == [400]
    said = recorded.said(trace, form, recorded.Choice())
    assert "1 lists of 400 bytes taken for float32: no type noted" in said


def test_a_list_of_one_ranks_share_counts_all_ranks():
    outer = c10d("reduce_scatter_", 10, ([[100]], "TensorList"), ([], ""))
    inner = {"ph": "X", "name": "gloo:reduce_scatter", "ts": 11, "dur": 2,
             "args": {"Input Dims": [[100]], "Input type": ["float"]}}  # fmt: skip
    assert found({"traceEvents": [outer, inner]}, 4) == [("reduce_scatter", 1600, "float32", "")]


def test_a_profile_of_the_device_alone_says_what_to_profile():
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "ncclDevKernel_AllReduce_Sum_f32",
        "ts": 1,
        "dur": 2,
    }
    assert "1 kernels of NCCL, but no operations of PyTorch" in why({"traceEvents": [kernel]})


def test_groups_of_other_ranks_are_left_out_unless_chosen():
    events = [
        of_nccl("allreduce", "Float", 1000, 1000, 10),
        of_nccl("allreduce", "Float", 90, 90, 20),
    ]
    for event, name in zip(events, ("dp", "tp")):
        event["args"]["Process Group Name"] = name
    profile = {"traceEvents": events}
    assert "8% of the bytes would be left out: 1 all_reduce of 360 bytes float32 in tp" in why(
        profile
    )
    trace, _ = read(profile)
    for group, sizes in (("dp", [1000]), ("tp", [90]), ("all", [1000, 90])):
        layers = recorded.model(trace, recorded.Choice(group=group))
        assert [numel for numel, _ in layers] == sizes
    assert "no group 'pp': there are dp tp" in why(profile, recorded.Choice(group="pp"))
    ranks = [{"pg_name": name, "pg_size": 4, "ranks": [0, 1, 2, 3]} for name in ("dp", "tp")]
    trace, _ = read({"distributedInfo": {"pg_config": ranks, "pg_count": 2}, **profile})
    assert len(recorded.model(trace)) == 2  # they are the same ranks


# ---- execution traces ----


def test_an_operation_and_what_its_process_group_notes_are_one():
    """Schema 1.1.0: `attrs` have the sizes; 1.0.2: an all-gather of lists, without them."""
    attrs = [("collective_name", "allreduce"), ("dtype", "Half"), ("in_msg_nelems", 30),
             ("out_msg_nelems", 30), ("pg_name", "7"), ("pg_size", 8)]  # fmt: skip
    inputs = {"values": [], "shapes": [[[30]]], "types": ["GenericList[Tensor(c10::Half)]"]}
    outer = {"id": 5, "name": "c10d::allreduce_", "ctrl_deps": 2, "inputs": inputs}
    inner = {"id": 6, "name": "record_param_comms", "ctrl_deps": 5, "inputs": inputs,
             "attrs": [{"name": name, "type": "x", "value": value} for name, value in attrs]}  # fmt: skip
    wait = {"id": 9, "name": "record_param_comms", "ctrl_deps": 2, "inputs": {
        "values": [12, 0, 0, "wait", [], []], "shapes": [[]] * 6, "types": ["Int"] * 6}}  # fmt: skip
    trace = {"schema": "1.1.0-chakra.0.0.4", "nodes": [inner, outer, wait]}
    assert found(trace) == [("all_reduce", 60, "float16", "7")]
    del inner["attrs"]
    assert found(trace) == [("all_reduce", 60, "float16", "")]


def test_the_groups_of_a_job_say_how_many_ranks_a_share_is_of():
    config = json.dumps([{"pg_name": "0", "ranks": [0, 1, 2], "group_size": 3}])
    none = {"shapes": [[]], "types": ["String"]}
    init = {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [config], **none}}
    gather = {"id": 4, "name": "record_param_comms", "inputs": {
        "values": [[[1, 2, 0, 5, 4, "cuda:0"]], 1, 0, 0, "all_gather"],
        "shapes": [[[5]], [], [], [], []],
        "types": ["GenericList[Tensor(float)]", "Int", "Int", "Int", "String"]}}  # fmt: skip
    assert found({"schema": "1.0.2-chakra.0.0.4", "nodes": [init, gather]}) == [
        ("all_gather", 60, "float32", "")
    ]


# ---- flight recorder ----

ENTRY = {
    "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": "nccl:all_gather",
    "time_created_ns": 5000, "input_sizes": [[3, 4]], "input_dtypes": ["BFloat16"],
    "output_sizes": [[2, 3, 4]], "output_dtypes": ["BFloat16"], "state": "completed",
}  # fmt: skip
DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [ENTRY, dict(ENTRY, profiling_name="nccl:reduce_scatter", input_sizes=[[6]],
                            output_sizes=[[3]], time_created_ns=7000)],
}  # fmt: skip


@pytest.mark.parametrize("protocol", (2, 3, 4, 5))
def test_a_dump_as_pickle_and_as_json(protocol):
    wanted = [("all_gather", 48, "bfloat16", "0"), ("reduce_scatter", 12, "bfloat16", "0")]
    assert found(DUMP) == wanted
    assert found(pickle.dumps(DUMP, protocol)) == wanted
    later = {**DUMP, "entries": [dict(ENTRY, record_id=7)]}
    trace, form = read(later)
    assert "7 older ones are no longer in the dump" in recorded.said(trace, form, recorded.Choice())


class Harmless:
    """A pickle that would call a function, were it run."""

    def __reduce__(self):
        return os.putenv, ("FANIN_PICKLE_RAN", "1")


def test_nothing_of_a_pickle_is_run():
    for protocol in (2, 4):
        said = why(pickle.dumps({"entries": [Harmless()]}, protocol))
        assert "GLOBAL: expected plain values" in said and "nothing of it was run" in said
    assert "of another kind" in why(pickle.dumps([1, 2]))
    assert "of more than 16 bytes" in why(pickle.dumps({"entries": [1 << 400]}))
    whole = pickle.dumps(DUMP, 2)
    for end in range(4, len(whole) - 1):
        assert "pickle" in why(whole[:end])
    step = b"\x80\x02" + b"N0" * 50 + b"."
    assert "POP" in why(step)


def test_a_pickle_has_a_bound_on_its_steps(monkeypatch):
    monkeypatch.setattr(flight, "STEPS_MAX", 50)
    assert "more than 50 instructions" in why(pickle.dumps(DUMP, 2))


# ---- Chakra's feeder ----


def test_the_feeders_json():
    comm = {"NodeType": 7, "is_cpu_op": False, "comm_type": 0, "comm_size": 4000, "pg_name": "1"}
    graph = [
        {"Id": 1, "Name": "aten::mm", "NodeType": 4, "runtime": 30, "is_cpu_op": True},
        {"Id": 2, "Name": "c10d::allreduce_", "NodeType": 7, "runtime": 5, "is_cpu_op": True},
        {"Id": 3, "Name": "ncclDevKernel_AllReduce", "runtime": 9, **comm},
    ]
    trace, _ = read({"workload_graph": graph})
    assert recorded.model(trace) == [(1000, 30000)]
    assert found({"workload_graph": graph}) == [("all_reduce", 4000, "", "1")]
    del graph[2]["comm_type"], graph[2]["comm_size"]
    assert "node 2: 'ncclDevKernel_AllReduce': no comm_type" in why({"workload_graph": graph})


# ---- workloads ----

SIMAI = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 16
2
attention -1 1000 ALLREDUCE 4000 500 ALLREDUCE 4000 0 NONE 0 100
mlp\t-1\t2000\tNONE\t0\t0\tNONE\t0\t3000\tALLREDUCE_DP_EP\t80000\t100
"""
AICB = """[rank0 ~ rank7]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
CommType.broadcast,CommGroup.dp_group,8,999,init.model_setup,None,0,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.computation,None,None,0,forward.layer,None,None,,1.5,None,None,1
CommType.reduce_scatter,CommGroup.dp_group,8,800,backward,None,None,,None,None,None,2
CommType.all_gather,CommGroup.dp_group,8,400,step,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
"""


def test_the_text_of_simai():
    trace, form = read(SIMAI)
    assert form == "workload of SimAI or ASTRA-sim" and trace.groups["dp"] == ("dp", 8)
    assert [(one.kind, one.nbytes, one.group, one.at_us) for one in trace.found] == [
        ("all_reduce", 4000, "tp", 1.0),
        ("all_reduce", 80000, "dp_ep", 6.0),
        ("all_reduce", 4000, "tp", 6.5),
    ]
    assert "9% of the bytes would be left out: 2 all_reduce of 8000 bytes in tp" in why(SIMAI)
    assert "2 layers: line 2 says 3" in why(SIMAI.replace("\n2\n", "\n3\n"))
    assert "line 3: 11 fields: expected 12" in why(SIMAI.replace(" 0 100", " 0", 1))


def test_the_csv_of_aicb():
    trace, form = read(AICB)
    assert recorded.model(trace) == [(200, 1500000), (200, 0), (100, 0)]
    said = recorded.said(trace, form, recorded.Choice())
    assert said == ("workload of AICB: 1 all_gather of 400 bytes, 2 reduce_scatter of 1600 bytes; "
                    "1 of 999 bytes before the first iteration do not count")  # fmt: skip
    assert "msg_size: 'x': expected" in why(AICB.replace(",800,", ",x,"))


# ---- lists of jobs ----

TIRESIAS = """job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,2,vgg11,147,23
2,2,53.25,1,resnet50,127,26
"""


def philly(name, at, *hosts):
    """A job of the log, whose last attempt had so many GPUs on each host."""
    detail = [{"ip": f"m{i}", "gpus": ["gpu0"] * count} for i, count in enumerate(hosts)]
    attempts = [{"start_time": at, "end_time": None, "detail": detail}] if hosts else []
    return {"status": "Pass", "vc": "a", "jobid": name, "attempts": attempts, "submitted_time": at,
            "user": "b"}  # fmt: skip


def test_lists_of_jobs():
    jobs, form = read(TIRESIAS)
    assert form == "jobs of Tiresias" and isinstance(jobs, Arrivals) and jobs.alone == 1
    assert [tuple(job) for job in jobs.jobs] == [
        ("line3", 8, 30 * 10**9, 2, "vgg11"),
        ("line4", 2, 53250000000, 1, "resnet50"),
    ]
    log = [philly("x", "2017-10-07 01:11:39", 8, 8), philly("y", "2017-10-07 01:11:09", 4),
           philly("z", "2017-10-06 00:00:00"), philly("u", "2017-10-06 00:00:01", 1)]  # fmt: skip
    jobs, form = read(log)
    assert form == "jobs of Philly" and (jobs.alone, jobs.notes) == (
        1,
        ["1 jobs that never ran left out"],
    )
    assert [tuple(job) for job in jobs.jobs] == [
        ("job1", 4, 0, None, None),
        ("job0", 16, 30 * 10**9, None, None),
    ]
    log[0]["submitted_time"] = "yesterday"
    with pytest.raises(FormatError, match="submitted_time: 'yesterday': expected a time"):
        read(log)
    with pytest.raises(FormatError, match="line 3: num_gpu: 'x': expected a whole number"):
        read(TIRESIAS.replace("1,8,30", "1,x,30"))


# ---- one door ----


def sim(program, path, *args):
    return subprocess.run(
        [program, "sim", str(path), *args], capture_output=True, text=True, timeout=300, check=False
    )


def test_fanin_sim_knows_a_trace_by_its_content(program, tmp_path):
    path, star = tmp_path / "anything", ("--set", "topology=star:workers=8,link=10")
    path.write_bytes(pickle.dumps(DUMP, 2))
    done = sim(program, path)
    assert done.returncode == 2 and "a trace has no network: --set topology=" in done.stderr
    done = sim(program, path, *star)
    assert done.returncode == 0 and done.stderr == (
        "anything: flight recorder's dump: 1 all_gather of 48 bytes bfloat16, "
        "1 reduce_scatter of 12 bytes bfloat16\n"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.et", chakra(NODES))
    done = sim(program, path, *star, "--set", "jobs.trace.model.ranks=4")
    assert done.returncode == 2 and "17% of the bytes would be left out" in done.stderr
    assert "partial allows it" in done.stderr
    more = ("--set", "jobs.0.model.partial=true", "--set", "jobs.0.model.ranks=4")
    assert sim(program, path, *star, *more).returncode == 0
    path.write_text("one\ntwo three\n", encoding="utf-8")
    done = sim(program, path)
    assert done.returncode == 2 and "it looks like none of these; networks are" in done.stderr
    assert "; traces as PyTorch execution trace, " in done.stderr


def test_fanin_sim_takes_a_list_of_jobs(program, tmp_path):
    path, net = tmp_path / "jobs.csv.tar", ("--set", "topology=star:workers=16,link=100")
    with tarfile.open(path, "w") as archive:
        about = tarfile.TarInfo("60_job.csv")
        about.size = len(TIRESIAS)
        archive.addfile(about, io.BytesIO(TIRESIAS.encode()))
    done = sim(program, path, *net)
    assert done.returncode == 2 and '"vgg11": expected a file NAME.csv' in done.stderr
    tiny = ("--set", 'job_trace.model={"numel":1000}')
    done = sim(program, path, *net, *tiny, "--json", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert "jobs.csv.tar: jobs of Tiresias: 2 jobs; 1 of one worker" in done.stderr
    jobs = json.loads((tmp_path / "r").read_text())["jobs"]
    assert [(job["name"], job["workers"], job["arrival_s"]) for job in jobs] == [
        ("line3", 8, 30),
        ("line4", 2, 53.25),
    ]
    path.write_text(json.dumps([philly("x", "2017-10-07 01:11:39", 8)] * 3))
    done = sim(program, path, *net, *tiny)
    assert done.returncode == 2 and 'lacks the key "iterations"' in done.stderr
    more = ("--set", "job_trace.iterations=1", "--set", "job_trace.first=2")
    done = sim(program, path, *net, *tiny, *more)
    assert done.returncode == 0 and "2 jobs; 1 later ones left out" in done.stderr


# ---- hostile files ----

LIMITED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_DATA, (500 << 20, 500 << 20))
from fanin.research import files
from fanin.research.formats import FormatError, trace_form, traces
began = time.process_time()
try:
    data = files.read(sys.argv[1])
    trace_form(data)
    found, form = traces.parse(data)
    print("read", form)
except (FormatError, files.FileError) as error:
    print(str(error)[:300])
with open("/proc/self/status", encoding="ascii") as file:  # of this program alone, in KiB
    peak = next(line.split()[1] for line in file if line.startswith("VmHWM"))
print(time.process_time() - began, peak)
"""


def hostile():
    """Files that cost much if nobody looks, and what is said of each."""
    event = b'{"ph":"X","name":"c10d::allreduce_","ts":1,"args":'
    yield b'{"traceEvents":[' + b"[" * (64 << 20), "too deep a nesting"
    yield b'{"traceEvents":[' + event + b'"' + b"x" * (64 << 20), "a value of more than 8 MiB"
    yield b'{"traceEvents":[' + event + b"9" * (4 << 20) + b"}]}", "too long a number"
    yield b'{"traceEvents":[' + b"[]," * (8 << 20), "more and shorter entries than traces have"
    yield b'{"traceEvents":[[' + b"[]," * (8 << 20), "a value of more than 131072 lists"
    yield b'{"a":' + b'{"a":' * (1 << 20), "too deep a nesting"
    yield b"\x80\x02}(" + b"X\xff\xff\xff\x7f", "pickle"
    yield b"\x80\x02]r\xff\xff\xff\x7f.", "of another kind"
    yield b"\x80\x02" + b"(" * (40 << 20), "pickle"
    yield chakra([]) + b"\xff\xff\xff\xff\x7f" + b"x" * 100, "a message of"
    yield chakra([]) + b"\x00" * (64 << 20), "more and shorter messages than traces have"
    yield zipped(b"\0" * (300 << 20)), "more than 128 MiB"
    yield b"\n" * (200 << 20), "it is empty"


def zipped(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x", data)
    return out.getvalue()


@pytest.mark.parametrize("number", range(13))
def test_a_hostile_file_ends_in_an_error_in_500_mb(number, tmp_path):
    data, said = next(itertools.islice(hostile(), number, None))
    path = tmp_path / "file"
    path.write_bytes(data)
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    argv = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.strip().split("\n")
    seconds, kib = last.split()
    print(
        f"{number}: {float(seconds):.2f} s of the processor, {int(kib) >> 10} MiB: {lines[0][:100]}"
    )
    assert said in lines[0] and int(kib) < 500 << 10


def test_a_list_is_never_a_tree_in_memory():
    """Items come one by one, also across the ends of chunks."""
    entries = [{"n": i, "text": "x" * (i % 97)} for i in range(40000)]
    text = json.dumps({"first": 1, "list": entries, "none": [], "last": {"a": [1]}}, indent=1)
    seen = list(stream.items(text.encode()))
    assert [item.value for item in seen if item.key == "list"] == entries
    assert [tuple(item) for item in seen if item.key != "list"] == [
        ("first", 1, False),
        ("none", None, True),
        ("last", {"a": [1]}, False),
    ]
    lines = "\n".join(json.dumps(one) for one in entries)
    assert [item.value for item in stream.items(lines.encode())] == entries
    for wrong in (
        text[:-1],
        text + "}",
        text.replace("40", "40 x", 1),
        "[1 2]",
        "{1: 2}",
        '{"a" 1}',
    ):
        with pytest.raises(FormatError, match="not JSON"):
            list(stream.items(wrong.encode()))


# ---- a trace of 100 MB ----


def large(kind, nbytes):
    """A trace of at least so many bytes, as the tools write it: most of it is no collective."""
    if kind == "chakra":
        head, other, last = (chakra(one) for one in ([], [(4, 0, 30, 0, 0)], [(7, 0, 5, 0, 4000)]))
        other = other[len(head) + 1 :] + field(8, field(1, b"[[9, 3, 0, 512]]" * 40))  # its inputs
        unit = (varint(len(other)) + other) * 200 + last[len(head) :]
        return head + unit * (nbytes // len(unit) + 1)
    other = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 2, "ts": 4959592808870.282,
             "dur": 86.967, "args": {"External id": 7, "Sequence number": 31, "Record function id": 8,
             "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar"],
             "Input Dims": [[512], [32, 64], [64, 512], []], "Ev Idx": 7}}  # fmt: skip
    events = [other] * 200 + [of_nccl("allreduce", "Float", 1000, 1000, 4959592808870)]
    if kind == "execution":
        inputs = {
            "values": [[9, 3, 0, 512, 4, "cpu"]],
            "shapes": [[512]],
            "types": ["Tensor(float)"],
        }
        attrs = [{"name": "rf_id", "type": "uint64", "value": i} for i in range(8)]
        events = [{"id": i, "name": "aten::addmm", "ctrl_deps": 6, "inputs": inputs, "outputs": inputs,
                   "attrs": attrs} for i in range(200)]  # fmt: skip
        events.append(dict(events[0], name="c10d::allreduce_"))
    unit = ",".join(json.dumps(one) for one in events)
    head = '{"schema":"1.1.1","nodes":[' if kind == "execution" else '{"traceEvents":['
    return (head + ",".join([unit] * (nbytes // len(unit) + 1)) + "]}").encode()


@pytest.mark.parametrize("kind", ["profile", "execution", "chakra"])
def test_a_large_trace(kind, tmp_path):
    """TRACE_MB=100 says how large (4).  Prints seconds and memory, which decide nothing but at 100 MB."""
    size = int(os.environ.get("TRACE_MB", "4")) * 10**6
    path = tmp_path / "trace"
    path.write_bytes(large(kind, size))
    code = LIMITED.replace('print("read", form)', 'print("read", form, len(found.found))')
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    wall = time.monotonic() - began
    assert done.returncode == 0 and done.stdout.startswith("read"), done.stdout + done.stderr
    line, last = done.stdout.strip().split("\n")
    seconds, kib = last.split()
    print(f"{line}: {size / 1e6:.0f} MB in {wall:.1f} s, {float(seconds):.1f} s of the processor, "
          f"{int(kib) >> 10} MiB")  # fmt: skip
    assert int(kib) < 500 << 10
