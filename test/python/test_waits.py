# SPDX-License-Identifier: Apache-2.0
"""How long groups wait for their ranks (fanin/_gathering.py, _gathering.py, _monitored.py)."""

import datetime
import os
import subprocess
import sys

import pytest
from conftest import Processes

from fanin import _gathering, _membership


def answers(size, name, arguments=None, environment=None, dead=()):
    """What each rank printed; all must have ended well but those that end themselves."""
    return Processes(size, name, arguments or {}, environment, "waits_ranks.py").answers(dead)


def minutes(count):
    return datetime.timedelta(minutes=count)


def test_a_groups_timeout_bounds_coming_and_operations_and_a_join_is_short():
    assert _gathering.timeouts({}, minutes(30)) == _gathering.Timeouts(1800, 1800, 30)
    short = datetime.timedelta(seconds=5)
    assert _gathering.timeouts({}, short) == _gathering.Timeouts(5, 5, 5)
    assert _gathering.timeouts({}, datetime.timedelta()).arguments == {"timeout": 0.1, "join": 0.1}
    assert _gathering.timeouts({}, minutes(1e6)).operation == 86400
    assert _gathering.timeouts({}, None) == _gathering.Timeouts(30)


def test_what_fanin_is_told_wins(monkeypatch, tmp_path):
    told = {"timeout": 120, "alive": 2}
    assert _gathering.timeouts(told, minutes(30)) == _gathering.Timeouts(120)
    assert _gathering.timeouts({"join": 4}, minutes(30)) == _gathering.Timeouts(1800, 1800)
    file = tmp_path / "fanin.ini"
    file.write_text("[worker]\nalive_ms = 100%\ntimeout_ms = 7000\n")
    monkeypatch.setenv("FANIN_CONFIG", str(file))
    assert _gathering.timeouts({}, minutes(30)) == _gathering.Timeouts(7)
    monkeypatch.setenv("FANIN_TIMEOUT_MS", "2500")
    assert _gathering.timeouts({}, minutes(30)) == _gathering.Timeouts(2.5)
    assert _gathering.timeouts(told, minutes(30)) == _gathering.Timeouts(120)
    monkeypatch.delenv("FANIN_TIMEOUT_MS")
    monkeypatch.setenv("FANIN_CONFIG", str(tmp_path))
    monkeypatch.setenv("FANIN_JOIN_MS", "900")
    assert _gathering.timeouts({}, minutes(30)) == _gathering.Timeouts(1800, 1800)


def test_a_switch_or_a_controller_in_the_file_is_named(monkeypatch, tmp_path):
    file = tmp_path / "fanin.ini"
    file.write_text("[worker]\nswitch = 127.0.0.1:5000\n")
    monkeypatch.setenv("FANIN_CONFIG", str(file))
    options = _membership.Options()
    assert options.given("switch", "controller") and not options.given("controller")
    file.write_text("[worker]\ncontroller = 127.0.0.1:5000\n")
    assert options.given("controller")
    monkeypatch.delenv("FANIN_CONFIG")
    assert not options.given("switch", "controller")


def test_a_rank_that_does_not_take_part_is_named_after_the_groups_timeout():
    *others, _ = answers(3, "stalled", {"timeout": 2.5})
    for answer in others:
        for name, seconds in {"group": "1.5", "default": "2.5"}.items():
            error, text = answer[name]
            assert error == "StalledError"
            end = "rank 2 did not take part: the group's timeout is over"
            assert text == f"no progress for {seconds} s: {end}"


def test_a_timeout_that_is_made_shorter_ends_what_comes_later():
    *others, _ = answers(3, "shortened", {"timeout": 1800})
    told = dict(answer["failure"] for answer in others)
    assert told.pop("StalledError") == "not ended within 1.5 s: the group's timeout is over"
    assert not told or set(told) == {"RankLeftError"}  # of the first that gave up
    assert all(answer["seconds"] < 600 for answer in others)


def test_fanins_own_timeout_wins():
    *others, _ = answers(3, "stalled", {"timeout": 1800}, {"FANIN_TIMEOUT_MS": "2000"})
    for answer in others:
        assert {text.partition(":")[0] for _, text in answer.values()} == {"no progress for 2 s"}


@pytest.mark.parametrize("local", ["1", "0"])
@pytest.mark.parametrize("gives_up", [True, False])
def test_a_rank_that_has_joined_alone_does_not_keep_the_others(gives_up, local):
    arguments, environment = {"gives_up": gives_up}, {"FANIN_LOCAL": local, "FANIN_ALIVE_MS": "900"}
    *others, last = answers(3, "joins_alone", arguments, environment, () if gives_up else (2,))
    for answer in others:
        error, text = answer["failure"]
        assert error == "FaninError"
        assert text == "rank 2: no" if gives_up else "have joined: rank 2" in text, text
        assert answer["seconds"] < 600
    assert last is None or last["failure"] == ["FaninError", "no"]


@pytest.mark.parametrize("local", ["1", "0"])
def test_who_waits_in_gloo_for_a_rank_that_gives_up_hears_of_it(local):
    for answer in answers(3, "gives_up", environment={"FANIN_LOCAL": local}):
        for name in ("made", "not made"):
            error, text = answer[name]
            assert error == "MismatchError" and "barrier" in text, (name, answer)


