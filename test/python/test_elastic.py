# SPDX-License-Identifier: Apache-2.0
"""Groups whose ranks change (fanin/_elastic.py); reconfigured.py is their program."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import WAIT_S, Processes

from fanin import _elastic, _meeting

SCRIPT = str(Path(__file__).parent / "reconfigured.py")
LATE = timedelta(seconds=WAIT_S)


def keeps_size():
    """Whether C++ code of this PyTorch would go on with the old size."""
    try:
        _elastic.check()
    except RuntimeError:
        return True
    return False


def test_handles_that_cannot_be_taken():
    own = _elastic.handle(str)
    for handles, why in (
        (["fanin1/1/2/127.0.0.1"], "own is not among"),
        ([own, own], "twice"),
        (["gloo:0", own], "expected one of get_reconfigure_handle"),
    ):
        with pytest.raises(ValueError, match=why):
            _elastic.place(1, handles, LATE)


OWN = {"lo": "127.0.0.1", "e0": "198.51.100.1", "e1": "198.51.100.2"}


@pytest.mark.parametrize(
    "named, seen, way_out, interfaces, expected",
    [
        ("", "198.51.100.3", "198.51.100.4", OWN, "198.51.100.3"),
        ("", "127.0.0.1", "198.51.100.4", OWN, "198.51.100.4"),
        ("", None, "198.51.100.4", OWN, "198.51.100.4"),
        ("", "127.0.1.1", "", OWN, "198.51.100.1"),
        ("", "", "", OWN, "198.51.100.1"),
        ("e1", "198.51.100.3", "198.51.100.4", OWN, "198.51.100.2"),
        ("lo", "198.51.100.3", "198.51.100.4", OWN, "127.0.0.1"),
        ("other", "127.0.0.1", "", {"lo": "127.0.0.1"}, "127.0.0.1"),
        ("", "127.0.0.1", "", {}, "127.0.0.1"),
    ],
)
def test_a_handle_has_loopback_only_where_there_is_nothing_else(
    monkeypatch, caplog, named, seen, way_out, interfaces, expected
):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", named)
    monkeypatch.setattr(_meeting, "local_address", lambda host: way_out)
    monkeypatch.setattr(_meeting, "interfaces", lambda: interfaces)

    def seen_by_ranks():
        if seen is None:
            raise RuntimeError("the store has gone")
        return seen

    assert _elastic._own_address(seen_by_ranks) == expected
    assert ("no address but loopback" in caplog.text) == (expected == OWN["lo"] and named != "lo")


def test_places_of_one_uuid_and_order_have_one_name():
    own, uuid = _elastic.handle(str), 7
    other = own.replace("/", "/0", 1)
    names = {
        _elastic.place(number, handles, LATE).name
        for number, handles in ((uuid, [own, other]), (uuid, [own, other, other + "1"]), (8, [own]))
    }
    assert len(names) == 3
    assert _elastic.place(uuid, {own}, LATE).name == _elastic.place(uuid, [own], LATE).name


@pytest.mark.skipif(
    keeps_size(), reason=f"C++ code of PyTorch {torch.__version__} keeps a group's size"
)
def test_ranks_go_on_without_a_lost_one_and_one_comes_back(tmp_path):
    first = Processes(3, "", {}, command=[SCRIPT, str(tmp_path), "first"])
    again = Processes(1, "", {}, command=[SCRIPT, str(tmp_path), "again"])
    outcome = first.outputs() + again.outputs()
    assert outcome[2][0] != 0  # killed
    for number, rank in ((0, 1), (1, 2), (3, 0)):
        status, said, err = outcome[number]
        assert status == 0, err
        assert f"2: rank {rank} of 3; fanin: active, 3 ranks" in said
        assert ("1: rank " in said) == (number < 2)


@pytest.mark.skipif(
    not hasattr(dist, "shrink_group"), reason=f"PyTorch {torch.__version__} has no shrink_group"
)
def test_ranks_leave_others_behind_by_shrink_group(tmp_path):
    outcome = Processes(4, "", {}, command=[SCRIPT, str(tmp_path), "shrink"]).outputs()
    assert outcome[3][0] != 0  # killed
    for number, (status, said, err) in enumerate(outcome[:3]):
        assert status == 0, err
        assert f"without 3: rank {number} of 3; fanin: active, 3 ranks" in said
        assert (f"without 0: rank {number - 1} of 2; fanin: active, 2 ranks" in said) == (
            number > 0
        )
    assert "no store" in outcome[2][1]
