# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check: runs parts one after the other, each in processes of its own and for a bounded
time, and keeps in a file what each gave as soon as it ends."""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "test" / "python")]

import pack
import warm

LIMIT_S = 230  # of all parts together; the programs' start comes before it
ENDS_S = 3  # for a process that was told to end
FOLLOWS_S = 10  # for other ranks, after one that failed
KEPT_CHARS = 4000  # of what a failed process said
REASONS_MAX = 8
NO_GPU = 77
SANITIZERS = ["compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"]
WATCH = ["--tool", "memcheck", "--error-exitcode", "99"]
ORDERED = {  # memory that memcheck can watch: as PyTorch 2.9 has the name, and as those before it
    "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
    "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync",
}


@dataclasses.dataclass
class Part:
    """Processes that run a function of a script.  `ranks` 0: one process, without a group."""

    name: str
    limit_s: float
    ranks: int = 0
    function: str = ""
    arguments: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    sanitized: bool = False
    script: str = ""  # of its ranks; "": ranks.py


PARTS = [
    Part("card", 60),
    Part("library", 20),
    Part("staging-2", 40, 2, "staging"),
    Part("staging-4", 45, 4, "staging"),
    Part("staging-packets", 40, 2, "staging", environment={"FANIN_LOCAL": "0"}),
    Part("ddp", 30, 2),
    Part("fsdp2", 40, 2),
    Part("mixed", 30, 2),
    Part("nccl", 30, 1),
    Part("orders", 30),
    Part("memory", 30),
    Part("bandwidth", 30),
    Part("sanitizer", 75, 0, "watched", environment=ORDERED, sanitized=True),
]

NCCL = {
    "FANIN_HOSTS": "1",
    "NCCL_COLLNET_ENABLE": "1",
    "NCCL_ALGO": "allreduce:collnetchain",
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET",
}
SOCKETS = {**NCCL, "NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket", "NCCL_COLLNET_ENABLE": "0"}
SOCKETS.pop("NCCL_ALGO")


def nccl(name, limit_s, count, function, settings=NCCL, sanitized=False):
    """A part whose ranks are hosts of their own to NCCL."""
    return Part(name, limit_s, count, function, {}, settings, sanitized, "nccl_ranks.py")


NCCL_PARTS = [
    nccl("nccl-2", 45, 2, "sums"),
    nccl("nccl-4", 50, 4, "sums"),
    nccl("nccl-sockets-2", 30, 2, "sums", SOCKETS),
    nccl("nccl-sockets-4", 30, 4, "sums", SOCKETS),
    nccl("nccl-ddp", 30, 2, "ddp"),
    nccl("nccl-fsdp2", 40, 2, "fsdp2"),
    nccl("nccl-sanitizer", 75, 2, "few", NCCL, True),
]


class TimeIsUp(Exception):
    """All parts together have taken LIMIT_S."""


class Alarm:
    """TimeIsUp in this thread, wherever it is then, but for blocks that must be done whole."""

    def __init__(self):
        self._held = self._came = False

    def at(self, limit_s):
        """In so many seconds."""
        self._came = False
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    def _ring(self, *_):
        if not self._held:
            raise TimeIsUp
        self._came = True

    @contextlib.contextmanager
    def held(self):
        """In the block it does not come, but after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._came:
            raise TimeIsUp


alarm = Alarm()


# ---- processes -----------------------------------------------------------------------


