# SPDX-License-Identifier: Apache-2.0
"""The backend's name in torch.distributed, without the backend: that is imported when a program makes
a group of it.

PyTorch calls `autoload` at the end of `import torch` (entry point torch.backends, from 2.5 on), and
what it raises would end that import, in programs that never use fanin, too.
"""

import inspect
import logging
import sys
from typing import Any

DEVICES = ["cpu", "cuda"]  # whose tensors fanin takes
NAME = "fanin"

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
        named["devices"] = DEVICES  # PyTorch 2
    dist.Backend.register_backend(NAME, _create, **named)


def _create(given: Any, options: Any) -> Any:
    from . import _group

    return _group.create(given, options)
