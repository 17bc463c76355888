# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree about what to do: an error that says so, on all of them, and no wrong sum."""

import agreement
import pytest
from conftest import Processes


def answers(size, name, arguments=None, environment=None):
    """What each rank printed; all must have ended well."""
    return Processes(size, name, arguments or {}, environment, "disagree_ranks.py").answers()


@pytest.mark.parametrize("local", ["1", "0"])
@pytest.mark.parametrize("size", [2, 3])
def test_every_difference_is_named(size, local):
    found = answers(size, "differences", environment={"FANIN_LOCAL": local})
    for answer in found:
        assert len(answer) == 25
        for name, ends in answer.items():
            for kind, text in ends:
                assert kind == "MismatchError" and "ranks disagree" in str(text), (name, ends)


def test_every_difference_is_named_where_gloo_does_all():
    options = {"required": False, "communicator": {"switch": "127.0.0.1:9", "timeout": 1}}
    for answer in answers(2, "differences", {"options": options}):
        for name, ((kind, text), _) in answer.items():
            assert kind == "MismatchError" and "ranks disagree" in text, (name, kind, text)


def test_random_programs():
    totals, wrong = agreement.run(0, 80, 6)
    print(agreement.told(totals, wrong))
    assert wrong == []
    assert totals["programs"] == 80
    assert totals["right"] > 40 and totals["error MismatchError"] > 40