class Command(subprocess.Popen):
    """A program that is not forked from one that has PyTorch."""

    def __init__(self, command, env, stdout, stderr):
        super().__init__(command, env=env, stdout=stdout, stderr=stderr, start_new_session=True)

    def send_signal(self, how):
        """To it, and to what it has started, which may outlive it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, how)


def free_port():
    """A TCP port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(part, rank, port):
    """Of one process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FANIN_")}
    if "FANIN_LIBRARY" in os.environ:
        env["FANIN_LIBRARY"] = os.environ["FANIN_LIBRARY"]
    env.update(part.environment, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT / "python"))
    if part.ranks:
        env.update(RANK=str(rank), WORLD_SIZE=str(part.ranks), LOCAL_RANK="0")
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if part.script:
        env.setdefault("NCCL_NET_PLUGIN", os.environ.get("GPU_CHECK_PLUGIN", "fanin"))
        env["NCCL_HOSTID"] = f"{part.name}-{rank}"
    return env


class Running:
    """The processes of a part, whose output is kept in files."""

    def __init__(self):
        self.processes, self.outputs = [], []
        self._gone = None  # a folder with a file for each rank that needs no switch
        self._logs = None  # another one, of NCCL's logs

    def start(self, part, arguments, prefix=()):
        """All of them."""
        port = free_port()
        self._gone = tempfile.TemporaryDirectory()
        self._logs = tempfile.TemporaryDirectory()
        script = HERE / (part.script or ("ranks.py" if part.ranks else "alone.py"))
        call = [str(script), part.function or part.name, json.dumps(arguments)]
        for rank in range(part.ranks or 1):
            files = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]
            self.outputs.append(files)
            env = dict(environment(part, rank, port), GONE=self._gone.name)
            env["NCCL_DEBUG_FILE"] = f"{self._logs.name}/{rank}"
            if prefix:
                with alarm.held():
                    made = Command([*prefix, sys.executable, *call], env, *files)
                    self.processes.append(made)
            else:
                self.processes.append(warm.Process(call, env, *files))

    def wait(self, until):
        """Until all have ended or it is `until`: (status or None, stdout, stderr) of each."""
        while time.monotonic() < until:
            statuses = [one.poll() for one in self.processes]
            if None not in statuses:
                break
            if any(statuses):
                until = min(until, time.monotonic() + FOLLOWS_S)
            time.sleep(0.05)
        found = [one.poll() for one in self.processes]
        self.end()
        said = []
        for files in self.outputs:
            for one in files:
                one.seek(0)
            said.append([one.read() for one in files])
        return [(status, *texts) for status, texts in zip(found, said)]

    def end(self):
        """End those that still run.  They first say where they are (faulthandler)."""
        left = [one for one in self.processes if one.poll() is None]
        for one in left:
            if isinstance(one, Command):
                one.send_signal(signal.SIGABRT)
            else:
                os.kill(one.pid, signal.SIGABRT)
        until = time.monotonic() + ENDS_S
        while time.monotonic() < until and any(one.poll() is None for one in left):
            time.sleep(0.05)
        for one in left:
            one.kill()
        if self._gone is not None:
            self._gone.cleanup()
            self._logs.cleanup()


# ---- what a part gave ----------------------------------------------------------------


def answer_of(text):
    """The last line of what a process printed, as JSON; {}: it is none."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def judged(part, outcome, limit_s):
    """A part's result, from (status, stdout, stderr) of its processes."""
    answers = [answer_of(said) for _, said, _ in outcome]
    result = {"result": "passed"}
    for kept in ("facts", "figures"):
        if answers[0].get(kept):
            result[kept] = answers[0][kept]
    bad = []
    for number, ((status, _, _), answer) in enumerate(zip(outcome, answers)):
        who = f"rank {number}: " if part.ranks else ""
        if status is None:
            bad.append(f"{who}not done after {limit_s:.0f} s")
        elif status:
            bad.append(f"{who}ended with {status}")
        elif not answer:
            bad.append(f"{who}gave no result")
        else:
            bad += [who + text for text in answer.get("wrong", [])]
    if bad:
        said = [err.strip() for _, _, err in outcome]
        share = KEPT_CHARS // len(said)
        if len(bad) > REASONS_MAX:
            bad[REASONS_MAX:] = [f"and {len(bad) - REASONS_MAX} more"]
        result.update(result="failed", why=bad, said=[one[-share:] for one in said])
    else:
        for key, name in (("skipped", "skipped"), ("no_gpu", "no GPU")):
            if answers[0].get(key):
                result.update(result=name, why=[answers[0][key]])
    return result


def judged_by_sanitizer(part, outcome, limit_s):
    """As `judged`, of a process under compute-sanitizer, which prints what it found."""
    status, out, err = outcome[0]
    report = (out + err).strip()
    result = {"result": "failed", "said": [report[-KEPT_CHARS:]]}
    found = re.search(r"ERROR SUMMARY: (\d+) error", report)
    if status is None:
        why = f"not done after {limit_s:.0f} s"
    elif found is None or "Device not supported" in report:
        result["result"], why = "skipped", "compute-sanitizer did not run here"
    elif int(found.group(1)):
        why = f"{found.group(1)} errors"
    else:
        answer = next((one for one in map(answer_of, out.splitlines()) if one), {})
        return judged(part, [(status, json.dumps(answer), err)], limit_s)
    return {**result, "why": [why]}


