# SPDX-License-Identifier: Apache-2.0
"""Changes of a scenario: --set, --sweep and --variants."""

from __future__ import annotations

import itertools
import json
from typing import Any, Iterator, Sequence

from . import files

DEPTH_MAX = 16
VALUES_MAX = 64  # of a key of a sweep; variants
POINTS_MAX = 1024  # combinations


class SettingError(ValueError):
    """A setting that the scenario has no place for."""


class _Walk:
    """A path through JSON, the value to put at its end, and how often that was done."""

    def __init__(self, parts: Sequence[str], value: Any) -> None:
        self.parts, self.value = parts, value
        self.hits, self.lost = 0, ""

    def array(self, entries: list[Any], depth: int) -> None:
        """Take the entries with this number or name; for * all."""
        part = self.parts[depth]
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 10 else -1
        found = [
            i
            for i, entry in enumerate(entries)
            if part == "*" or i == number or (isinstance(entry, dict) and entry.get("name") == part)
        ]
        if not found:
            self.lost = part
        for i in found:
            if depth + 1 == len(self.parts):
                entries[i] = self.value
                self.hits += 1
            else:
                self.at(entries[i], depth + 1)

    def at(self, value: Any, depth: int) -> None:
        """Follow the path from its part `depth` on."""
        part = self.parts[depth]
        if isinstance(value, list):
            self.array(value, depth)
        elif isinstance(value, dict) and depth + 1 == len(self.parts):
            value[part] = self.value
            self.hits += 1
        elif isinstance(value, dict) and part in value:
            self.at(value[part], depth + 1)
        else:
            self.lost = part


def put(root: Any, path: str, value: Any) -> None:
    """Change the value at a path like "jobs.0.window" or "topology.links.*.loss".

    Its parts are keys, numbers or names of array entries, or * for all of them."""
    parts = [part for part in path.split(".") if part]
    walk = _Walk(parts, value)
    if parts and len(parts) <= DEPTH_MAX:
        walk.at(root, 0)
    else:
        walk.lost = path
    if not walk.hits:
        raise SettingError(f'"{path}": the scenario has nothing at "{walk.lost or path}"')


def read_variants(path: str) -> dict[str, dict[str, Any]]:
    """Named groups of settings."""
    found = files.load(path)
    if not isinstance(found, dict) or not found:
        raise files.FileError(f"{path}: expected an object of settings by name")
    if len(found) > VALUES_MAX:
        raise files.FileError(f"{path}: more than {VALUES_MAX} variants")
    for name, sets in found.items():
        if not name or not isinstance(sets, dict):
            raise files.FileError(f"{path}: {name}: expected an object of values by key")
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
