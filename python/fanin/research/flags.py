# SPDX-License-Identifier: Apache-2.0
"""Flags as the program `fanin` gives them, which has read and checked options: --NAME or
--NAME=VALUE."""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence


class Wrong(Exception):
    """A flag that there is not, or options that do not go together."""


def texts(names: str) -> dict[str, Any]:
    """Flags that are texts, in one text: each is "" if it is not given."""
    return dict.fromkeys(names.split(), "")


def parse(arguments: Sequence[str], defaults: dict[str, Any]) -> SimpleNamespace:
    """The values by name, each of the type of its default; those of a list, which may come again.

    Wrong: a flag has no default."""
    values = {key: list(v) if isinstance(v, list) else v for key, v in defaults.items()}
    for argument in arguments:
        flag, given, value = argument.partition("=")
        key = flag[2:].replace("-", "_")
        default = values.get(key)
        if not flag.startswith("--") or default is None or bool(given) == isinstance(default, bool):
            raise Wrong(f"{argument}: expected --FLAG or --OPTION=VALUE, as --help has them")
        if isinstance(default, list):
            default.append(value)
        else:
            values[key] = type(default)(value) if given else True
    return SimpleNamespace(**values)
