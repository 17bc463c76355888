# SPDX-License-Identifier: Apache-2.0
"""Flags as the program `fanin` gives them, which has read and checked options: --NAME or
--NAME=VALUE."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Wrong(Exception):
    """A flag that there is not, or options that do not go together."""


def parse(arguments: list[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """The values by name, each of the type of its default; Wrong: a flag has none."""
    values = dict(defaults)
    for argument in arguments:
        flag, given, value = argument.partition("=")
        key = flag[2:].replace("-", "_")
        if (
            not flag.startswith("--")
            or key not in values
            or bool(given) == isinstance(values[key], bool)
        ):
            raise Wrong(f"{argument}: expected --FLAG or --OPTION=VALUE, as --help has them")
        values[key] = type(values[key])(value) if given else True
    return values
