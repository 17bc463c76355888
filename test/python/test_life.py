# SPDX-License-Identifier: Apache-2.0
"""Lives of a group (fanin/_life.py): ranks find nothing in their store that ranks of another one have
said."""

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, WAIT_S, Processes, free_port

import fanin
from fanin import _gathering, _life
from fanin._elastic import Place

HERE = Path(__file__).parent
LATE = timedelta(seconds=WAIT_S)


WORDS = ["host", "1", "", "1", "1", "0"]


def begin(store, rank, size):
    """The life that this rank is in; rank 0's tells it on."""
    life = _life.begin(Place(rank, size, "0", store), lambda _: WORDS)
    if rank == 0:
        life.tell_on()
    return life


def begun(store, size):
    """The lives that these ranks are in, each a thread's, rank 0's last."""
    lives = {}

    def come(rank):
        lives[rank] = begin(store, rank, size)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(size)]
    for thread in threads[::-1]:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(lives) == list(range(size))
    if size > 1:
        assert all(lives[rank].meeting == WORDS for rank in range(1, size))
        lives[0]._stop()
    return lives


def names(lives):
    return {life.name for life in lives.values()}


def hash_store():
    store = dist.HashStore()
    store.set_timeout(LATE)
    return store


def test_lives_of_one_store_differ():
    store = hash_store()
    found = [names(begun(store, size)) for size in (3, 3, 2, 4, 1)]
    assert [len(name) for name in found] == [1] * 5
    assert len(set.union(*found)) == 5


def test_a_rank_does_not_take_what_a_dead_rank_0_says():
    store = hash_store()
    former = names(begun(store, 3))
    found = []
    early = threading.Thread(target=lambda: found.append(begin(store, 2, 3)), daemon=True)
    early.start()
    early.join(0.3)
    assert not found  # though the store has a life that a rank 2 was in
    first = begin(store, 0, 3)
    early.join(WAIT_S)
    first._stop()
    assert found[0].name == first.name and first.name not in former


def test_a_rank_0_that_does_not_come_is_an_error():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(fanin.FaninError, match="rank 0 has not come within"):
        begin(store, 1, 2)


def test_processes_are_those_of_this_life(monkeypatch):
    store = hash_store()
    monkeypatch.setattr(_gathering, "process", lambda: "former")
    begun(store, 3)
    monkeypatch.setattr(_gathering, "process", lambda: "first")
    lives = {0: begin(store, 0, 3)}
    for rank in (1, 2):
        monkeypatch.setattr(_gathering, "process", lambda rank=rank: str(rank))
        lives[rank] = begin(store, rank, 3)
    for life in lives.values():  # also rank 1, which came before rank 2
        assert [life.process(rank) for rank in range(3)] == ["first", "1", "2"]
    lives[0]._stop()


def test_another_version_is_named(caplog):
    store = hash_store()
    own = dist.PrefixStore("fanin", store)
    for place, said in enumerate(
        ('["0.1", 2, "x", ""]', "2 x"), 1
    ):  # the second: before there were versions
        own.add(_life.COME, 1)
        own.set(f"{_life.COME}/{place}", said)
        own.add(f"{_life.COME}/{place}.told", 1)
    _life.begin(Place(0, 3, "0", store), lambda _: WORDS).tell()
    assert "a rank runs fanin 0.1: expected " + _life.VERSION in caplog.text
    assert "a rank runs fanin of another version: expected" in caplog.text
    for roster in ('["0.1", "x", "", [], []]', "x 1 -", "7"):
        own.set(_life.ROSTER, roster)
        own.add(f"{_life.ROSTER}.told", 1)
        with pytest.raises(fanin.FaninError, match="rank 0 runs fanin .*: expected"):
            begin(store, 1, 3)


def test_a_place_that_nobody_fills_is_passed_over():
    store = hash_store()
    own = dist.PrefixStore("fanin", store)
    own.add(_life.COME, 1)  # a rank that was killed before it said more
    assert len(names(begun(store, 3))) == 1


@pytest.mark.skipif(
    torch.__version__ < (2, 4),
    reason="PyTorch itself waits there at a barrier whose count in the store is that of one life",
)
def test_ranks_of_a_second_life_meet_at_the_store_of_the_first():
    port = free_port()
    agent = subprocess.Popen(
        [sys.executable, str(HERE / "launched.py"), "store", "127.0.0.1", str(port)],
        env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert agent.stdout.readline() == "listens\n"
        for life, size in ((1, 3), (2, 3), (3, 2)):
            command = [str(HERE / "launched.py"), "relived", str(port), str(life)]
            for status, said, err in Processes(size, "", {}, command=command).outputs():
                assert status == 0, err
                assert f"active, {size} ranks" in said
    finally:
        agent.kill()
        agent.wait(WAIT_S)
