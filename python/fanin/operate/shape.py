# SPDX-License-Identifier: Apache-2.0
"""What other programs have written as JSON, checked in one place before anything uses it.

A shape is a tuple of the least and the most that a number may be; True for a truth; a number for
the most characters of a text; a list of one shape and the most elements; a dict of shapes by key.
A function takes the value, None if it is missing, and returns a checked one.  What no shape names is
dropped.  What is missing is the least, False, "" or nothing, unless its key has a "?": then it stays
so, and null counts as missing; or a "!": then it is Bad.
"""

from __future__ import annotations

import math

from ..research.files import FileError, decode, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


COUNT = (0, (1 << 63) - 1)
SECONDS = (0.0, 1e15)
TEXT = 1023
RANKS_MAX = 256

_RANK_LIST = [(0, 65535), RANKS_MAX]
_STATS = {
    **{key: COUNT for key in "ops bytes fragments sent retransmits probes drops moves".split()},
    "rtt_s": SECONDS,
    "server": (0, 1),
}
RANK: dict[str, Any] = {
    "job": TEXT,
    "rank": (0, 65535),
    "ranks": (0, 65535),
    "state": TEXT,
    "mode": TEXT,
    "column": True,
    "sealed": True,
    "open": COUNT,
    "waited_s": SECONDS,
    "waits": TEXT,
    "rate": SECONDS,
    "over_s": SECONDS,
    "told_s": SECONDS,
    "switch": TEXT,
    "hosts": COUNT,
    "missing": _RANK_LIST,
    "away": True,
    "under_way": [{"kind": TEXT, "bytes": COUNT, "age_s": SECONDS}, 16],
    "places": [{"at": TEXT, "job": TEXT}, 64],
    "parts": [
        {
            "aggregator": TEXT,
            "inside": (-1, 65535),
            "share": (0.0, 1.0),
            "rtt_s": SECONDS,
            "lost": True,
        },
        64,
    ],
    "stats": _STATS,
    "of?": _RANK_LIST,
    "error": TEXT,
}
PROCESS = {
    "pid": (0, 1 << 31),
    "program": TEXT,
    "more": COUNT,
    "ranks": [RANK, 1024],
}
# What `fanin ps --json` prints, of one host.
TOLD = {
    "host": TEXT,
    "silent": [(0, 1 << 31), 8192],
    "left_out": COUNT,
    "ranks": [
        {
            **RANK,
            "pid": (0, 1 << 31),
            "uid": (0, 1 << 32),
            "program": TEXT,
            "by_host?": True,
            "stats_net?": _STATS,
        },
        32768,
    ],
}


class Bad(FileError):
    """It is not what the shape says."""


def _number(value: Any, least: Any, most: Any) -> Any:
    """A number in its bounds, of the type of the bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad("expected a number")
    if isinstance(least, int) and not isinstance(value, int):
        raise Bad("expected a whole number")
    if not math.isfinite(value) or not least <= value <= most:
        raise Bad("a number out of its bounds")
    return value


def _nothing(shape: Any) -> Any:
    """What stands for a value that is missing."""
    if shape is True:
        return False
    if callable(shape):
        return shape(None)
    if isinstance(shape, int):
        return ""
    if isinstance(shape, tuple):
        return shape[0]
    return [] if isinstance(shape, list) else checked({}, shape)


def checked(value: Any, shape: Any) -> Any:
    """The value as its shape has it; Bad: it is another."""
    if shape is True:
        if not isinstance(value, bool):
            raise Bad("expected true or false")
        return value
    if callable(shape):
        return shape(value)
    if isinstance(shape, int):
        if not isinstance(value, str):
            raise Bad("expected a text")
        return plain(value[:shape])
    if isinstance(shape, tuple):
        return _number(value, *shape)
    if isinstance(shape, list):
        if not isinstance(value, list) or len(value) > shape[1]:
            raise Bad(f"expected at most {shape[1]} elements")
        return [checked(one, shape[0]) for one in value]
    if not isinstance(value, dict):
        raise Bad("expected an object")
    found = {}
    for key, of in shape.items():
        mark = key[-1]
        name = key[:-1] if mark in "?!" else key
        if name in value and (mark != "?" or value[name] is not None):
            found[name] = of(value[name]) if callable(of) else checked(value[name], of)
        elif mark == "!":
            raise Bad(f"expected {name}")
        elif mark != "?":
            found[name] = _nothing(of)
    return found


def _plain(value: Any) -> Any:
    """The value, of which no text speaks to a terminal."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return plain(value) if isinstance(value, str) else value


def load(text: bytes, shape: Any | None = None) -> Any:
    """The value that the JSON in `text` has, by its shape if one is given; Bad: it is not so.

    Without one it is what this program's own children say, which is only made plain."""
    try:
        value = decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise Bad("no JSON") from error
    return _plain(value) if shape is None else checked(value, shape)