# ---- the whole -----------------------------------------------------------------------


class Report:
    """What is known by now, in a file that is whole at any time."""

    def __init__(self, path, is_fake, packed):
        self.path = path
        self.begun = time.monotonic()
        self.found = {
            "check": "tools/gpu-check",
            "fake": is_fake,
            "begun": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "revision": pack.revision() or packed.get("revision"),
            "packed": packed or None,  # its facts
            "card": None,
            "versions": {},
            "ended": False,
            "parts": [],
        }

    def write(self):
        """All of it; a reader never sees half."""
        self.found["seconds"] = round(time.monotonic() - self.begun, 1)
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps(self.found, indent=2) + "\n")
        beside.replace(self.path)

    def add(self, part, result, seconds):
        """What a part gave."""
        entry = {"name": part.name, "seconds": round(seconds, 1), **result}
        self.found["parts"].append(entry)
        self.write()
        text = "; ".join(result.get("why", []))
        if version := result.get("facts", {}).get("nccl"):
            text = f"NCCL {version} {text}"
        if "figures" in result and not self.found["fake"]:
            text += " ".join(f"{name} {value}" for name, value in result["figures"].items())
        print(f"{result['result']:8} {part.name:16} {seconds:6.1f} s  {text}", flush=True)

    def count(self, result):
        """Parts that ended so."""
        return sum(one["result"] == result for one in self.found["parts"])


