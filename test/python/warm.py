# SPDX-License-Identifier: Apache-2.0
"""Python programs as processes that begin with PyTorch imported.

Importing it takes a second of processor time, and the tests start more than a hundred processes.
A server, which is this file run as a program, imports it once and forks for each of them.  Nothing
of fanin is imported before the fork.
"""

import atexit
import contextlib
import faulthandler
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import time

REQUEST_BYTES = 1 << 16
TELL = signal.SIGUSR2
PRELOAD = ["numpy", "torch", "torch.distributed", "torch.nn.parallel"]


class Process:
    """What the tests use of subprocess.Popen, for `python SCRIPT ARGUMENT...`."""

    preload = PRELOAD
    _servers = {}  # the sockets to them, by what they import
    _ended = {}  # exit status by process id, of those that have ended

    def __init__(self, command, env, stdout, stderr):
        self.returncode = None
        key = " ".join(self.preload)
        if key not in Process._servers:
            Process._servers[key] = start(self.preload)
        self._server = Process._servers[key]
        request = json.dumps({"command": command, "env": env}).encode()
        assert len(request) <= REQUEST_BYTES
        socket.send_fds(self._server, [request], [stdout.fileno(), stderr.fileno()])
        self.pid = None
        while self.pid is None:
            self.pid = self._hear(None)

    def _hear(self, timeout):
        """Take in one message of the server; the process id if it is about one that began."""
        if not select.select([self._server], [], [], timeout)[0]:
            return None
        message = self._server.recv(REQUEST_BYTES)
        assert message, "the server of processes has ended"
        pid, status = json.loads(message)
        if status is None:
            return pid
        Process._ended[pid] = status
        return None

    def poll(self):
        """The exit status, as subprocess has it; None while the process runs."""
        while self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self._hear(0)
            self.returncode = Process._ended.pop(self.pid, None)
        if self.returncode is None:
            self.returncode = Process._ended.pop(self.pid, None)
        return self.returncode

    def wait(self, timeout=None):
        """The exit status; subprocess.TimeoutExpired when there is none in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            select.select([self._server], [], [], left)
        return self.returncode

    def tell(self):
        """Have it write where its threads stand to its stderr, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, TELL)

    def kill(self):
        """SIGKILL, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start(preload):
    """Begin a server that imports what is named; our end of the socket to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno()), *preload],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    theirs.close()

    def end():
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def become(request, outputs, server):
    """In the child: the program that was asked for, as if Python had just been started for it."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd, output in zip((1, 2), outputs):
        os.dup2(output, fd)
        os.close(output)
    server.close()
    faulthandler.enable(file=2)  # of a crash, too
    faulthandler.register(TELL, file=2, all_threads=True)
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    sys.modules["numpy"].random.seed()
    script = request["command"][0]
    paths = [path for path in request["env"].get("PYTHONPATH", "").split(":") if path]
    sys.path[0:1] = [os.path.dirname(script), *paths]
    sys.argv = request["command"]
    runpy.run_path(script, run_name="__main__")


def tell_ended(server):
    """The exit status of every child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        server.send(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode())


def serve(server):
    """Fork for each request until the socket is closed; (request, outputs) in the child."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready = select.select([server, woken], [], [])[0]
        if woken in ready:
            os.read(woken, REQUEST_BYTES)
            tell_ended(server)
        if server in ready:
            request, outputs, _, _ = socket.recv_fds(server, REQUEST_BYTES, 2)
            if not request:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                os.close(woken)
                return json.loads(request), outputs
            server.send(json.dumps([pid, None]).encode())
            for output in outputs:
                os.close(output)


def main():
    """Import what is slow, and serve."""
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):  # older versions of PyTorch have not all
            __import__(name)
    request, outputs = serve(server)
    become(request, outputs, server)


if __name__ == "__main__":
    main()
