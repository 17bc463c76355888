# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's store listens with.

From version 2.4 on PyTorch makes the store of `env://` and `tcp://` by libuv unless USE_LIBUV=0 is
set.  Debian's builds lack libuv, so each `init_process_group` ends with an error there, whatever the
backend is.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import MutableMapping
from typing import Any

import torch
import torch.distributed as dist

logger = logging.getLogger("fanin")

ASKS_FROM = (2, 4)  # of PyTorch's versions
NO_DESCRIPTOR = 2**31 - 1  # nothing can listen on it


def _asks() -> bool:
    """Whether this PyTorch asks for libuv by itself."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= ASKS_FROM


def _lacks() -> bool:
    """Whether this build has none.  A store says so before it looks at what it should listen on."""
    make: Any = getattr(dist, "TCPStore")  # of which the stubs know nothing
    try:
        make("127.0.0.1", 1, 1, True, master_listen_fd=NO_DESCRIPTOR, use_libuv=True)
    except Exception as error:  # of several types, by version
        return "libuv" in str(error)
    return False


def is_missing() -> bool:
    """Whether this PyTorch asks for what it lacks."""
    return _asks() and _lacks()


def tcp_store(host: str, port: int, is_master: bool, timeout: datetime.timedelta) -> Any:
    """A store that this PyTorch can make; who has it waits for nobody."""
    lacking: dict[str, Any] = {"use_libuv": False} if is_missing() else {}
    make: Any = getattr(dist, "TCPStore")  # of which the stubs know nothing
    return make(host, port, None, is_master, timeout, wait_for_workers=False, **lacking)


def complete(env: MutableMapping[str, str]) -> None:
    """Set USE_LIBUV=0 if nobody has set it and libuv is missing; rank 0 says so."""
    if "USE_LIBUV" in env or not is_missing():
        return
    env["USE_LIBUV"] = "0"
    if env.get("RANK", "0") == "0":
        logger.warning(
            "fanin: PyTorch %s was built without libuv, which its stores use by default; "
            "USE_LIBUV=0 is set",
            torch.__version__,
        )
