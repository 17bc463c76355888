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
from typing import Any, NoReturn, Sequence

from . import engine, files, formats, network, outcome, page, settings
from .fields import ScenarioError
from .scenario import KEYS, Scenario

FAILED, WRONG = 1, 2  # exit status
LINE_S = 10.0  # between two lines of progress in a log

_TEXTS = ("scenario", "seed", "variants", "plan", "json", "report", "trace", "pcap", "chrome-trace",
          "beside", "calibrate")  # fmt: skip


def _usage(text: str) -> NoReturn:
    print(f"fanin sim: {text}\nTry `fanin sim --help`.", file=sys.stderr)
    sys.exit(WRONG)


def _wrong(text: str) -> NoReturn:
    print(f"fanin sim: {text}", file=sys.stderr)
    sys.exit(WRONG)


# ---- options ----


class _Options:
    """The flags of the program, which it has read from all their sources."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.texts = dict.fromkeys(_TEXTS, "")
        self.sets: list[str] = []
        self.sweeps: list[tuple[str, list[str]]] = []
        self.jobs, self.quiet, self.pcap_node = 0, False, ""
        for text in argv:
            name, _, value = text[2:].partition("=")
            if not text.startswith("--"):
                _usage(f'unexpected argument "{text}"')
            self._take(name, value)

    def _take(self, name: str, value: str) -> None:
        if name == "set":
            self.sets.append(value)
        elif name == "sweep":
            self.sweeps.append(_sweep(value))
        elif name == "jobs" and value.isdigit():
            self.jobs = int(value)
        elif name == "quiet":
            self.quiet = True
        elif name in _TEXTS:
            self.texts[name] = value
        else:
            _usage(f"unknown option --{name}")

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    @property
    def several(self) -> bool:
        """Is it a sweep?"""
        return bool(self.sweeps or self["variants"])


def _sweep(text: str) -> tuple[str, list[str]]:
    key, _, values = text.partition("=")
    if not key or not values:
        _usage(f'--sweep: "{text}": expected KEY=A,B,C')
    found = [value for value in values.split(",") if value]
    if not found:
        _usage(f'--sweep: "{text}": no values')
    if len(found) > settings.VALUES_MAX:
        _usage(f"--sweep: more than {settings.VALUES_MAX} values")
    return key, found


def _options(argv: Sequence[str]) -> _Options:
    """The options, checked."""
    args = _Options(argv)
    seed, pcap = args["seed"], args["pcap"]
    if seed and not (seed.isascii() and seed.isdigit() and len(seed) <= 15):
        _usage(f'--seed: "{seed}": expected a whole number of at most 15 digits')
    for text in args.sets:
        if "=" not in text[1:]:
            _usage(f'--set: "{text}": expected KEY=VALUE')
    name, colon, node = pcap.rpartition(":")
    if colon and "/" not in node:
        args.texts["pcap"], args.pcap_node = name, node
        if not name or not node:
            _usage(f'--pcap: "{pcap}": expected FILE or FILE:NODE')
    if not (args["scenario"] or args["calibrate"]):
        _usage(
            "expected a scenario: fanin sim SCENARIO.json, or a network: fanin sim "
            "fat-tree:k=4,workers=16"
        )
    if args.several and (args["trace"] or args["pcap"] or args["chrome-trace"]):
        _usage("--trace, --pcap and --chrome-trace: of one run, not of several")
    if args["beside"] and not args["chrome-trace"]:
        _usage("--beside: only with --chrome-trace")
    return args


# ---- what is to be run ----


def _scenario(path: str) -> tuple[Any, bool]:
    """The scenario in a file, and is it of a trace, without a network?

    Of a network it has one job of all workers."""
    source = path
    if not formats.is_made(path):
        data, source = files.read(path), os.path.basename(path)
        root = _of_trace(data, path)
        if root:
            return root, True
        if not formats.is_network(data):
            root = files.parse(data, path)
            if not isinstance(root, dict) or "nodes" not in root or "topology" in root:
                _check_keys(root, path)
                return root, False
    common: dict[str, Any] = {"workers": {}, "switches": {}, "servers": {}, "links": {}}
    return {"topology": {"from": source, **common}, "jobs": [{"model": "resnet50"}]}, False


def _check_keys(root: Any, path: str) -> None:
    try:
        formats.check_keys(root, KEYS)
    except formats.FormatError as error:
        raise files.FileError(f"{path}: {error}") from None


def _of_trace(data: bytes, path: str) -> Any:
    """The scenario of a trace or a list of jobs, but for its network; None: it is neither."""
    try:
        form, name = formats.trace_form(data), os.path.basename(path)
    except formats.FormatError as error:
        raise files.FileError(f"{path}: {error}") from None
    if not form:
        return None
    if form.startswith("jobs"):
        return {"job_trace": {"file": name}}
    return {"jobs": [{"name": "trace", "model": {"trace": name}}]}


def _put(root: Any, key: str, text: str, path: str) -> None:
    try:
        settings.put(root, key, files.value_of(text))
    except settings.SettingError as error:
        raise files.FileError(f"{path}: --set {error}") from None


def _point(args: _Options, root: Any, variant: Any, name: str, values: Any) -> Any:
    """The scenario of one combination."""
    root = settings.copy(root)
    for text in args.sets:
        key, _, value = text.partition("=")
        _put(root, key, value, args["scenario"])
    if args["seed"]:
        _put(root, "seed", args["seed"], args["scenario"])
    for key, value in variant.items():
        try:
            settings.put(root, key, value)
        except settings.SettingError as error:
            raise files.FileError(f"{args['variants']}: {name}: {error}") from None
    for key, text in values.items():
        _put(root, key, text, args["scenario"])
    return root


def _request(args: _Options, root: Any) -> dict[str, Any]:
    """What the engine is asked for."""
    scenario = Scenario(args["scenario"], root)
    request: dict[str, Any] = {"scenario": scenario.flat()}
    request["progress"] = not args.quiet and not args.several
    for key in ("trace", "pcap", "chrome-trace"):
        if args[key] and scenario.values.get("level") == "flows":
            raise engine.EngineError(
                "--trace, --pcap, --chrome-trace: the level flows has no packets"
            )
        if args[key]:
            request[key.replace("-", "_")] = args[key]
    if args.pcap_node:
        request["pcap_node"] = scenario.find(args.pcap_node)
        if request["pcap_node"] is None:
            raise files.FileError(f'--pcap: no node "{args.pcap_node}"')
    return request


def _points(args: _Options) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What each run is by, and its request."""
    root, is_trace = _scenario(args["scenario"])
    if args["plan"]:
        plan = files.load(args["plan"])
        if isinstance(root, dict):
            root["plan"] = plan
    variants = settings.read_variants(args["variants"]) if args["variants"] else {}
    points = list(islice(settings.points(variants, args.sweeps), settings.POINTS_MAX + 1))
    if len(points) > settings.POINTS_MAX:
        raise files.FileError(f"--sweep: more than {settings.POINTS_MAX} combinations")
    found = []
    for name, values in points:
        scenario = _point(args, root, variants.get(name, {}), name, values)
        if is_trace and "topology" not in scenario:
            raise files.FileError(
                f"{args['scenario']}: a trace has no network: --set topology=star:workers=8,link=100"
            )
        by: dict[str, Any] = {"variant": name} if variants else {}
        by.update((key, files.value_of(text)) for key, text in values.items())
        found.append((by, _request(args, scenario)))
    return found


