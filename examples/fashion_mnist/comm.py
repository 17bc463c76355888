# SPDX-License-Identifier: Apache-2.0
"""How gradients get from rank to rank: through fanin, through Gloo, or not at all.

`Comm.wrap` puts a model into PyTorch's DistributedDataParallel with the right group, or hook:

    fanin   a group of backend "fanin": a switch adds the gradients on their way
    gloo    the default group: what PyTorch does by itself on CPUs
    none    a hook that leaves every rank its own gradient
"""

# No `from __future__ import annotations`: PyTorch compares a hook's annotations with its types.

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket  # as torch.distributed exports it
from torch.nn.parallel import DistributedDataParallel

from . import FAILED, USAGE, ExampleError, LostError
from .options import Options
from .ranks import World

CHECKOUT_PYTHON = Path(__file__).resolve().parents[2] / "python"


def keep_own_gradient(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook that does not communicate."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Comm:
    """One way of communication; with one rank there is none, whatever was asked for."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name if world.size > 1 else "none"
        self.world = world

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as every rank trains it; ranks then have rank 0's parameters."""
        if self.world.size == 1:
            return model
        with self.world.errors("handing out the model"):
            wrapped = DistributedDataParallel(model, process_group=self.group())
        self.hook(wrapped)
        return wrapped

    def group(self) -> Any:
        """The ranks' group that carries the gradients; None: the default one."""
        return None

    def hook(self, model: Any) -> None:  # a DistributedDataParallel
        """Register what keeps them, if nothing carries them."""
        if self.name == "none":
            model.register_comm_hook(None, keep_own_gradient)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Around every backward pass: a lost rank or switch is a LostError."""
        with self.world.errors("summing gradients"):
            yield

    def facts(self) -> dict[str, Any]:
        """For the report: whether a switch aggregates, and what it did."""
        return {"comm": self.name, "active": False, "reason": f"--comm {self.name}", "summary": ""}

    def close(self) -> None:
        """Leave; all ranks do so."""


class FaninComm(Comm):
    """Through fanin."""

    def __init__(self, world: World, options: Options) -> None:
        super().__init__("fanin", world)
        given = {
            "switch": options.switch,
            "job": options.job,
            "mode": options.mode,
            "wire": options.wire,
            "timeout": options.timeout,
            "alive": options.alive,
        }
        self.fanin, self.torch = _import_fanin()
        try:
            set_here = {name: value for name, value in given.items() if value is not None}
            # The program's default group is Gloo's, to compare with; otherwise
            # init_process_group("fanin") is all that there is to do.
            self.own: Any = dist.new_group(  # type: ignore[no-untyped-call]
                backend="fanin", pg_options=self.torch.Options(communicator=set_here)
            )
            self.torch.is_active(self.own)  # joins
        except self.fanin.FaninError as error:
            code = USAGE if isinstance(error, ValueError) else FAILED
            raise ExampleError(f"fanin: {error}", code) from error

    def group(self) -> Any:
        return self.own

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        try:
            with self.world.errors("summing gradients"), self.torch.typed_errors(self.own):
                yield
        except self.fanin.FaninError as error:
            raise LostError(f"fanin: {error}") from error

    def facts(self) -> dict[str, Any]:
        return {
            "comm": self.name,
            "active": bool(self.torch.is_active(self.own)),
            "reason": str(self.own.membership.reason),
            "summary": str(self.torch.summary(self.own)),
        }

    def close(self) -> None:
        self.own.close()


def _import_fanin() -> tuple[Any, Any]:
    """The package as installed, or as it lies beside examples/ in a checkout."""
    for folder in (None, CHECKOUT_PYTHON):
        if folder:
            sys.path.insert(0, str(folder))
        try:
            import fanin
            import fanin.torch

            return fanin, fanin.torch
        except ModuleNotFoundError as error:
            if error.name not in ("fanin", "fanin.torch"):
                raise
    raise ExampleError(
        f"--comm fanin: no Python package fanin, neither installed nor in "
        f'{CHECKOUT_PYTHON}; "pip install ." in fanin\'s sources installs it'
    )


def connect(name: str, world: World, options: Options) -> Comm:
    """Every rank calls it with the same name; join the process group before."""
    if name == "fanin" and world.size > 1:
        return FaninComm(world, options)
    return Comm(name, world)
