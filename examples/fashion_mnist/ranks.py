# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""The processes of the job, as the launcher started them, and PyTorch's process group.

Launcher: torchrun, or anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.  With
none, or with one process, there is no process group and everything here is trivial.  What goes
through here is small and seldom: the gradients have their own way, in comm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from . import ExampleError, LostError

RANKS_MAX = 256
TIMEOUT_S = 60.0  # for one collective, and for all to arrive

# What Gloo says when a peer is gone or too late.
BROKEN = re.compile(r"gloo|connection|connect\b|timed? ?out|socket", re.IGNORECASE)


def _number(name: str, least: int, most: int) -> int:
    text = os.environ.get(name, "")
    if not text.isdigit() or not least <= int(text) <= most:
        raise ExampleError(
            f'{name}="{text}": expected a number from {least} to {most}; ' f"torchrun sets it"
        )
    return int(text)


class World:
    """`rank` of `size` processes."""

    def __init__(self) -> None:
        self.size = _number("WORLD_SIZE", 1, RANKS_MAX) if "WORLD_SIZE" in os.environ else 1
        self.rank = _number("RANK", 0, self.size - 1) if self.size > 1 else 0

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that prints what is true of all."""
        return self.rank == 0

    def join(self, timeout_s: float = TIMEOUT_S) -> None:
        """Form the process group; returns when every rank is there."""
        if self.size == 1:
            return
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                raise ExampleError(
                    f"{name} is not set; start this with torchrun, or set it to "
                    f"where rank 0 can be found"
                )
        # The store's way before PyTorch 2.4, for Debian's builds lack the other; import fanin.torch
        # does that where it comes first, but here even "--comm gloo" should work.
        os.environ.setdefault("USE_LIBUV", "0")
        with self.errors("forming the process group"):
            dist.init_process_group(
                "gloo", rank=self.rank, world_size=self.size, timeout=timedelta(seconds=timeout_s)
            )

    @contextlib.contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raise what Gloo says about a lost peer as LostError."""
        try:
            yield
        except RuntimeError as error:
            text = str(error).strip().split("\n")[0]
            if not BROKEN.search(text):
                raise
            raise LostError(f"{what}: a rank was lost or does not answer (gloo: {text})") from error

    def barrier(self) -> None:
        """Wait for all."""
        self.sum([0.0])

    def sum(self, values: Sequence[float]) -> list[float]:
        """Element by element over all ranks, in float64; the same bits on every rank."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.size > 1 and len(values) > 0:
            with self.errors("a sum over all ranks"):
                dist.all_reduce(total)
        return [float(value) for value in total]

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """[size, ...]: every rank's tensor, which have one shape and type."""
        rows = [torch.empty_like(values) for _ in range(self.size)]
        if self.size == 1:
            return values.unsqueeze(0)
        with self.errors("a gather from all ranks"):
            dist.all_gather(rows, values)
        return torch.stack(rows)

    def from_first(self, data: bytes) -> bytes:
        """Rank 0's bytes, on every rank; what the others pass does not matter."""
        if self.size == 1:
            return data
        size = torch.tensor([len(data)])
        with self.errors("a broadcast from rank 0"):
            dist.broadcast(size, 0)
            held = torch.zeros(int(size), dtype=torch.uint8)
            if self.rank == 0 and data:
                held = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            dist.broadcast(held, 0)
        return bytes(held.numpy().tobytes())

    def digests(self, model: nn.Module) -> list[str]:
        """The SHA-256 of each rank's parameters, as hexadecimal text."""
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().contiguous().numpy().tobytes())
        own = torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)
        return [row.numpy().tobytes().hex() for row in self.gather(own)]
