# SPDX-License-Identifier: Apache-2.0
"""What torch.compile must not look into: Dynamo traces whatever Python code runs below a frame that it
could not compile, and what happens to memory behind a tensor's back comes out wrong."""

import contextlib
import functools
import sys
import types
from typing import Any, Callable, TypeVar

import torch

Call = TypeVar("Call", bound=Callable[..., Any])


def untraced(method: Call) -> Call:
    """The function, and all that it calls, as they are.  Costs nothing while nobody has imported
    Dynamo, and does not import it."""
    disabled: list[Any] = []

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:
            return method(*arguments, **named)
        if not disabled:
            disabled.append(disable(method))
        return disabled[0](*arguments, **named)

    return skipped(call)  # type: ignore[return-value]


def skipped(function: Call) -> Call:
    """The function is not traced; nor is what it calls, from PyTorch 2.7 on."""
    with contextlib.suppress(AttributeError):  # PyTorch 1.13 compiles nothing
        _skip(function.__code__)
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function


def _skip(code: types.CodeType) -> None:
    frames: Any = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    else:
        frames.skip_code(code)
