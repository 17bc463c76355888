# SPDX-License-Identifier: Apache-2.0
"""Objects of a scenario, read by tables, with errors that name the place.

A row of a table is a key of an object.  A key that no row names is an error, so that a misspelt one
is not overlooked.  Numbers are given in the unit that ends the key's name, and become whole
nanoseconds, bits a second or millionths.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Iterable, Iterator, NamedTuple, NoReturn, Sequence

from .files import FileError, plain

NAME_MAX = 63  # bytes of a name
NAME_CHARS = "letters, digits, - _ . and /"
NAME_SET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")
U16_MAX, U32_MAX, WHOLE_MAX = 0xFFFF, 0xFFFFFFFF, 1 << 53  # above it a float is not exact
EDITED_MAX = 64  # letters of a word that is compared with others

_WHOLE = {"u16": U16_MAX, "u32": U32_MAX, "u64": WHOLE_MAX}
_UNIT = {"gbps": 1e9, "s": 1e9, "ms": 1e6, "times": 1e6, "share": 1e6, "us": 1e3}
_STORED_MAX = {**_WHOLE, "times": U32_MAX, "share": 1e6, "gbps": 1e14}


class ScenarioError(FileError):
    """A scenario, network or option that makes no sense; the text has its path and cause."""


class Field(NamedTuple):
    """A row: what the value is and, of a number, its bounds in the key's unit; both 0: any that fits.

    `kind`: "name", "names" ("w*", too), "label" (a name of any letters), "bool", "word", one of _WHOLE
    or _UNIT, "real", a number in the unit of its key, or "other", which is left as it is."""

    kind: str
    least: float = 0
    most: float = 0
    words: Sequence[str] = ()


class Place:
    """What is being read: a file, and the path to the present object in it."""

    def __init__(self, file: str, path: str = "") -> None:
        self.file, self.path = file, path

    def inside(self, part: str) -> Place:
        """A part of the present object, "jobs" or "[3]"."""
        dot = "." if self.path and not part.startswith("[") else ""
        return Place(self.file, self.path + dot + part)

    def fail(self, key: str, text: str) -> NoReturn:
        """Complain about a key of the present object or, if it is "", the object."""
        where = (self.inside(key) if key else self).path
        raise ScenarioError(plain(": ".join(filter(None, (self.file, where, text)))))

    @contextmanager
    def of(self, key: str, name: str = "") -> Iterator[None]:
        """Complain about the key for what is wrong in the file or network `name`."""
        try:
            yield
        except FileError as error:
            self.fail(key, f"{name}: {error}" if name else str(error))


def type_name(value: Any) -> str:
    """What JSON calls it."""
    if isinstance(value, bool):
        return "true or false"
    for kind, name in ((dict, "an object"), (list, "an array"), (str, "a text")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "a number"


def _edits(a: str, b: str) -> int:
    """How many letters have to change, be added or left out, or change places."""
    before, last = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        now = [i] + [0] * len(b)
        for j, other in enumerate(b, 1):
            now[j] = min(last[j - 1] + (letter != other), last[j] + 1, now[j - 1] + 1)
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                now[j] = min(now[j], before[j - 2] + 1)
        before, last = last, now
    return last[-1]


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that `word` may have been meant to be, or ""."""
    if len(word) > EDITED_MAX:
        return ""
    found = min(((_edits(word, other), i, other) for i, other in enumerate(words)), default=None)
    return found[2] if found and found[0] <= len(word.encode()) // 3 + 1 else ""


def is_plain(name: str) -> bool:
    """Has it no control characters, nor halves of any?"""
    return not re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff]", name)


def _name(place: Place, key: str, kind: str, value: Any) -> str:
    if not isinstance(value, str):
        place.fail(key, f"expected a name, got {type_name(value)}")
    if not 0 < len(value.encode("utf-8", "replace")) <= NAME_MAX:
        place.fail(key, f"expected a name of 1 to {NAME_MAX} bytes")
    if kind == "label" and not is_plain(value):
        place.fail(key, f'"{value}": expected a name without control characters')
    bare = value[:-1] if kind == "names" and value.endswith("*") else value
    if kind != "label" and not NAME_SET.issuperset(bare):
        place.fail(key, f'"{value}": expected only {NAME_CHARS}')
    return value


def _word(place: Place, key: str, words: Sequence[str], value: Any) -> str:
    if isinstance(value, str) and value in words:
        return value
    if not isinstance(value, str):
        place.fail(key, f"expected one of {', '.join(words)}, got {type_name(value)}")
    place.fail(key, f'"{value[:NAME_MAX]}": expected one of {", ".join(words)}')


def number(place: Place, key: str, field: Field, value: Any) -> float:
    """The number in stored units, whole if these are."""
    whole, per = field.kind in _WHOLE, _UNIT.get(field.kind, 1)
    most = _STORED_MAX.get(field.kind, WHOLE_MAX) / per
    if 0 < field.most < most:
        most = field.most
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        place.fail(key, f"expected a number, got {type_name(value)}")
    x = float(value) if abs(value) < 1 << 1023 else math.copysign(math.inf, value > 0 or -1)
    if not field.least <= x <= most:
        kind = "whole " if whole else ""
        place.fail(key, f"{x:.15g}: expected a {kind}number from {field.least:.15g} to {most:.15g}")
    if whole and x != int(x):
        place.fail(key, f"{x:.15g}: expected a whole number")
    return x if field.kind == "real" else int(x * per + 0.5)


def read(place: Place, value: Any, table: dict[str, Field], *needed: str) -> dict[str, Any]:
    """The values of an object's keys; absent ones are absent, which `needed` ones may not be."""
    if not isinstance(value, dict):
        place.fail("", f"expected an object, got {type_name(value)}")
    found: dict[str, Any] = {}
    for key, item in value.items():
        field = table.get(key)
        if field is None:
            near = nearest(key, table)
            place.fail(
                key[:NAME_MAX], "no such key" + (f'; did you mean "{near}"?' if near else "")
            )
        if field.kind in ("name", "names", "label"):
            found[key] = _name(place, key, field.kind, item)
        elif field.kind == "word":
            found[key] = _word(place, key, field.words, item)
        elif field.kind == "bool":
            if not isinstance(item, bool):
                place.fail(key, f"expected true or false, got {type_name(item)}")
            found[key] = item
        elif field.kind == "real" and type(item) is float and field.least <= item <= field.most:
            found[key] = item  # as most are, in files of many links
        elif field.kind != "other":
            found[key] = number(place, key, field, item)
    for key in needed:
        if key not in value:
            place.fail("", f'lacks the key "{key}"')
    return found


@lru_cache
def _stored_key(key: str) -> str:
    return re.sub("gbps$", "bps", re.sub("_(s|ms|us)$", "_ns", key))


def stored(values: dict[str, Any]) -> dict[str, Any]:
    """The values by the keys of the flat scenario: there a unit is always the stored one."""
    return {_stored_key(key): value for key, value in values.items()}


def entries(
    place: Place, root: dict[str, Any], key: str, most: int, least: int = 0
) -> list[tuple[Place, Any]]:
    """The entries of the list `key`, if there is one, and their places."""
    found = root.get(key, [])
    if not isinstance(found, list) or not least <= len(found) <= most:
        span = f"{least} to" if least else "at most"
        place.fail(key, f"expected an array of {span} {most} entries")
    return [(place.inside(f"{key}[{i}]"), item) for i, item in enumerate(found)]
