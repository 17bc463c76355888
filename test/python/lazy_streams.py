# SPDX-License-Identifier: Apache-2.0
"""Streams without a GPU, for what stages tensors: nothing happens on them until it must.

What comes to a stream is done when somebody waits for an event after it, and otherwise, with
probability `eager` at each call, by chance.  So an order that nobody asked for does not come about by
itself, and what is read too early is old.  `blind` are orders that are asked for and not kept: "main out"
is a wait of stream out for an event of stream main; "host out", one of the host.
"""

import contextlib
import random
import threading

import torch

NAMES = ["out", "back", "ends"]  # in the order in which a stager makes them


class Stream:
    """What is to be done, in order."""

    def __init__(self, name):
        self.name = name
        self.items = []
        self.done = 0


class Event:
    """All that a stream has had by then."""

    def __init__(self, streams, stream):
        self._streams = streams
        self.stream = stream
        self.position = len(stream.items)

    def synchronize(self):
        if f"host {self.stream.name}" not in self._streams.blind:
            self.reach()

    def query(self):
        self.reach()
        return True

    def reach(self):
        with self._streams.lock:
            while self.stream.done < self.position:
                self._streams.step(self.stream)


class Streams:
    """As fanin._staging.Cuda.  `at_once` are streams on which everything is done at once."""

    def __init__(self, seed=0, eager=0.0, blind=(), at_once=()):
        self.lock = threading.RLock()
        self.main = Stream("main")
        self.blind, self.at_once = set(blind), set(at_once)
        self.pinned_bytes = 0
        self._rng = random.Random(seed)
        self._eager = eager
        self.all = [self.main]
        self._here = threading.local()

    def step(self, stream):
        """Do the next thing on a stream, and what it waits for."""
        item = stream.items[stream.done]
        if isinstance(item, Event):
            item.reach()
        else:
            item()
        stream.done += 1

    def _add(self, stream, item):
        with self.lock:
            stream.items.append(item)
            if stream.name in self.at_once:
                Event(self, stream).reach()
            if self._rng.random() < self._eager:
                waiting = [one for one in self.all if one.done < len(one.items)]
                if waiting:
                    self.step(self._rng.choice(waiting))

    # As Cuda.

    def stream(self, device):
        with self.lock:
            made = Stream(NAMES[(len(self.all) - 1) % len(NAMES)])
            self.all.append(made)
            return made

    def current(self, device=None):
        return getattr(self._here, "stream", self.main)

    @contextlib.contextmanager
    def entered(self, stream):
        before = self.current()
        self._here.stream = stream
        try:
            yield
        finally:
            self._here.stream = before

    def record(self, stream):
        with self.lock:
            return Event(self, stream)

    def wait(self, stream, event):
        if f"{event.stream.name} {stream.name}" not in self.blind:
            self._add(stream, event)

    def run(self, stream, what, touched):
        self._add(stream, what)

    def pinned(self, size):
        self.pinned_bytes += size
        return torch.full((size,), 0xEE, dtype=torch.uint8)

    def devices_of(self, device):
        return None