# ---- runs ----


class _Progress:
    """Lines about how many runs are done."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total, self.done, self.quiet = total, 0, quiet
        self.lock, self.told = threading.Lock(), time.monotonic()
        self.terminal = sys.stderr.isatty()

    def step(self) -> None:
        """One more is done."""
        with self.lock:
            self.done += 1
            now = time.monotonic()
            if (
                self.quiet
                or self.total == 1
                or now < self.told + (0.5 if self.terminal else LINE_S)
            ):
                return
            self.told = now
            text = f"{self.done} of {self.total} runs"
            print(f"\r\033[K{text}" if self.terminal else text + "\n", end="", file=sys.stderr)

    def end(self) -> None:
        """Clear the line."""
        if self.terminal and not self.quiet:
            print("\r\033[K", end="", file=sys.stderr)


def _beside(args: _Options, request: dict[str, Any]) -> str:
    """Run it, and lay its trace over that of real ranks."""
    import tempfile

    from . import beside

    lines, first_ns = beside.real_lines(args["beside"])
    with tempfile.TemporaryDirectory() as folder:
        request["chrome_trace"] = os.path.join(folder, "trace")
        request["start_ns"] = beside.start_ns(first_ns, request["scenario"])
        answer = engine.ask(request)
        simulated = files.read(request["chrome_trace"]).decode()
    try:
        files.write(args["chrome-trace"], beside.joined(lines, simulated))
    except files.FileError as error:
        raise engine.EngineError(str(error)) from None
    return answer


def _joined(args: _Options, by: list[dict[str, Any]], results: list[str]) -> str:
    """The result of a sweep.  What the engine printed stays as it is, but for what stands before."""
    keys = (["variant"] if args["variants"] else []) + [key for key, _ in args.sweeps]
    runs = []
    for settings_of, text in zip(by, results):
        rest = text.rstrip("\n").removeprefix("{").replace("\n", "\n  ")
        runs.append('{\n   "set": ' + files.dump(settings_of, 3) + "," + rest)
    return '{\n "sweep": %s,\n "runs": [\n  %s\n ]\n}\n' % (files.dump(keys, 1), ",\n  ".join(runs))


# ---- what is made of the results ----


def _output(args: _Options, text: str) -> int:
    """Print and write what is asked for."""
    result = json.loads(text)
    runs = result.get("runs", [result])
    status = FAILED if any(run["failed_jobs"] for run in runs) else 0
    if not args.quiet and args["json"] != "-":
        print("\n".join(outcome.sweep_rows(result) if args.several else outcome.job_rows(result)))
    for option, path in (("json", args["json"]), ("report", args["report"])):
        try:
            if path and option == "json":
                files.write(path, text)
            elif path:
                page.write("sim", path, text)
        except files.FileError as error:
            print(f"fanin sim: --{option}: {error}", file=sys.stderr)
            status = FAILED
    return status


def _calibrate(args: _Options) -> int:
    """Do --calibrate, which needs no run."""
    from . import calibrate

    try:
        print(files.dump(calibrate.scenario(args["calibrate"])))
    except files.FileError as error:
        _wrong(f"--calibrate: {error}")
    return 0


def _simulate(args: _Options) -> int:
    for option, path in (("json", args["json"]), ("report", args["report"])):
        try:
            files.can_write(path or "-")
        except files.FileError as error:
            _wrong(f"--{option}: {error}")
    try:
        points = _points(args)
        requests = [request for _, request in points]
        for line in network.summaries if not args.quiet else ():
            print(files.plain(line), file=sys.stderr)
        progress = _Progress(len(requests), args.quiet)
        if args["beside"]:
            results = [_beside(args, requests[0])]
        else:
            results = engine.ask_all(requests, args.jobs, progress.step)
        progress.end()
    except (files.FileError, ScenarioError) as error:
        _wrong(str(error))
    except engine.EngineError as error:
        where = f"{args['scenario']}: " if error.wrong else ""
        print(f"fanin sim: {where}{error}", file=sys.stderr)
        return WRONG if error.wrong else FAILED
    if not args.several:
        return _output(args, results[0])
    return _output(args, _joined(args, [by for by, _ in points], results))


def main(argv: Sequence[str]) -> int:
    """Run `fanin sim` with these flags; its exit status."""
    args = _options(argv)
    return _calibrate(args) if args["calibrate"] else _simulate(args)
