# SPDX-License-Identifier: Apache-2.0
"""Lives of a group (fanin/_life.py): ranks find nothing in their store that ranks of another one have
said."""

import os
import subprocess
import sys
import threading
import types
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, WAIT_S, Processes, free_port

import fanin
from fanin import _life

HERE = Path(__file__).parent
LATE = timedelta(seconds=WAIT_S)


def given(store, rank, size):
    return types.SimpleNamespace(store=store, group_rank=rank, group_size=size)


def begun(store, size, ranks=None):
    """The lives that these ranks are in, each a thread's, rank 0's last."""
    lives = {}

    def come(rank):
        lives[rank] = _life.begin(given(store, rank, size))

    ranks = list(range(size)) if ranks is None else ranks
    threads = [threading.Thread(target=come, args=(rank,)) for rank in ranks]
    for thread in threads[::-1]:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(lives) == ranks
    lives[0].known()
    return {life.name for life in lives.values()}


def hash_store():
    store = dist.HashStore()
    store.set_timeout(LATE)
    return store


def test_lives_of_one_store_differ():
    store = hash_store()
    names = [begun(store, size) for size in (3, 3, 2, 4, 1)]
    assert [len(name) for name in names] == [1] * 5
    assert len(set.union(*names)) == 5


def test_a_rank_does_not_take_what_a_dead_rank_0_says():
    store = hash_store()
    former = begun(store, 3)
    found = []
    early = threading.Thread(
        target=lambda: found.append(_life.begin(given(store, 2, 3)).name), daemon=True
    )
    early.start()
    early.join(0.3)
    assert not found  # though the store has a life that a rank 2 was in
    first = _life.begin(given(store, 0, 3))
    early.join(WAIT_S)
    first.known()
    assert found == [first.name] and first.name not in former


def test_a_rank_0_that_does_not_come_is_an_error():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(fanin.FaninError, match="rank 0 has not come within"):
        _life.begin(given(store, 1, 2))


def test_a_place_that_nobody_fills_is_passed_over():
    store = hash_store()
    own = dist.PrefixStore("fanin", store)
    own.add(_life.COME, 1)  # a rank that was killed before it said more
    assert len(begun(store, 3)) == 1


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
