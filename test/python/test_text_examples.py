# SPDX-License-Identifier: Apache-2.0
"""examples/train_text.py and examples/local_sgd.py, each rank a process."""

import re
import signal

import pytest
from conftest import ROOT, Processes


def run(size, name, *flags, environment=None):
    """(exit status, stdout, stderr) of each rank of an example."""
    command = [str(ROOT / "examples" / name), *flags]
    return Processes(size, "", {}, environment, command=command).outputs()


@pytest.mark.parametrize("local, victim", [("1", 1), ("0", 0)])
def test_local_sgd_goes_on_without_a_killed_rank(local, victim):
    flags = ["--rounds", "4", "--steps", "1", "--batch", "2", "--alive", "4", "--wait", "30"]
    flags += ["--die", f"{victim}:3"]
    outcome = run(3, "local_sgd.py", *flags, environment={"FANIN_LOCAL": local})
    assert outcome[victim][0] == -signal.SIGKILL
    first = 0 if victim else 1
    for rank, (status, said, err) in enumerate(outcome):
        if rank == victim:
            continue
        assert status == 0, err + said
        took = re.search(r"rank (\d) of 2 goes on after ([\d.]+) s", said)
        assert took and int(took.group(1)) == (0 if rank == first else 1), said
    assert re.search(r"round 4: [\d.]+ nats, 2 ranks\nall ranks hold the same", outcome[first][1])


def test_shrinking_waits_for_the_rank_that_takes_the_switch_over():
    script = str(ROOT / "test" / "python" / "shrunk.py")
    outcome = Processes(3, "", {}, {"FANIN_LOCAL": "0"}, command=[script]).outputs()
    assert [status for status, _, _ in outcome] == [-signal.SIGKILL, 0, 0], outcome
    assert [said.strip() for _, said, _ in outcome] == ["", "3", "3"]


def test_an_lstm_with_an_embedding_learns():
    (status, said, err), _ = run(2, "train_text.py", "--steps", "50", "--batch", "4")
    assert status == 0, err
    assert float(re.search(r"step 50: ([\d.]+) nats", said).group(1)) < 3.6
    assert "fanin: active, 2 ranks" in said