class Check:
    """All parts, within the time that all have."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.until = report.begun + options.limit
        self.scale = max(1.0, options.limit / LIMIT_S)  # of each part's time
        self.is_fake = options.fake is not None
        self.running = Running()

    def run(self, parts):
        """The exit status."""
        for at, part in enumerate(parts):
            begun = time.monotonic()
            left = self.until - begun - 2 * ENDS_S
            try:
                result = (
                    self._result(part, min(self.scale * part.limit_s, left)) if left > 1 else None
                )
            except TimeIsUp:
                self.running.end()
                result = {"result": "failed", "why": ["all the time is over"]}
            result = result or {"result": "failed", "why": ["not run: all the time is over"]}
            self.report.add(part, result, time.monotonic() - begun)
            if part.name == "card" and result["result"] in ("failed", "no GPU"):
                break
        self.report.found["ended"] = True
        self.report.write()
        if self.report.count("no GPU"):
            return NO_GPU
        return 1 if self.report.count("failed") else 0

    def _result(self, part, limit_s):
        if part.name == "card":
            return self._card(part, limit_s)
        if part.name == "library" and self.options.packed:
            if problem := pack.problem(self.options.packed):
                return {"result": "failed", "why": [problem]}
        return self._judged(part, limit_s)

    def _card(self, part, limit_s):
        if self.is_fake:
            return {"result": "skipped", "why": ["a fake: no figure is one of a GPU"]}
        result = self._judged(part, limit_s)
        facts = result.pop("facts", {})
        self.report.found["card"] = facts.pop("card", None)
        self.report.found["versions"] = facts
        return result

    def _judged(self, part, limit_s):
        arguments = dict(part.arguments)
        if part.name not in ("card", "library"):
            arguments["fake"] = self.is_fake
        if self.options.fake and (part.ranks or part.name == "orders"):
            arguments["blind"] = self.options.fake
        prefix = []
        if part.sanitized:
            found = self._sanitizer()
            if not found:
                why = "a fake makes no calls that could be watched"
                return {
                    "result": "skipped",
                    "why": [why if self.is_fake else "no compute-sanitizer"],
                }
            prefix = [found, *WATCH]
        self.running = Running()
        self.running.start(part, arguments, prefix)
        outcome = self.running.wait(time.monotonic() + limit_s)
        return (judged_by_sanitizer if part.sanitized else judged)(part, outcome, limit_s)

    def _sanitizer(self):
        if self.options.sanitizer or self.is_fake:
            return self.options.sanitizer
        return next((one for one in SANITIZERS if shutil.which(one)), None)


def options_of(arguments):
    """What the command line asks for."""
    names = [part.name for part in PARTS + NCCL_PARTS]
    parser = argparse.ArgumentParser(
        prog="gpu-check",
        description="Check on a machine with one GPU that its tensors are summed right, in less than "
        "four minutes.  Ends with 0: all passed or skipped; 1: something failed; 77: there is no GPU.",
        epilog="Parts: " + " ".join(names),
    )
    add = parser.add_argument
    add("--pack", metavar="DIR", type=Path, help="make a folder with libfanin and what it needs")
    add(
        "--nccl-library",
        metavar="FILE",
        type=Path,
        help="with --pack: NCCL's library, or PyPI's wheel with it; made smaller and used by --nccl",
    )
    add("--packed", metavar="DIR", type=Path, help="use such a folder")
    add("--out", metavar="FILE", type=Path, default=Path("gpu-check.json"), help="results as JSON")
    add(
        "--only",
        metavar="PART",
        nargs="+",
        choices=names,
        help="these parts, after card and library",
    )
    add(
        "--fake",
        metavar="ORDER",
        nargs="?",
        const="",
        help="without a GPU, on streams that are none; with ORDER, such as 'back main', on streams "
        "that do not keep it, which must fail",
    )
    add(
        "--nccl", action="store_true", help="NCCL by its plug-in: the parts nccl-..., and no others"
    )
    add("--sanitizer", metavar="FILE", help="compute-sanitizer; looked for when not given")
    add(
        "--limit",
        metavar="SECONDS",
        type=float,
        default=LIMIT_S,
        help="of all parts (%(default)s); with more, each part has more",
    )
    options = parser.parse_args(arguments)
    if options.nccl_library and not options.pack:
        parser.error("--nccl-library goes with --pack")
    return options


@contextlib.contextmanager
def nccl_of(packed):
    """In the block processes load NCCL as it was packed, if it was."""
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        if library := pack.unpack_nccl(packed, Path(folder)):
            before = os.environ.get("LD_PRELOAD")
            os.environ["LD_PRELOAD"] = " ".join(filter(None, [str(library), before]))
        yield


def use(packed):
    """Have the processes load the library that was packed, or that of BUILD."""
    library = os.environ.get("FANIN_LIBRARY")
    if packed:
        library = str(packed.resolve() / pack.SONAME)
        paths = [str(packed.resolve()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        os.environ["LD_LIBRARY_PATH"] = ":".join(paths)
    elif not library and "BUILD" in os.environ:
        library = os.path.join(os.path.abspath(os.environ["BUILD"]), "src", pack.SONAME)
    if library:
        os.environ["FANIN_LIBRARY"] = library
        beside = Path(library).parent
        for plugin in (beside / pack.PLUGIN, beside / "nccl" / pack.PLUGIN):
            if plugin.exists():
                os.environ["GPU_CHECK_PLUGIN"] = str(plugin)


def main():
    options = options_of(sys.argv[1:])
    if options.pack:
        build = Path(os.environ.get("BUILD", ROOT / "build"))
        try:
            print(pack.pack(options.pack, build, options.nccl_library))
        except pack.PackError as error:
            sys.exit(f"gpu-check: {error}")
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of processes that are ended
    use(options.packed)
    alarm.at(options.limit)
    report = Report(options.out, options.fake is not None, pack.facts_of(options.packed))
    usual = NCCL_PARTS if options.nccl else PARTS
    wanted = {"card", "library", *(options.only or [part.name for part in usual])}
    parts = [part for part in PARTS + NCCL_PARTS if part.name in wanted]
    with nccl_of(options.packed) if options.packed and options.nccl else contextlib.nullcontext():
        status = Check(options, report).run(parts)
    counts = ", ".join(f"{report.count(one)} {one}" for one in ("passed", "failed", "skipped"))
    where = report.found["card"] or ("no GPU: a fake" if report.found["fake"] else "no GPU")
    print(f"{where}: {counts}; {options.out}", flush=True)
    os._exit(status)  # not to wait for what warm.py has started


if __name__ == "__main__":
    main()
