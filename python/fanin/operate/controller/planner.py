# SPDX-License-Identifier: Apache-2.0
"""`fanin plan --serve` as a child process: requests and answers are lines of JSON.

The loop never waits for a plan, and others have their turn while one is written or read.  A child
that is not needed any more is killed; it dies with its controller.  planner/cmd/main.c describes
requests and answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any, Callable, Optional

from . import limits
from .model import Json, Settings, Wrong
from .turns import in_turns, others_first, pieces

ANSWER_BYTES_MAX = 256 << 20
END_S = 1.0  # for a child to end that has closed its output
Process = asyncio.subprocess.Process
Take = Callable[[str, Json], None]  # a list's name, and its next element


class Planners:
    """The children, of which an idle one waits for the next session."""

    def __init__(self, settings: Settings) -> None:
        self._command = [os.environ.get("FANIN", "fanin"), "plan", "--serve"]
        self.options: Json = {
            "algorithm": settings.algorithm,
            "trees": settings.trees,
            "sums_at": settings.sums_at,
        }
        self._idle: Optional[Process] = None
        self._preparing: Optional[asyncio.Task[None]] = None
        self._has_ended = False

    async def take(self) -> Process:
        """A child that has nothing to do; OSError: it cannot be started."""
        child, self._idle = self._idle, None
        if child is not None and child.returncode is None:
            return child
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, limit=ANSWER_BYTES_MAX
        )

    def give(self, child: Process, is_busy: bool) -> None:
        """Take back a child.  One that is busy is killed, and another one started."""
        fits = not is_busy and self._idle is None and child.returncode is None
        if fits and not self._has_ended:
            self._idle = child
            return
        _kill(child)
        if self._idle is None and not self._has_ended:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())

    async def _prepare(self) -> None:
        try:
            child = await self.take()
        except OSError:
            return  # the next session tries again
        self.give(child, is_busy=False)

    async def end(self) -> None:
        """End the idle child; those that are given back from now on are killed."""
        self._has_ended = True
        child, self._idle = self._idle, None
        if child is not None:
            _kill(child)
            await child.wait()


def _kill(child: Process) -> None:
    if child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass
    if child.stdin is not None:
        child.stdin.close()


async def _end_of(child: Process) -> str:
    """How a child ended, or was ended, whose answer has not come."""
    try:
        status = await asyncio.wait_for(child.wait(), END_S)
    except asyncio.TimeoutError:
        return "the planner has closed its output"
    if status < 0:
        return f"the planner was ended by {signal.Signals(-status).name}"
    return f"the planner has ended with exit status {status}"


class Planner:
    """A session: `async with` takes a child at the first request, and gives it back."""

    def __init__(self, planners: Planners) -> None:
        self._planners = planners
        self._child: Optional[Process] = None
        self._is_busy = False

    async def __aenter__(self) -> Planner:
        return self

    async def __aexit__(self, *why: Any) -> None:
        if self._child is not None:
            self._planners.give(self._child, self._is_busy)

    async def ask(
        self, topology: Json, slots: int = 0, take: Optional[Take] = None, **request: Any
    ) -> Json:
        """The answer, and before it the elements of its lists to `take`; Wrong: what the planner
        says of the request.  OSError: it does not run.

        `slots`: of each switch, which are shared out; 0: no quotas."""
        request["topology"] = topology
        request["options"] = {**self._planners.options, "slots": slots}
        if self._child is None:
            self._child = await self._planners.take()
        self._is_busy = True
        await self._write(self._child, request)
        answer = await self._read(self._child, take)
        self._is_busy = False
        if "error" in answer:
            raise Wrong(answer["error"])
        return answer

    @staticmethod
    async def _write(child: Process, request: Json) -> None:
        to = child.stdin
        assert to is not None
        async for piece in in_turns(pieces(request), 1):
            to.write(piece.encode())
            await to.drain()
        to.write(b"\n")

    @staticmethod
    async def _read(child: Process, take: Optional[Take]) -> Json:
        answers, count = child.stdout, 0
        assert answers is not None
        while True:
            line = await answers.readline()
            if not line.endswith(b"\n"):
                raise OSError(await _end_of(child))
            said: Json = json.loads(line)
            if "more" not in said or take is None:
                return said
            take(*said["more"])
            count += 1
            if count % limits.SLICE == 0:
                await others_first()