@pytest.mark.parametrize("made, local", [(True, "1"), (True, "0"), (False, "1")])
def test_who_waits_in_gloo_for_a_rank_whose_gloo_refuses_hears_of_it(made, local):
    environment = {"FANIN_LOCAL": local}
    *others, last = answers(3, "refused", {"made": made, "timeout": 1800}, environment)
    for answer in others:
        error, text = answer["failure"]
        assert error == "RankLeftError" and text.startswith("rank 2 left job"), answer
    assert last["failure"] == ["RuntimeError", "refused"]
    assert last["after"][1] == "rank 2: Gloo refuses what all ranks have stated: refused"
    for answer in (*others, last):
        assert answer["all"] == ["RuntimeError", "refused"]
        assert answer["sum"] == [3.0] * 3


def test_ranks_come_late_to_a_group():
    *others, last = answers(3, "late")
    text = "rank 2 of 3 has not come to the group within its timeout of 1 s"
    assert ["JoinTimeoutError", text] in [answer["given up"] for answer in others]
    for answer in (*others, last):
        assert answer["whole"] == answer["after"] == [3.0] * 3
        assert text in answer["given up"][1]


def test_a_rank_may_come_late_to_a_group_beside_gloos():
    for answer in answers(3, "beside_gloo", {"backend": "gloo"}):
        assert answer["sum"] == [6.0] * 3
        assert "active, 3 ranks" in answer["summary"]


def test_a_rank_that_has_ended_is_not_waited_for():
    first, _, third = answers(3, "dead", {"timeout": 1800}, dead=(1,))
    for answer in (first, third):
        assert "rank 1 has ended before all ranks had come" in answer["failure"][1]
        assert "failed to pass monitoredBarrier" in answer["barrier"][1]
        assert answer["without"] == [2.0] * 3
        assert answer["seconds"] < 1000  # of 1800
    assert "Rank 1 failed to pass monitoredBarrier in 1800000 ms: 1 ended" in first["barrier"][1]


def test_who_waits_in_gloo_for_others_hears_of_a_rank_that_has_ended():
    environment = {"FANIN_ALIVE_MS": "500"}
    answers_of = answers(4, "ended", {"timeout": 1800}, environment, dead=(1,))
    for rank in (0, 2, 3):
        for name in ("send", "recv", "total"):
            error, text = answers_of[rank][name]
            assert error == "RankLostError" and text.startswith("rank 1 has ended"), answers_of
    assert answers_of[3]["gloo"] == answers_of[3]["total"]
    assert answers_of[2]["message"] == [0.0] * 3


def test_who_waits_for_ranks_can_be_interrupted():
    first, other = answers(2, "interrupted")
    assert first["failure"][0] == "KeyboardInterrupt"
    assert "rank 0: interrupted while it joined: KeyboardInterrupt" in other["failure"][1]


def test_a_monitored_barrier_names_who_is_missing_also_in_a_new_group():
    first, *_, last = outcome = answers(4, "monitored")
    for answer in outcome:
        assert answer["sum"] == answer["after"] == [4.0] * 3
    assert first["first"][1] == "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 500 ms"
    assert first["all"][1] == "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 500 ms"
    assert first["zero"][1] == "[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms"
    assert last["early"][1].endswith("rank 0: it has not come after 200 ms")
    for name in ("first", "all"):
        assert last[name][1].startswith("Rank 3 successfully reached monitoredBarrier, but")
        assert first[name][1] in last[name][1]


def test_processes_that_have_ended():
    code = "from fanin import _gathering; print(_gathering.process(), flush=True); input()"
    env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(_gathering.__file__)))
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    told = child.stdout.readline().strip()
    host, pid, begin = told.split(" ")
    assert pid == str(child.pid) and not _gathering.has_ended(told)
    assert _gathering.has_ended(f"{host} {pid} {int(begin) - 1}")  # another process's number now
    assert not _gathering.has_ended(f"{host}0 {pid} {int(begin) - 1}")  # another host's
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert _gathering.has_ended(told)  # nobody has waited for it so far
    child.wait()
    child.stdout.close()
    assert _gathering.has_ended(told)
    for text in ("", "host", "host pid begin", f"{host} pid {begin}"):
        assert not _gathering.has_ended(text)


@pytest.mark.parametrize(
    "text, ranks",
    [
        ("rank 3 stopped answering (silent for more than 10.0 s)", {3}),
        ('ranks 0, 4-6, 9 left job "a" while other ranks still needed them', {0, 4, 5, 6, 9}),
        ("rank 12 has ended: it was killed, or ended by itself", {12}),
        ("rank 2 lost a switch that sums another part of the tensors", set()),
        ("ranks disagree: rank 1 called all_reduce", set()),
        ("", set()),
    ],
)
def test_ranks_of_which_a_communicator_says_that_they_are_lost(text, ranks):
    assert _gathering.named(text) == ranks


def test_a_short_wait_is_told_before_its_end(monkeypatch):
    told = []
    monkeypatch.setattr(_gathering._waiting, "tell", lambda rank, text: told.append(text))
    note = _gathering.Note(0, 2.0)
    note.tell(0.9, 1.1, lambda: "rank 1 of 2")
    note.tell(1.1, 0.9, lambda: "rank 1 of 2")
    assert told == ["waits for rank 1 of 2; gives up in 1 s"]


def test_ranks_in_words():
    assert _gathering.in_words([3]) == "rank 3"
    assert _gathering.in_words([1, 2, 4, 5, 6, 9]) == "ranks 1, 2, 4-6, 9"
