# SPDX-License-Identifier: Apache-2.0
"""Ports for the daemons and stores of tests, which their programs are told by number.

    ports.py COUNT PID          prints as many, which are promised for as long as process PID lives

A port that the kernel gives to who asks for none is free only until the next socket asks: a test
beside may have it before the program does.  So these are below those, and promised once for as long
as the process that asked lives.
"""
import contextlib
import os
import random
import select
import socket
import sys

PORTS = range(10000, 30000)  # the kernel gives 32768 to 60999
TRIES = 200
_promised = []  # sockets whose names, in the network namespace, say which are


def _is_free(port):
    with contextlib.ExitStack() as sockets:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            one = sockets.enter_context(socket.socket(type=kind))
            if kind == socket.SOCK_STREAM:  # a connection that has ended does not count
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("", port))
            except OSError:
                return False
    return True


def free_port():
    """A port that neither TCP nor UDP has at any IPv4 address, and that nobody else is told."""
    for port in random.SystemRandom().sample(PORTS, TRIES):
        promise = socket.socket(socket.AF_UNIX)
        try:
            promise.bind(f"\0fanin-test-port-{port}")
        except OSError:  # somebody else has been told it
            promise.close()
            continue
        if _is_free(port):
            _promised.append(promise)
            return port
        promise.close()
    raise AssertionError("no port is free")


def main():
    """For scripts: a process stays that keeps the promises, and holds none of their files."""
    lives = os.pidfd_open(int(sys.argv[2]))
    print(*(free_port() for _ in range(int(sys.argv[1]))), flush=True)
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    select.select([lives], [], [])


if __name__ == "__main__":
    main()
