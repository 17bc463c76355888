# SPDX-License-Identifier: Apache-2.0
"""tools/limit.py, which ends steps of ./check: what counts of the time that passes."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT_S

TOOL = ROOT / "tools" / "limit.py"


def run(limit_s, *command):
    return subprocess.run(
        [sys.executable, str(TOOL), str(limit_s), *command],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )


@pytest.mark.parametrize(
    "script, status", [("exit 0", 0), ("exit 7", 7), ("exit 77", 77), ("kill -KILL $$", 137)]
)
def test_status_is_the_commands(script, status):
    assert run(WAIT_S, "sh", "-c", script).returncode == status


def test_who_computes_for_ever_is_ended():
    done = run(0.5, "sh", "-c", "sh -c 'while :; do :; done' & wait")
    assert done.returncode == 124
    assert "of which" in done.stderr and done.stderr.count("while :") == 2  # who ran then


def test_what_ignores_sigterm_is_killed():
    done = run(0.2, "sh", "-c", "trap '' TERM; while :; do :; done")
    assert done.returncode == 124


def test_sigterm_ends_all_of_it():
    with subprocess.Popen(
        [sys.executable, str(TOOL), str(WAIT_S), "sh", "-c", "sleep 9999 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
    ) as limit:
        sleeper = int(limit.stdout.readline())
        limit.terminate()
        assert limit.wait(WAIT_S) == 143
    state = Path(f"/proc/{sleeper}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"  # nobody has looked yet


@pytest.fixture(name="world")
def _world(monkeypatch):
    """A machine of two processors, on which a command is process 7 and its child 8."""
    spec = importlib.util.spec_from_file_location("limit", TOOL)
    limit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(limit)

    class World:
        now = idle = own = child = 0.0
        clock = None

        def passes(self, seconds, idle=0.0, own=0.0, child=0.0):
            """What has been counted of these seconds, in which these were idle and computed."""
            before = self.clock.counted
            self.now += seconds
            self.idle += idle
            self.own += own
            self.child += child
            return self.clock.look() - before

    world = World()
    monkeypatch.setattr(limit.time, "monotonic", lambda: world.now)
    monkeypatch.setattr(limit, "idle_s", lambda: world.idle)
    ticks = limit.TICKS
    monkeypatch.setattr(
        limit,
        "processes",
        lambda: {
            1: (0, 9999 * ticks, True),
            7: (1, world.own * ticks, True),
            8: (7, world.child * ticks, True),
            9: (1, world.now * ticks, True),  # another one's
        },
    )
    world.clock = limit.Clock(7)
    return world


def test_what_others_take_does_not_count(world):
    assert world.passes(100) == 0
    assert world.passes(100, own=3, child=4) == pytest.approx(7)


def test_what_it_waits_on_an_idle_machine_counts(world):
    assert world.passes(100, idle=200) == pytest.approx(100)
    assert world.passes(100, idle=30) == pytest.approx(30)
    assert world.passes(10, idle=2, child=9) == pytest.approx(9)
    assert world.passes(10, own=10, child=10) == pytest.approx(10)  # on both processors


def test_a_child_that_has_gone_takes_nothing_back(world):
    assert world.passes(10, child=5) == pytest.approx(5)
    assert world.passes(10, child=-5) == 0
    assert world.passes(10, own=2) == pytest.approx(2)
