# SPDX-License-Identifier: Apache-2.0
"""Changes of a scenario: --set, --sweep and --variants."""

from __future__ import annotations

import itertools
import json
from typing import Any, Iterable, Iterator, Sequence

from . import files

DEPTH_MAX = 16
VALUES_MAX = 64  # of a key of a sweep; variants
POINTS_MAX = 1024  # combinations


class SettingError(files.FileError):
    """A setting that the scenario has no place for."""


def _walk(at: Any, parts: Sequence[str], value: Any) -> tuple[int, str]:
    """Put the value at the end of a path from here; how often that was done, and the part that led
    nowhere."""
    part, *rest = parts
    keys: list[Any] = [part] if isinstance(at, dict) and (part in at or not rest) else []
    if isinstance(at, list):
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 10 else -1
        keys = [
            i
            for i, entry in enumerate(at)
            if part == "*" or i == number or (isinstance(entry, dict) and entry.get("name") == part)
        ]
    hits, lost = 0, "" if keys else part
    for key in keys:
        if rest:
            more, lost = _walk(at[key], rest, value)
            hits += more
        else:
            at[key] = value
            hits += 1
    return hits, lost


def put(root: Any, path: str, value: Any) -> None:
    """Change the value at a path like "jobs.0.window" or "topology.links.*.loss".

    Its parts are keys, numbers or names of array entries, or * for all of them."""
    parts = [part for part in path.split(".") if part]
    hits, lost = _walk(root, parts, value) if 0 < len(parts) <= DEPTH_MAX else (0, path)
    if not hits:
        raise SettingError(f'"{path}": the scenario has nothing at "{lost}"')


def put_all(root: Any, given: Iterable[tuple[str, str]]) -> None:
    """The same of keys and texts, which are JSON or else stand for themselves."""
    for path, text in given:
        put(root, path, files.value_of(text))


def read_variants(path: str) -> dict[str, dict[str, Any]]:
    """Named groups of settings."""
    found = files.load(path)
    with files.of(path):
        if not isinstance(found, dict) or not found:
            raise files.FileError("expected an object of settings by name")
        if len(found) > VALUES_MAX:
            raise files.FileError(f"more than {VALUES_MAX} variants")
        for name, sets in found.items():
            if not name or not isinstance(sets, dict):
                raise files.FileError(f"{name}: expected an object of values by key")
    return found


def points(
    variants: dict[str, dict[str, Any]], sweeps: Sequence[tuple[str, Sequence[Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A variant's name and the values of the sweeps' keys, for each combination."""
    keys = [key for key, _ in sweeps]
    for name in variants or [""]:
        for values in itertools.product(*(values for _, values in sweeps)):
            yield name, dict(zip(keys, values))


def copy(value: Any) -> Any:
    """A copy of JSON that shares nothing which a setting may change."""
    return json.loads(json.dumps(value))
