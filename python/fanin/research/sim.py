# SPDX-License-Identifier: Apache-2.0
"""`fanin sim`: scenarios in virtual time (doc/sim.md).

    python3 -m fanin.research sim --scenario SCENARIO.json|TOPOLOGY [OPTION...]

The program `fanin` reads the options from all their sources and gives them to this one as flags.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from itertools import islice
from types import SimpleNamespace
from typing import Any, Sequence

from . import engine, files, formats, network, outcome, page, settings
from .flags import Wrong, parse, texts
from .scenario import KEYS, Scenario

FAILED, WRONG = 1, 2  # exit status
LINE_S = 10.0  # between two lines of progress in a log

OPTIONS: dict[str, Any] = {
    **texts("scenario seed variants plan json report trace pcap calibrate"),
    **{"set": [], "sweep": [], "jobs": 0, "quiet": False},
}


# ---- options ----


def _sweep(text: str) -> tuple[str, list[str]]:
    key, _, values = text.partition("=")
    if not key or not values:
        raise Wrong(f'--sweep: "{text}": expected KEY=A,B,C')
    found = [value for value in values.split(",") if value]
    if not found:
        raise Wrong(f'--sweep: "{text}": no values')
    if len(found) > settings.VALUES_MAX:
        raise Wrong(f"--sweep: more than {settings.VALUES_MAX} values")
    return key, found


def _options(argv: Sequence[str]) -> SimpleNamespace:
    """The options, checked; Wrong: they do not go together."""
    args = parse(argv, OPTIONS)
    args.sweep = [_sweep(text) for text in args.sweep]
    args.several = bool(args.sweep or args.variants)
    if args.seed and not (args.seed.isascii() and args.seed.isdigit() and len(args.seed) <= 15):
        raise Wrong(f'--seed: "{args.seed}": expected a whole number of at most 15 digits')
    for text in args.set:
        if "=" not in text[1:]:
            raise Wrong(f'--set: "{text}": expected KEY=VALUE')
    name, colon, node = args.pcap.rpartition(":")
    has_node = colon and "/" not in node
    if has_node and not (name and node):
        raise Wrong(f'--pcap: "{args.pcap}": expected FILE or FILE:NODE')
    args.pcap, args.pcap_node = (name, node) if has_node else (args.pcap, "")
    if not (args.scenario or args.calibrate):
        raise Wrong(
            "expected a scenario: fanin sim SCENARIO.json, or a network: fanin sim "
            "fat-tree:k=4,workers=16"
        )
    if args.several and (args.trace or args.pcap):
        raise Wrong("--trace and --pcap: of one run, not of several")
    return args


# ---- what is to be run ----


def _scenario(path: str) -> tuple[Any, bool]:
    """The scenario in a file, and is it of a trace, without a network?

    Of a network it has one job of all workers."""
    source = path
    if not formats.is_made(path):
        data, source = files.read(path), os.path.basename(path)
        with files.of(path):
            root = _of_trace(data, source)
            if root:
                return root, True
            if not formats.is_network(data):
                root = files.parse(data)
                if not isinstance(root, dict) or "nodes" not in root or "topology" in root:
                    formats.check_keys(root, KEYS)
                    return root, False
    common: dict[str, Any] = {"workers": {}, "switches": {}, "servers": {}, "links": {}}
    return {"topology": {"from": source, **common}, "jobs": [{"model": "resnet50"}]}, False


def _of_trace(data: bytes, name: str) -> Any:
    """The scenario of a trace or a list of jobs, but for its network; None: it is neither."""
    form = formats.trace_form(data)
    if form.startswith("jobs"):
        return {"job_trace": {"file": name}}
    return {"jobs": [{"name": "trace", "model": {"trace": name}}]} if form else None


def _point(args: SimpleNamespace, root: Any, variant: Any, name: str, values: Any) -> Any:
    """The scenario of one combination."""
    root = settings.copy(root)
    given = [text.partition("=")[::2] for text in args.set]
    given += [("seed", args.seed)] if args.seed else []
    with files.of(f"{args.scenario}: --set"):
        settings.put_all(root, given)
    with files.of(f"{args.variants}: {name}"):
        for key, value in variant.items():
            settings.put(root, key, value)
    with files.of(f"{args.scenario}: --set"):
        settings.put_all(root, values.items())
    return root


def _request(args: SimpleNamespace, root: Any) -> dict[str, Any]:
    """What the engine is asked for."""
    scenario = Scenario(args.scenario, root)
    request: dict[str, Any] = {"scenario": scenario.flat()}
    request["progress"] = not args.quiet and not args.several
    wanted = {key: getattr(args, key) for key in ("trace", "pcap")}
    if any(wanted.values()) and scenario.values.get("level") == "flows":
        raise engine.EngineError("--trace, --pcap: the level flows has no packets")
    request.update((key, path) for key, path in wanted.items() if path)
    if args.pcap_node:
        request["pcap_node"] = scenario.find(args.pcap_node)
        if request["pcap_node"] is None:
            raise files.FileError(f'--pcap: no node "{args.pcap_node}"')
    return request


def _points(args: SimpleNamespace) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What each run is by, and its request."""
    root, is_trace = _scenario(args.scenario)
    if args.plan and isinstance(root, dict):
        root["plan"] = files.load(args.plan)
    variants = settings.read_variants(args.variants) if args.variants else {}
    points = list(islice(settings.points(variants, args.sweep), settings.POINTS_MAX + 1))
    if len(points) > settings.POINTS_MAX:
        raise files.FileError(f"--sweep: more than {settings.POINTS_MAX} combinations")
    found = []
    for name, values in points:
        scenario = _point(args, root, variants.get(name, {}), name, values)
        if is_trace and "topology" not in scenario:
            raise files.FileError(
                f"{args.scenario}: a trace has no network: --set topology=star:workers=8,link=100"
            )
        by: dict[str, Any] = {"variant": name} if variants else {}
        by.update((key, files.value_of(text)) for key, text in values.items())
        found.append((by, _request(args, scenario)))
    return found


