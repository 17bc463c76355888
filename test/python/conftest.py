# SPDX-License-Identifier: Apache-2.0
"""What the tests share: a switch, ranks as threads of this process, ranks as processes.

Threads are enough for the communicator, since the library leaves the interpreter's lock while it
waits; what PyTorch does once a process - process groups - needs processes.  Every wait is bounded.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import warm

import fanin
from fanin import _libuv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from ports import free_port  # noqa: E402  pylint: disable=wrong-import-position

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))
WAIT_S = 600  # a hang: many times what a group of ranks takes on a machine with other work
TELL_S = 2.0  # for ranks that hang, to write where they stand

os.environ.setdefault("FANIN_LIBRARY", str(BUILD / "src" / "libfanin.so.0"))
for name in list(os.environ):
    if name.startswith("FANIN_") and name != "FANIN_LIBRARY":
        del os.environ[name]
for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(name, None)


def why_no_planner() -> str:
    """Empty: `fanin plan` runs here."""
    program = BUILD / "fanin-planner"
    if not program.exists():
        return "no fanin-planner in this build"
    done = subprocess.run([str(program)], capture_output=True, check=False, timeout=WAIT_S)
    of_loader = 127
    return "fanin-planner's solvers are not installed" if done.returncode == of_loader else ""


NO_PLANNER = why_no_planner()


class Switch:
    """A `fanin switch` on loopback that can be killed."""

    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [str(BUILD / "fanin"), "switch", "--listen", "127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r"127\.0\.0\.1:\d+", line)
            if found:
                self.address = found.group()
                break
        else:
            raise AssertionError("the switch did not start")
        # Nobody reads what it says from here on; a full pipe must not stop it.
        self._drain = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._drain.start()

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=WAIT_S)


@pytest.fixture(scope="session")
def switch():
    """One that all tests use, each with jobs of its own."""
    one = Switch()
    yield one.address
    one.stop()


@pytest.fixture
def own_switch():
    """One that the test may kill."""
    one = Switch()
    yield one
    one.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def shared_switch():
    """One whose slots jobs share, fewer than ranks run ahead of each other."""
    one = Switch("--policy", "atp", "--slots", "32", "--ahead", "512")
    yield one.address
    one.stop()


@pytest.fixture
def job(request):
    """A job name that no other test uses."""
    return request.node.name[-60:]


def ranks(size, work, **options):
    """Run `work(communicator)` as each of `size` ranks; what each returned or raised, by rank.

    No rank works before all have joined: one that left early would be named to those that still join.
    """
    outcome = [None] * size
    joined = threading.Barrier(size)

    def one(rank):
        try:
            with fanin.Communicator(rank=rank, ranks=size, **options) as comm:
                with contextlib.suppress(threading.BrokenBarrierError):  # a rank was refused
                    joined.wait(WAIT_S)
                outcome[rank] = work(comm)
        except Exception as error:  # the test looks at it
            joined.abort()
            outcome[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + WAIT_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        assert not thread.is_alive(), "a rank hangs"
    return outcome


def torchrun(*flags, size=2):
    """torchrun for `size` ranks on this machine, as a command and what its environment needs."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={size}"]
    if _libuv.is_missing():  # as doc/pytorch.md has it
        command += ["--rdzv-backend=c10d", "--rdzv-conf=store_type=file", "--local-addr=127.0.0.1"]
        return command + [*flags], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    # -r, -t: without a value of theirs, Debian 12's torchrun ends with an AttributeError.
    return command + ["-r", "9:1", "-t", "9:1", "--standalone", *flags], {}


class Processes:
    """Ranks as processes that run a function of a script in test/python and print JSON, or
    `command`."""

    def __init__(
        self,
        size,
        name,
        arguments,
        environment=None,
        script="torch_ranks.py",
        command=None,
        kind=warm.Process,
    ):
        port = free_port()
        self.ranks = []
        for rank in range(size):
            env = dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE=str(size),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                OMP_NUM_THREADS="1",
                PYTHONPATH=str(ROOT / "python"),
                **(environment or {}),
            )
            call = [str(Path(__file__).parent / script), name, json.dumps(arguments)]
            outputs = [tempfile.TemporaryFile("w+") for _ in range(2)]
            self.ranks.append((kind(command or call, env, *outputs), *outputs))

    def wait(self, limit_s=WAIT_S):
        """(exit status, the last line of stdout as JSON or None, stderr) of each rank."""
        return [
            (status, json.loads(said.strip().splitlines()[-1]) if said.strip() else None, err)
            for status, said, err in self.outputs(limit_s)
        ]

    def answers(self, dead=()):
        """What each rank printed; all must have ended well but those that end themselves."""
        outcome = self.wait()
        for rank, (status, _, err) in enumerate(outcome):
            assert status == 0 or rank in dead, err
        return [answer for _, answer, _ in outcome]

    def _standing(self):
        """What ranks have said, and where those that do not end stand."""
        for process, _, _ in self.ranks:
            process.tell()
        time.sleep(TELL_S)
        told = []
        for rank, (process, _, err) in enumerate(self.ranks):
            err.seek(0)
            how = "stands" if process.poll() is None else f"has ended with {process.poll()}"
            told.append(f"rank {rank} {how}:\n{err.read()}")
        return "\n".join(told)

    def outputs(self, limit_s=WAIT_S):
        """(exit status, stdout, stderr) of each rank."""
        outcome = []
        try:
            for process, out, err in self.ranks:
                try:
                    process.wait(timeout=limit_s)
                except subprocess.TimeoutExpired as error:
                    raise AssertionError(f"{error}\n{self._standing()}") from error
                out.seek(0)
                err.seek(0)
                outcome.append((process.returncode, out.read(), err.read()))
        finally:
            for process, out, err in self.ranks:
                process.kill()
                process.wait(timeout=WAIT_S)
                out.close()
                err.close()
        return outcome
