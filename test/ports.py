# SPDX-License-Identifier: Apache-2.0
"""Ports for the daemons and stores of tests, which their programs are told by number.

A port that the kernel gives to who asks for none is free only until the next socket asks: a test
beside may have it before the program does.  So these are below those, and promised once for as long
as the process that asked lives.
"""
import contextlib
import random
import socket

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
