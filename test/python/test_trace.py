# SPDX-License-Identifier: Apache-2.0
"""python/fanin/trace.py: ranks' traces and those of torch.profiler lie over each other; `fanin ps`."""

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import BUILD, ROOT, WAIT_S, Processes, ranks

import fanin.trace
from fanin import _waiting
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


@pytest.mark.parametrize(
    "program, words",
    [
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99))", "File too large"),
        ("", "regular file"),
    ],
    ids=["limit", "device"],
)
def test_a_file_that_cannot_be_written_is_a_warning(switch, job, tmp_path, program, words):
    program = f"import fanin, resource, sys; {program}\n"
    program += "fanin.Communicator(rank=int(sys.argv[1]), ranks=2).close()"
    for rank in range(2 if words == "regular file" else 0):
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
        assert "RuntimeWarning: FANIN_TRACE: " in said and words in said


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


def told_by_ps(*flags):
    text = subprocess.run(
        [str(BUILD / "fanin"), "ps", *flags], capture_output=True, text=True, timeout=WAIT_S
    ).stdout
    return json.loads(text)["ranks"] if "--json" in flags else text


def test_ps_tells_for_whom_ranks_wait(switch, job):
    told, said = threading.Event(), []

    def work(comm):
        data = np.ones(1000, np.float32)
        if comm.rank == 0:
            op = comm.allreduce_start(data)
            until = time.monotonic() + WAIT_S
            waits = []
            while len(waits) < 2 and time.monotonic() < until:
                rows = told_by_ps("--json", "--job", job, "--pid", str(os.getpid()))
                waits = [r for r in rows if r["state"] == "waits" and r["missing"] == [2]]
            said.append(rows)
            said.append(told_by_ps("--job", job))
            said.append(told_by_ps("--job", job, "--all-hosts"))
            told.set()
            op.wait()
        elif comm.rank == 2:
            told.wait(WAIT_S)
            comm.allreduce(data)
        else:
            comm.allreduce(data)
        return data[0]

    assert ranks(3, work, switch=switch, job=job) == [3.0] * 3
    rows, table, everywhere = said
    by_rank = {row["rank"]: row for row in rows}
    assert sorted(by_rank) == [0, 1, 2] and by_rank[2]["state"] == "idle"
    for row in (by_rank[0], by_rank[1]):
        assert row["state"] == "waits" and row["missing"] == [2] and row["waited_s"] >= 1
        assert [(op["kind"], op["bytes"]) for op in row["under_way"]] == [("allreduce", 4000)]
    lines = [line.split() for line in table.splitlines()]
    lines = [line for line in lines if line[0] != "process"]  # others that do not answer
    assert [line[1] for line in lines] == ["RANK", "0/3", "1/3", "2/3"]  # who waits comes first
    assert [line[3] for line in lines] == ["STATE", "waits", "waits", "idle"]
    assert table.count("  rank 2  ") == 2
    last = everywhere.splitlines()[-1].split()
    assert last[0] == switch and last[2:4] == [job, "ready"]
    assert last[-4:] == ["rank", "2", "ranks", "0-1"]


def test_a_long_wait_is_logged_by_one_rank_of_a_host(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, logger="fanin")
    for local_rank, level in (("0", logging.WARNING), ("1", logging.DEBUG)):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        caplog.clear()
        _waiting._CALL_LONG(None, b"rank 0 of job: nothing has moved for 30 s")  # as C does
        assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
            (level, "fanin: rank 0 of job: nothing has moved for 30 s")
        ]
