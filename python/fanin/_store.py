# SPDX-License-Identifier: Apache-2.0
"""A store of torch.distributed for several threads at a time.

TCPStore has one connection a process, and a thread that waits for a key keeps it: no other thread can
say what a rank waits for meanwhile, so ranks whose threads come in different orders would wait for
each other.  This one looks again and again, by a counter beside each key.
"""

import concurrent.futures
import datetime
import threading
import time
from typing import Any, Callable, Sequence

from torch._C._distributed_c10d import Store

FIRST_S, LAST_S = 0.001, 0.02  # between two looks, of 11 system calls each: they become rarer
LOOK_S = 0.2  # of a wait for a thread, between looks at whether it is hopeless
TOLD = ".told"


def seconds_of(limit: datetime.timedelta | float) -> float:
    """Of a time as PyTorch takes it."""
    return limit.total_seconds() if isinstance(limit, datetime.timedelta) else float(limit)


def answered(call: Callable[[], Any], seconds: float, look: Callable[[], None]) -> Any:
    """What `call` returns, or raises, of a store; RuntimeError: it does not in time.  On a thread, since a
    store whose host stands still answers when its own limit is over, if ever; `look` raises what makes that
    hopeless.  A process that ends in the moment in which such a call does may abort: PyTorch's C++ code
    does not survive that Python ends the thread there."""
    future: "concurrent.futures.Future[Any]" = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="fanin-store", daemon=True).start()
    until = time.monotonic() + seconds
    while not concurrent.futures.wait([future], LOOK_S).done:
        look()
        if time.monotonic() > until:
            raise RuntimeError(f"no answer of the store within {seconds:g} s")
    return future.result()


class PatientStore(Store):
    """What only this class has written can be waited for in `store`.  `look` raises what makes that
    hopeless."""

    def __init__(self, store: Any, look: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._store = store
        self._look = look

    @property
    def host(self) -> str:
        """That of the TCPStore below, as this rank was given it; "": there is none."""
        store = self._store
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        return str(getattr(store, "host", ""))

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)
        self._store.add(key + TOLD, 1)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self.read(key)

    def read(self, key: str) -> bytes:
        """What is there."""
        value = self._store.get(key)
        return value if isinstance(value, bytes) else str(value).encode()

    def add(self, key: str, amount: int) -> int:
        return int(self._store.add(key, amount))

    def told(self, key: str) -> int:
        """How many times it was set."""
        return int(self._store.add(key + TOLD, 0))

    def check(self, keys: Sequence[str]) -> bool:
        return all(self.told(key) for key in keys)

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Until all are there; RuntimeError after `timeout`, or after the store's."""
        limit = timeout or self._store.timeout
        until, pause = time.monotonic() + limit.total_seconds(), FIRST_S
        while not self.check(keys):
            if time.monotonic() > until:
                raise RuntimeError(f"{', '.join(keys)}: not told by any rank within {limit}")
            self._look()
            time.sleep(pause)
            pause = min(pause * 2, LAST_S)
