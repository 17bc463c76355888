# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: others have their turn while it works on a plan."""

import asyncio
import json
from collections import Counter

import pytest
from conftest import BUILD, NO_PLANNER
from controller_rig import Rig

from fanin.operate.controller import drafts, limits, planner, routes, turns
from fanin.research import formats

pytestmark = pytest.mark.skipif(bool(NO_PLANNER), reason=NO_PLANNER)


@pytest.fixture(name="rig")
def make_rig():
    rig = Rig(BUILD)
    yield rig
    rig.close()


def test_a_plan_is_worked_on_in_turns(rig, monkeypatch):
    """Others have their turn after each piece of the request, and after SLICE elements of the answer
    and SLICE routes that are sent."""
    monkeypatch.setattr(limits, "SLICE", 5)
    rig.new(formats.load("fat-tree:k=4,workers=13,servers=3").to_json())
    turn, done = [0], Counter()

    async def others():
        while True:
            turn[0] += 1
            await asyncio.sleep(0)

    def counted(function, what):
        def count(*arguments):
            done[what, turn[0]] += 1
            return function(*arguments)

        return count

    def counted_pieces(value):
        for piece in turns.pieces(value):
            done["written", turn[0]] += 1
            yield piece

    monkeypatch.setattr(planner, "pieces", counted_pieces)
    monkeypatch.setattr(drafts, "pieces", counted_pieces)
    monkeypatch.setattr(drafts.Reading, "take", counted(drafts.Reading.take, "read"))
    monkeypatch.setattr(routes, "_install", counted(routes._install, "sent"))
    rig.all_daemons()
    task = rig.loop.create_task(others())
    rig.wait(0.2)
    task.cancel()
    for what, most, least in (("written", 1, 20), ("read", 5, 40), ("sent", 5, 10)):
        each = [count for (name, _), count in done.items() if name == what]
        assert max(each) <= most and sum(each) > least, (what, each)
    assert rig.answer() and rig.job.announced


def test_pieces_of_json_are_short():
    many = [{"a": number, "b": [0] * 9} for number in range(3 * limits.SLICE + 1)]
    value = {"x": many, "y": {"z": many[:2], "\u00e4": {}, "none": None}, "empty": []}
    found = list(turns.pieces(value))
    assert json.loads("".join(found)) == value
    assert max(piece.count("a") for piece in found) == limits.SLICE
