# SPDX-License-Identifier: Apache-2.0
"""`fanin plan --serve` as a child process: requests and answers are lines of JSON.

The loop never waits for a plan.  A child that is not needed any more is killed; it dies with its
controller.  planner/cmd/plan_serve.c describes requests and answers.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, List, Optional

from .core import Settings
from .model import Json, Wrong

ANSWER_BYTES_MAX = 256 << 20


class Planner:
    """One child, started by the first request.  `async with` ends it."""

    def __init__(self, settings: Settings) -> None:
        self._command = [
            os.environ.get("FANIN", "fanin"),
            "plan",
            "--serve",
            f"--algorithm={settings.algorithm}",
            f"--seed={settings.seed}",
            f"--trees={settings.trees}",
            f"--sums-at={settings.sums_at}",
        ]
        self._child: Optional[asyncio.subprocess.Process] = None

    async def __aenter__(self) -> Planner:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.end()

    async def ask(self, request: Json) -> Json:
        """The answer; Wrong: what the planner says of the request.  OSError: it does not run."""
        if self._child is None:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, limit=ANSWER_BYTES_MAX
            )
        to, answers = self._child.stdin, self._child.stdout
        assert to is not None and answers is not None
        to.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        await to.drain()
        said = await answers.readline()
        if not said.endswith(b"\n"):
            raise OSError("the planner has ended")
        answer: Json = json.loads(said)
        if "error" in answer:
            raise Wrong(answer["error"])
        return answer

    async def end(self) -> None:
        """Kill the child, if there is one."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            try:
                child.kill()
            except ProcessLookupError:
                pass
        if child.stdin is not None:
            child.stdin.close()
        await asyncio.shield(child.wait())


def read_json(path: str) -> Any:
    """JSON from a file; Wrong: why not."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file, object_pairs_hook=_unlike)
    except OSError as error:
        raise Wrong(error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise Wrong(f"not JSON: {error}") from None


def _unlike(pairs: List[Any]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found