# ---- runs ----


class _Progress:
    """Lines about how many runs are done."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total, self.done, self.is_shown = total, 0, total > 1 and not quiet
        self.lock, self.told = threading.Lock(), time.monotonic()
        self.terminal = sys.stderr.isatty()

    def step(self) -> None:
        """One more is done."""
        with self.lock:
            self.done += 1
            now = time.monotonic()
            if not self.is_shown or now < self.told + (0.5 if self.terminal else LINE_S):
                return
            self.told = now
            text = f"{self.done} of {self.total} runs"
            print(f"\r\033[K{text}" if self.terminal else text + "\n", end="", file=sys.stderr)

    def end(self) -> None:
        """Clear the line."""
        if self.terminal and self.is_shown:
            print("\r\033[K", end="", file=sys.stderr)


def _joined(args: SimpleNamespace, by: list[dict[str, Any]], results: list[str]) -> str:
    """The result of a sweep.  What the engine printed stays as it is, but for what stands before."""
    keys = (["variant"] if args.variants else []) + [key for key, _ in args.sweep]
    runs = []
    for settings_of, text in zip(by, results):
        rest = text.rstrip("\n").removeprefix("{").replace("\n", "\n  ")
        runs.append('{\n   "set": ' + files.dump(settings_of, 3) + "," + rest)
    return '{\n "sweep": %s,\n "runs": [\n  %s\n ]\n}\n' % (files.dump(keys, 1), ",\n  ".join(runs))


# ---- what is made of the results ----


def _output(args: SimpleNamespace, text: str) -> int:
    """Print and write what is asked for."""
    result = json.loads(text)
    runs = result.get("runs", [result])
    status = FAILED if any(run["failed_jobs"] for run in runs) else 0
    if not args.quiet and args.json != "-":
        print("\n".join(outcome.sweep_rows(result) if args.several else outcome.job_rows(result)))
    for option in ("json", "report"):
        path = getattr(args, option)
        try:
            if path and option == "json":
                files.write(path, text)
            elif path:
                page.write("sim", path, text)
        except files.FileError as error:
            print(f"fanin sim: --{option}: {error}", file=sys.stderr)
            status = FAILED
    return status


def _simulate(args: SimpleNamespace) -> str:
    """The results."""
    for option in ("json", "report"):
        with files.of(f"--{option}"):
            files.can_write(getattr(args, option) or "-")
    points = _points(args)
    requests = [request for _, request in points]
    for line in network.summaries if not args.quiet else ():
        print(files.plain(line), file=sys.stderr)
    progress = _Progress(len(requests), args.quiet)
    results = engine.ask_all(requests, args.jobs, progress.step)
    progress.end()
    return _joined(args, [by for by, _ in points], results) if args.several else results[0]


def main(argv: Sequence[str]) -> int:
    """Run `fanin sim` with these flags; its exit status."""
    try:
        args = _options(argv)
        if not args.calibrate:
            return _output(args, _simulate(args))
        from . import calibrate

        with files.of("--calibrate"):
            print(files.dump(calibrate.scenario(args.calibrate)))
        return 0
    except Wrong as error:
        text, status = f"{error}\nTry `fanin sim --help`.", WRONG
    except files.FileError as error:
        text, status = str(error), WRONG
    except engine.EngineError as error:
        text, status = (
            f"{args.scenario}: {error}" if error.wrong else str(error),
            FAILED + error.wrong,
        )
    print(f"fanin sim: {text}", file=sys.stderr)
    return status
