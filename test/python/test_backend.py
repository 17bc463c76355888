# SPDX-License-Identifier: Apache-2.0
"""The backend "fanin" of torch.distributed, each rank a process (backend_ranks.py)."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from conftest import ROOT, WAIT_S, Processes, free_port, torchrun
from torch._C import _distributed_c10d as c10d

import fanin
from fanin import _gloo, _group

HERE = Path(__file__).parent


def answers(size, name, arguments=None, environment=None):
    """What each rank printed; all must have ended well."""
    return Processes(size, name, arguments or {}, environment, "backend_ranks.py").answers()


def test_random_calls_answer_as_gloo_does():
    for answer in answers(2, "random_calls", {"count": 400, "seed": 17}):
        assert answer["wrong"] == []
        assert answer["same"] + answer["more"] + answer["refused"] == 400
        print(
            f"400 calls: {answer['same']} as Gloo's, {answer['refused']} the same kind of error, "
            f"{answer['more']} right where Gloo refuses"
        )
        assert min(answer["same"], answer["more"], answer["refused"], answer["ops"]) > 8


def test_random_calls_through_a_switch(switch, job):
    options = {"switch": switch, "job": job}
    for answer in answers(3, "random_calls", {"count": 60, "seed": 18, "options": options}):
        assert answer["wrong"] == []


def test_collectives_that_gloo_lacks_and_subsets():
    for rank, answer in enumerate(answers(3, "more_calls")):
        assert answer["right"] and all(answer["right"].values()), answer
        assert ("recv" in answer["right"]) == (rank == 1)
        assert answer["active"] and "active, 3 ranks" in answer["summary"]
        assert "torch.int8" in answer["summary"]


SCENES = ["plain", "static", "fp16", "bf16", "power_sgd", "accumulated", "unused", "zero"]
SCENES += ["local_sgd", "joined"]


def test_trainings_end_as_with_gloo():
    for answer in answers(2, "scenes", {"names": SCENES}):
        assert all(answer["right"].values()), answer
        assert set(answer["right"]) == {*SCENES, "power_sgd_buckets"}
        assert answer["ops"] > 100
        assert set(answer["fallbacks"]) <= {"allgather: small"}


def test_fixed_mode_gives_the_same_bits_on_every_run():
    runs = [answers(2, "fixed", environment={"FANIN_MODE": "fixed"}) for _ in range(2)]
    assert len({answer["hash"] for run in runs for answer in run}) == 1
    assert "active" in runs[0][0]["summary"]


@pytest.mark.skipif(not hasattr(c10d, "NanCheckHook"), reason="PyTorch 2.15 and later")
def test_a_nan_that_is_read_is_refused_where_pytorch_looks_for_it():
    for answer in answers(2, "nan_refused", environment={"TORCH_DIST_NAN_CHECK": "1"}):
        assert all(answer.values()), answer


@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_that_would_never_be_called_are_refused(when):
    with pytest.raises(NotImplementedError, match="hooks"):
        getattr(_group.FaninGroup, f"register_{when}_hook")(None, 1, print)


def test_workers_of_a_data_loader_fork():
    assert answers(2, "loader") == [{"steps": 4, "sum": 2.0}] * 2


def test_a_killed_rank_is_named():
    environment = {"FANIN_ALIVE_MS": "600000", "FANIN_TIMEOUT_MS": "600000"}  # the end shows
    outcome = Processes(3, "killed", {}, environment, script="backend_ranks.py").wait()
    for rank in (0, 2):
        status, answer, err = outcome[rank]
        assert status == 0, err
        assert answer["raised"] == "RankLostError" and "rank 1" in answer["text"]
        assert answer["again"] == answer["waited"] == "RankLostError"
        assert "FAILED" in answer["summary"]


def test_different_tensors_are_named():
    for answer in answers(2, "mismatch"):
        assert "rank" in answer["text"]


def test_without_a_switch_where_that_is_allowed():
    arguments = {"required": False, "options": {"switch": "127.0.0.1:9", "timeout": 1}}
    assert answers(2, "not_required", arguments) == [{"sum": 2.0, "active": False}] * 2


def gloo_of(makes, seconds=WAIT_S):
    """What each rank's Gloo group or error is, where `makes` make them; each has been made as many times."""
    store, got = dist.HashStore(), {}

    def one(rank):
        try:
            got[rank] = _gloo.made(makes[rank], store, rank, len(makes), seconds, lambda: None)
        except fanin.FaninError as error:
            got[rank] = str(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(makes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(got) == len(makes)
    return got


def test_gloo_is_not_waited_for_without_end(monkeypatch):
    def waits(keys):
        keys.wait(["of a rank that is lost"])  # as Gloo does: half an hour

    monkeypatch.setattr(_gloo, "TRY_S", 0.1)  # the last try is not all that they had
    got = gloo_of([waits, lambda _: "made"], 0.5)
    for text in got.values():
        assert "cannot be made: not all ranks have connected within 0.5 s" in text
    assert not any(thread.name == "fanin-gloo" for thread in ended_soon())


def ended_soon():
    """Threads that are left a moment later."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and any(
        thread.name == "fanin-gloo" for thread in threading.enumerate()
    ):
        time.sleep(0.01)
    return threading.enumerate()


def test_no_thread_of_a_try_outlives_the_group(monkeypatch):
    """One that comes out of PyTorch's C++ code as the interpreter ends brings the process down."""

    class Late(_gloo.PatientStore):
        def set(self, key, value):
            super().set(key, value)
            time.sleep(0.2)  # who waits for it learns of it meanwhile

    monkeypatch.setattr(_gloo, "PatientStore", Late)
    assert gloo_of([lambda _: "made"]) == {0: "made"}
    assert not any(thread.name == "fanin-gloo" for thread in threading.enumerate())


def test_gloo_is_tried_again_by_all_ranks():
    tries = [0, 0]

    def second(keys):
        tries[1] += 1
        if tries[1] == 1:
            raise RuntimeError("connectFullMesh failed")
        keys.set("1", "here")
        return tries[1]

    def first(keys):
        tries[0] += 1
        keys.wait(["1"])
        return tries[0]

    assert gloo_of([first, second]) == {0: 2, 1: 2}


def test_gloo_that_never_connects_is_an_error_with_its_cause():
    got = gloo_of([lambda _: refuse("connectFullMesh failed"), lambda _: 1], 1)
    for text in got.values():
        assert "cannot be made: rank 0: connectFullMesh failed; a rank" in text


def refuse(text):
    raise RuntimeError(text)


PORT_TRIES = 3


def run(*command, **variables):
    """A program that starts ranks by itself: its output."""
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1", **variables
    )
    for _ in range(PORT_TRIES):
        done = subprocess.run(
            command,
            env=environment,
            timeout=3 * WAIT_S,  # imports PyTorch several times, in turn
            capture_output=True,
            text=True,
            check=False,
        )
        # torchrun finds a port that is free and lets go of it; somebody else may be first.
        if "The server socket has failed to bind" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ranks_that_spawn_starts():
    assert "spawned" in run(sys.executable, str(HERE / "launched.py"), "spawned", str(free_port()))


def test_torchrun_starts_a_group_again():
    launcher, variables = torchrun("--max_restarts=1")
    said = run(*launcher, str(HERE / "launched.py"), "restarted", **variables)
    assert "restarted: fanin: active, 2 ranks" in said
