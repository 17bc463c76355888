# SPDX-License-Identifier: Apache-2.0
"""The backend's name in torch.distributed, without the backend: that is imported when a program makes
a group of it.

PyTorch calls `autoload` at the end of `import torch` (entry point torch.backends, from 2.5 on), and
what it raises would end that import, in programs that never use fanin, too.
"""

import ctypes
import inspect
import logging
import sys
from typing import Any

NAME = "fanin"
DRIVER = "libcuda.so.1"

logger = logging.getLogger("fanin")


def autoload() -> None:
    """Make the name known.  Whatever goes wrong is logged, and then it is not known."""
    try:
        register()
    except Exception as error:  # see above
        logger.warning("fanin: the backend is not known to torch.distributed: %s", error)


def register() -> None:
    """Make the name known, if it is not."""
    dist: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if dist is None or not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    named: dict[str, Any] = {"extended_api": True}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        named["devices"] = devices()  # PyTorch 2
    dist.Backend.register_backend(NAME, _create, **named)


def devices() -> list[str]:
    """Those whose tensors fanin takes, and whose the machine has: torch.distributed's sharded tensors
    begin with the first one that is not the CPU.  CUDA is not asked: that would break it in processes
    forked later."""
    version: Any = sys.modules["torch"].version
    return ["cpu", "cuda"] if version.hip or (version.cuda and _has_driver()) else ["cpu"]


def _has_driver() -> bool:
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def _create(given: Any, options: Any) -> Any:
    from . import _group

    return _group.create(given, options)
