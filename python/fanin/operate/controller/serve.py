# SPDX-License-Identifier: Apache-2.0
"""A controller from its start to SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, List, Optional

from ...research import files, formats
from . import limits, metrics, plans, reports, saved
from .lines import resolve, text_of
from .core import Controller
from .dispatch import Dispatch
from .log import Log
from .model import Json, Settings, Wrong
from .planner import Planner, Planners
from .saved import Kept
from .sign import read_keys
from .sockets import Sockets

PAGES = ("page.html", "../../../../src/cmd/metrics/page.html")  # beside this file


class Failed(Exception):
    """The controller cannot start; the text says why."""


class Files:
    """--state and --json: written before lines about an event are sent."""

    def __init__(self, c: Controller, options: SimpleNamespace, log: Callable[[str], None]) -> None:
        self._c, state, shown = c, options.state, options.json
        self._state = Kept("state", state, log, limits.AGAIN_S) if state else None
        self._json = Kept("json", shown, log, limits.AGAIN_S) if shown else None
        self._json_s = 0.0  # the status is not written before

    def write(self, at_end: bool = False) -> Optional[float]:
        """Write the state, and the status at most every limits.JSON_S; in how many seconds it is to be
        called again even if nothing happens."""
        whole, now_s = True, time.monotonic()
        if self._state is not None:
            whole = self._state.write(saved.text(self._c))
        if self._json is None:
            return None if whole else limits.AGAIN_S
        if now_s < self._json_s and not at_end:
            return self._json_s - now_s
        whole = self._json.write(reports.as_text(reports.status(self._c))) and whole
        self._json_s = now_s + limits.JSON_S
        return None if whole else limits.AGAIN_S


async def _network(settings: Settings, planners: Planners) -> Json:
    """The topology with all defaults filled in."""
    topology: Json = formats.load(settings.file).to_json()
    try:
        async with Planner(planners) as planner:
            await planner.ask(topology)
    except Wrong as wrong:
        raise Wrong(f"{settings.file}: {wrong}") from None
    except OSError as error:
        raise Failed(f"fanin plan: {error}") from None
    return topology


async def _make(options: SimpleNamespace, log: Callable[[str], None]) -> Controller:
    """A controller with topology, plan and state."""
    settings = Settings(
        options.topology, options.algorithm, options.trees, options.sums_at, options.wait
    )
    planners = Planners(settings)
    topology = await _network(settings, planners)
    plan = files.load(options.plan) if options.plan else None
    is_there = options.state and os.path.exists(options.state)
    state = files.load(options.state) if is_there else None
    now_s = time.monotonic()
    c = Controller(settings, planners, now_s, log, start_s=now_s, awake_s=now_s + 1)
    try:
        c.load(topology)
        if plan is not None:
            await plans.install(c, plan)
        if state is not None:
            saved.restore(c, state)
    except Wrong as wrong:
        file = options.plan or (options.state if state is not None else "")
        where = f"{settings.file}, {file}" if file else settings.file
        raise Wrong(f"{where}: {wrong}") from None
    return c


def _page() -> str:
    """The page at the metrics port; "": it is not installed."""
    for place in PAGES:
        path = Path(__file__).resolve().parent / place
        if path.exists():
            return path.read_text(encoding="utf-8")
    return ""


def _open(sockets: Sockets, options: SimpleNamespace) -> str:
    """Listen; the address."""
    what = "--listen"
    try:
        host, port, family = resolve(options.listen)
        port = sockets.listen(host, port, family)
        what = "--socket"
        if options.socket:
            sockets.listen_unix(options.socket)
    except OSError as error:
        raise Failed(f"{what}: {error.strerror}") from None
    return text_of(host, port)


async def _serve_metrics(
    c: Controller, options: SimpleNamespace, log: Log
) -> Optional[metrics.Http]:
    if not options.metrics:
        return None
    host, port, _ = resolve(options.metrics)
    version = os.environ.pop("FANIN_VERSION", "unknown")

    def text() -> str:
        c.now_s = time.monotonic()
        return metrics.text(reports.status(c), version, log.lost)

    http = metrics.Http(text, _page())
    try:
        await http.start(host, port)
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else str(error)
        raise Failed(f"--metrics: {text_of(host, port)}: {cause}") from None
    return http


async def _run(options: SimpleNamespace) -> None:
    log = Log()

    def event(text: str) -> None:
        if not options.quiet:
            log.write(text)

    keys: List[bytes] = []
    try:
        keys = read_keys(options.key) if options.key else []
    except Wrong as wrong:
        raise Failed(f"--key: {wrong}") from None
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    c = await _make(options, event)
    gc.collect()
    gc.freeze()  # nodes and links stay, so that nobody waits while they are looked through
    written = Files(c, options, log.write)
    sockets = Sockets(Dispatch(c), keys, written.write)
    http = None
    try:
        at = _open(sockets, options)
        http = await _serve_metrics(c, options, log)
        event(f"{c.settings.file:.200}, listening on {at}")
        await sockets.start()
        await stopped.wait()
        written.write(at_end=True)
    finally:
        if http is not None:
            http.stop()
        sockets.shut()
        await c.planners.end()


def serve(options: SimpleNamespace) -> int:
    """Serve until SIGINT or SIGTERM; the exit status."""
    try:
        asyncio.run(_run(options))
        return 0
    except (Failed, Wrong, files.FileError) as error:
        print(f"fanin controller: {error}", file=sys.stderr)
        return 1 if isinstance(error, Failed) else 2
