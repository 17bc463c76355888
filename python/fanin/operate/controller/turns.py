# SPDX-License-Identifier: Apache-2.0
"""Long work in pieces, between which daemons, workers and people have their turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any, AsyncIterator, Iterable, Iterator, TypeVar

from . import limits

T = TypeVar("T")


async def others_first() -> None:
    """Let others have TURNS turns of the loop: a question takes about twice as many."""
    for _ in range(limits.TURNS):
        await asyncio.sleep(0)


async def in_turns(items: Iterable[T], most: int = 0) -> AsyncIterator[T]:
    """The items; others come first before each `most` of them, or SLICE."""
    for number, item in enumerate(items):
        if number % (most or limits.SLICE) == 0:
            await others_first()
        yield item


def pieces(value: Any) -> Iterator[str]:
    """The JSON of a value, in pieces of SLICE elements of a list at most."""
    if isinstance(value, dict) and value:
        mark = "{"
        for key, inside in value.items():
            yield f"{mark}{json.dumps(key)}:"
            yield from pieces(inside)
            mark = ","
        yield "}"
    elif isinstance(value, list) and len(value) > limits.SLICE:
        mark = "["
        for at in range(0, len(value), limits.SLICE):
            some = json.dumps(value[at : at + limits.SLICE], separators=(",", ":"))
            yield mark + some[1:-1]
            mark = ","
        yield "]"
    else:
        yield json.dumps(value, separators=(",", ":"))
