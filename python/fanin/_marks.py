# SPDX-License-Identifier: Apache-2.0
"""Marks of operations that a process group builds of sums (fanin.Communicator.mark), and their names."""

import re

from .errors import FaninError

STATEMENT = 1  # what a rank is about to do: _agreed.py
GATHER = 2  # a small all-gather
TIMES = 3  # of a trial, on which ranks agree: _beside.py

_WORDS = [
    (
        re.compile(rf"sum of int64, \d+ elements with mark {STATEMENT}\b"),
        "word of another operation",
    ),
    (re.compile(rf"sum of int32, \d+ elements with mark {GATHER}\b"), "small all-gather"),
    (
        re.compile(rf"maximum of float64, \d+ elements with mark {TIMES}\b"),
        "times of a trial",
    ),
]


def in_words(error: FaninError) -> FaninError:
    """The error with operations as their callers know them."""
    text = str(error)
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return error if text == str(error) else type(error)(text, error.code)
