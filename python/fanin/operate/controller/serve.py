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
from typing import Any, Callable, Dict, List, Optional

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

EXIT_FAILED, EXIT_WRONG = 1, 2
PAGES = ("page.html", "../../../../src/cmd/metrics/page.html")  # beside this file


class Stop(Exception):
    """The controller cannot start: text and exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Files:
    """--state and --json: written before lines about an event are sent."""

    def __init__(self, c: Controller, values: Dict[str, Any], log: Callable[[str], None]) -> None:
        self._c, state, shown = c, values["state"], values["json"]
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


def _read(path: str) -> Any:
    try:
        return files.load(path)
    except files.FileError as error:
        raise Stop(str(error), EXIT_WRONG) from None


async def _network(settings: Settings, planners: Planners) -> Json:
    """The topology with all defaults filled in."""
    try:
        topology: Json = formats.load(settings.file).to_json()
        async with Planner(planners) as planner:
            await planner.ask(topology)
    except (Wrong, formats.FormatError) as wrong:
        raise Stop(f"{settings.file}: {wrong}", EXIT_WRONG) from None
    except files.FileError as error:
        raise Stop(str(error), EXIT_WRONG) from None
    except OSError as error:
        raise Stop(f"fanin plan: {error}", EXIT_FAILED) from None
    return topology


async def _make(values: Dict[str, Any], log: Callable[[str], None]) -> Controller:
    """A controller with topology, plan and state."""
    settings = Settings(
        values["topology"],
        values["algorithm"],
        values["trees"],
        values["sums_at"],
        values["wait"],
    )
    planners = Planners(settings)
    topology = await _network(settings, planners)
    plan = _read(values["plan"]) if values["plan"] else None
    is_there = values["state"] and os.path.exists(values["state"])
    state = _read(values["state"]) if is_there else None
    now_s = time.monotonic()
    c = Controller(settings, planners, now_s, log, start_s=now_s, awake_s=now_s + 1)
    try:
        c.load(topology)
        if plan is not None:
            await plans.install(c, plan)
        if state is not None:
            saved.restore(c, state)
    except Wrong as wrong:
        file = values["plan"] or (values["state"] if state is not None else "")
        where = f"{settings.file}, {file}" if file else settings.file
        raise Stop(f"{where}: {wrong}", EXIT_WRONG) from None
    return c


def _page() -> str:
    """The page at the metrics port; "": it is not installed."""
    for place in PAGES:
        path = Path(__file__).resolve().parent / place
        if path.exists():
            return path.read_text(encoding="utf-8")
    return ""


def _open(sockets: Sockets, values: Dict[str, Any]) -> str:
    """Listen; the address."""
    what = "--listen"
    try:
        host, port, family = resolve(values["listen"])
        port = sockets.listen(host, port, family)
        what = "--socket"
        if values["socket"]:
            sockets.listen_unix(values["socket"])
    except OSError as error:
        raise Stop(f"{what}: {error.strerror}", EXIT_FAILED) from None
    return text_of(host, port)


async def _serve_metrics(c: Controller, values: Dict[str, Any], log: Log) -> Optional[metrics.Http]:
    if not values["metrics"]:
        return None
    host, port, _ = resolve(values["metrics"])
    version = os.environ.pop("FANIN_VERSION", "unknown")

    def text() -> str:
        c.now_s = time.monotonic()
        return metrics.text(reports.status(c), version, log.lost)

    http = metrics.Http(text, _page())
    try:
        await http.start(host, port)
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else str(error)
        raise Stop(f"--metrics: {text_of(host, port)}: {cause}", EXIT_FAILED) from None
    return http


async def _run(values: Dict[str, Any]) -> None:
    log = Log()

    def event(text: str) -> None:
        if not values["quiet"]:
            log.write(text)

    keys: List[bytes] = []
    try:
        keys = read_keys(values["key"]) if values["key"] else []
    except Wrong as wrong:
        raise Stop(f"--key: {wrong}", EXIT_FAILED) from None
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    c = await _make(values, event)
    gc.collect()
    gc.freeze()  # nodes and links stay, so that nobody waits while they are looked through
    files = Files(c, values, log.write)
    sockets = Sockets(Dispatch(c), keys, files.write)
    http = None
    try:
        at = _open(sockets, values)
        http = await _serve_metrics(c, values, log)
        event(f"{c.settings.file:.200}, listening on {at}")
        await sockets.start()
        await stopped.wait()
        files.write(at_end=True)
    finally:
        if http is not None:
            http.stop()
        sockets.shut()
        await c.planners.end()


def serve(values: Dict[str, Any]) -> int:
    """Serve until SIGINT or SIGTERM; the exit status."""
    try:
        asyncio.run(_run(values))
        return 0
    except (Stop, Wrong) as stop:
        print(f"fanin controller: {stop}", file=sys.stderr)
        return stop.status if isinstance(stop, Stop) else EXIT_WRONG
