# SPDX-License-Identifier: Apache-2.0
"""python/fanin/trace.py: ranks' traces and those of torch.profiler lie over each other."""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT, WAIT_S, Processes

import fanin.trace
from fanin.trace import EPOCH_US, PIDS_EACH, TORCH_PIDS, TraceError

PAUSE_S = 0.05  # before and after the operation; longer than a mark may be late


def write(path, data):
    path.write_text(json.dumps(data))
    return str(path)


def spans(events, name, pid):
    """(begin, end) in microseconds of each."""
    whole = [
        (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e["ph"] == "X" and e["name"] == name and e["pid"] == pid
    ]
    halves = {
        kind: [e["ts"] for e in events if e["ph"] == kind and e["name"] == name and e["pid"] == pid]
        for kind in "be"
    }
    return whole + list(zip(halves["b"], halves["e"]))


def test_a_full_disk_is_a_warning(switch, job, tmp_path):
    program = "import fanin, sys; fanin.Communicator(rank=int(sys.argv[1]), ranks=2).close()"
    for rank in range(2):
        (tmp_path / f"trace-{rank}.json").symlink_to("/dev/full")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank)], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "FANIN_SWITCH": switch, "FANIN_JOB": job,
                 "FANIN_TRACE": str(tmp_path / "trace-%r.json")})
        for rank in range(2)
    ]  # fmt: skip
    for one in started:
        said = one.communicate(timeout=WAIT_S)[1]
        assert one.returncode == 0, said
        assert "RuntimeWarning: FANIN_TRACE: " in said and "No space left on device" in said


def test_an_operation_lies_in_the_profiled_step(switch, job, tmp_path):
    options = {"switch": switch, "job": job, "pause_s": PAUSE_S, "out": str(tmp_path / "torch-%r.json")}  # fmt: skip
    traces = {"FANIN_TRACE": str(tmp_path / "trace-%r.json")}
    for status, _, said in Processes(2, "", options, traces, script="profiled.py").outputs():
        assert status == 0, said
    out = tmp_path / "all.json"
    files = [
        str(tmp_path / f"{kind}-{rank}.json") for kind in ("trace", "torch") for rank in range(2)
    ]
    subprocess.run([sys.executable, "-m", "fanin.trace", str(out), *files], env={"PYTHONPATH": str(ROOT / "python")},
                   timeout=WAIT_S, check=True)  # fmt: skip
    events = json.loads(out.read_text())
    for rank in range(2):
        ((step_us, step_end_us),) = spans(events, "step", TORCH_PIDS + PIDS_EACH * rank)
        ((op_us, op_end_us),) = spans(events, "allreduce", rank)
        assert step_us < op_us < op_end_us < step_end_us


def test_the_mark_with_the_least_delay_counts(tmp_path):
    marks = [
        (1000, 2e9),
        (1500, 2.0004e9),
        (2000, 2.001e9),
    ]  # ts in us, its time in ns: the second is late
    events = [{"ph": "X", "name": f"fanin clock {int(ns)} rank 3", "pid": "CPU functions", "tid": 1, "ts": ts, "dur": 1}
              for ts, ns in marks]  # fmt: skip
    merged = fanin.trace.merge([write(tmp_path / "a.json", events)])
    pid = TORCH_PIDS + 3 * PIDS_EACH
    assert [e["ts"] for e in merged if e["ph"] == "X"] == [2e6, 2e6 + 500, 2e6 + 1000]
    assert {e["pid"] for e in merged} == {pid}
    assert [e["args"]["name"] for e in merged if e["name"] == "process_name"] == [
        "PyTorch rank 3: CPU functions"
    ]


@pytest.mark.parametrize("base_ns, ts_us", [(int(2e18), 7.0), (None, 2 * EPOCH_US + 7)])
def test_files_that_name_their_clock_and_rank_need_no_mark(tmp_path, base_ns, ts_us):
    data = {
        "distributedInfo": {"rank": 1},
        "traceEvents": [{"ph": "X", "name": "x", "pid": 9, "tid": 1, "ts": ts_us, "dur": 1}],
    }
    if base_ns:
        data["baseTimeNanoseconds"] = base_ns
    (event, *_) = fanin.trace.merge([write(tmp_path / "a.json", data)])
    assert event["ts"] == 2 * EPOCH_US + 7


@pytest.mark.parametrize(
    "data, says",
    [
        ([{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 1}], "mark"),
        (7, "format"),
        ([7], "format"),
    ],
)
def test_a_file_that_cannot_be_placed_is_named(tmp_path, data, says):
    with pytest.raises(TraceError, match=f"a.json.*{says}"):
        fanin.trace.merge([write(tmp_path / "a.json", data)])
