# SPDX-License-Identifier: Apache-2.0
"""Arguments of a communicator as the library has them."""

from __future__ import annotations

import os


def choice(name: str, value: str | None, choices: dict[str, int]) -> int:
    """The number of a word; -1: none is given.  ValueError: there is no such word."""
    if value is None:
        return -1
    if value not in choices:
        raise ValueError(f"{name} {value!r}: expected {', '.join(choices)}")
    return choices[value]


def milliseconds(name: str, seconds: float | None) -> int:
    """Of seconds; -1: not given.  ValueError: out of range."""
    if seconds is None:
        return -1
    if not 0.001 <= seconds <= 86400:
        raise ValueError(f"{name} {seconds!r}: expected seconds, 0.001 to 86400")
    return round(seconds * 1000)


def number(name: str, value: int | bool | None) -> int:
    """A number as it is given; -1: it is not.  ValueError: out of range."""
    if value is None:
        return -1
    if not 0 <= int(value) < 2**31:
        raise ValueError(f"{name} {value!r}: expected a number from 0")
    return int(value)


def told(name: str) -> str:
    """What the variable or the INI file has; the library says what is wrong with it."""
    text = os.environ.get(f"FANIN_{name.upper()}")
    if text:
        return text
    file = os.environ.get("FANIN_CONFIG")
    if not file:
        return ""
    import configparser  # here, since few have a file

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(file)
        return parser.get("worker", name, fallback="")
    except (configparser.Error, UnicodeDecodeError, OSError):
        return ""
