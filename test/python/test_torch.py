# SPDX-License-Identifier: Apache-2.0
"""python/fanin/torch.py under DistributedDataParallel, each rank a process (torch_ranks.py)."""

import pytest
from conftest import Processes

ALIVE_S = 600  # in shared memory the end of a process shows, not its silence


def test_gradients_are_the_mean(switch, job):
    for answer in Processes(3, "gradients", {"switch": switch, "job": job}).answers():
        assert answer["worst"] < 1e-6


def test_gradients_are_the_sum(switch, job):
    options = {"switch": switch, "job": job, "average": False}
    for answer in Processes(2, "gradients", options).answers():
        assert answer["worst"] < 1e-6


def test_several_buckets_and_the_same_parameters_as_gloo(switch, job):
    fanin = Processes(2, "hook", {"switch": switch, "job": job}).answers()
    gloo = Processes(2, "hook", {"comm": "gloo"}).answers()
    assert fanin[0]["hash"] == fanin[1]["hash"]
    assert fanin[0]["active"] and fanin[0]["fallbacks"] == {}
    assert fanin[0]["buckets"] > 8  # several for each step
    assert fanin[0]["bytes"] == 8 * 4 * (201 * 600 + 2 * 601 * 600 + 601 * 10)
    assert "active, 2 ranks through " + switch in fanin[0]["summary"]
    assert fanin[0]["losses"] == pytest.approx(gloo[0]["losses"], rel=1e-5)


def test_ranks_run_ahead_by_the_environment(switch, shared_switch, job, tmp_path):
    file = tmp_path / "fanin.ini"
    file.write_text("[worker]\nahead = 400\ncache = 16\ncongestion = a2tp\n")
    ahead = {"FANIN_CONFIG": str(file)}
    options = {"switch": shared_switch, "job": job, "mode": "fixed"}
    in_step = Processes(2, "hook", dict(options, switch=switch), ahead).answers()
    for one, answer in zip(in_step, Processes(2, "hook", options, ahead).answers()):
        assert one["active"] and "NOT granted" in one["summary"]
        assert answer["active"] and answer["buckets"] > 8
        assert "slowest rank by up to 400 fragments" in answer["summary"]
        assert answer["hash"] == one["hash"]


def test_fixed_gives_the_same_bits_on_every_run(switch, job):
    runs = [
        Processes(3, "hook", {"switch": switch, "job": f"{job}{run}", "mode": "fixed"}).answers()
        for run in range(2)
    ]
    assert len({answer["hash"] for run in runs for answer in run}) == 1


def test_half_types(switch, job):
    for answer in Processes(2, "half_tensors", {"switch": switch, "job": job}).answers():
        assert answer == {
            "right": {"torch.float16": True, "torch.bfloat16": True},
            "fallbacks": {},
        }


def test_what_eight_bits_lose_comes_with_the_next_step(switch, job):
    for answer in Processes(2, "refunds", {"switch": switch, "job": job}).answers():
        assert answer["first"] == 4000
        assert 3 <= answer["least"] <= answer["most"] <= 4.5  # without it 0: a step of them is 1


def test_what_fanin_cannot_sum_goes_to_the_process_group(switch, job):
    outcome = Processes(2, "odd_tensors", {"switch": switch, "job": job}).wait()
    for _, answer, err in outcome:
        assert answer["values"] == [1.5, 1.5, 1.5, 1.5, None, 1.5], err
        assert answer["buckets"] == 2
        counts = {reason.split(":")[0]: count for reason, count in answer["fallbacks"].items()}
        assert sorted(counts.values()) == [1, 1, 2]
    said = [err.count("goes to the process group") for _, _, err in outcome]
    assert said == [3, 0]  # each reason once, by rank 0


def test_a_double_precision_model(switch, job):
    options = {"switch": switch, "job": job, "dtype": "float64", "steps": 3}
    one, two = Processes(2, "hook", options).answers()
    assert one["hash"] == two["hash"] and one["buckets"] > 3 and one["fallbacks"] == {}


def test_a_killed_rank_is_named(switch, job):
    options = {"switch": switch, "job": job, "victim": 1, "at": 4}
    outcome = Processes(3, "killed", options).wait()
    assert outcome[1][0] == -9
    for rank in (0, 2):
        status, answer, err = outcome[rank]
        assert status == 0, err
        assert answer["raised"] == "RankLostError" and "rank 1" in answer["text"]
        assert answer["cause"] in ("RuntimeError", "NoneType")
        assert answer["again"] == "RankLostError"
        assert "FAILED: rank 1" in answer["summary"]


def test_with_no_switch_named_ranks_of_a_host_share_memory():
    one, two, three = Processes(3, "hook", {"steps": 3}).answers()
    assert one["active"] and one["hash"] == two["hash"] == three["hash"]
    assert "shared by 3 ranks" in one["summary"] and "shared by 3 ranks" in three["summary"]


def test_a_killed_rank_of_the_host_is_named():
    outcome = Processes(3, "killed", {"victim": 0, "at": 4, "alive": ALIVE_S}).wait()
    assert outcome[0][0] == -9
    for status, answer, err in outcome[1:]:
        assert status == 0, err
        assert answer["raised"] == "RankLostError" and "rank 0" in answer["text"]


def test_without_shared_memory_rank_0_starts_a_switch(monkeypatch):
    monkeypatch.setenv("FANIN_LOCAL", "0")
    one, two, three = Processes(3, "hook", {"steps": 3}).answers()
    assert one["active"] and one["hash"] == two["hash"] == three["hash"]
    assert "(inside rank 0)" in one["summary"] and "(inside rank 0)" in three["summary"]


def test_a_killed_rank_0_takes_its_switch_along(monkeypatch):
    monkeypatch.setenv("FANIN_LOCAL", "0")
    outcome = Processes(3, "killed", {"victim": 0, "at": 4}).wait()
    assert outcome[0][0] == -9
    for status, answer, err in outcome[1:]:
        assert status == 0, err
        assert answer["raised"] == "UnreachableError" and "inside rank 0" in answer["text"]


def test_without_a_switch_where_it_is_not_required(job):
    one, two = Processes(2, "not_required", {"switch": "127.0.0.1:9", "job": job}).answers()
    for answer in (one, two):
        assert not answer["active"] and "127.0.0.1:9" in answer["reason"]
        assert "NOT active" in answer["summary"] and answer["buckets"] == 0
    assert one["hash"] == two["hash"]


@pytest.mark.parametrize("required", [True, False])
def test_all_ranks_come_to_the_same_end(switch, job, required):
    options = {"switch": switch, "job": job[:50], "required": required}
    for answer in Processes(2, "one_rank_cannot", options).answers():
        if required:
            assert answer["raised"] in ("UnreachableError", "JoinTimeoutError", "FaninError")
        else:
            assert not answer["active"] and answer["buckets"] == 0
