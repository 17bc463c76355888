# SPDX-License-Identifier: Apache-2.0
"""What one operation of a process group carries: how the library starts it on the tensors themselves,
and how it is cut into slices where these are on a GPU and the library sees copies in pinned memory.

Slices follow from sizes alone, so that all ranks cut alike.  Tensors are contiguous.
"""

import dataclasses
from typing import Any, Callable, Iterator

import torch

from .communicator import Communicator, Operation

SLICE_BYTES = 8 << 20
ALIGNED_BYTES = 64  # shares of a slice begin at multiples of it: elements stay whole

Layout = list[
    tuple[int, torch.Tensor]
]  # byte of the slice, and bytes of a tensor that belong there


@dataclasses.dataclass
class Slice:
    """A part of an operation, in `size` bytes of pinned memory.

    loads
        What is copied there before it starts.
    start
        Starts it on the slice's bytes.
    stores
        What is copied from there after it has ended.
    """

    size: int
    loads: Layout
    start: Callable[[Communicator, torch.Tensor], Operation[Any]]
    stores: Layout


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor.  One of few elements may have any strides."""
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


@dataclasses.dataclass
class InPlace:
    """Elements that are summed or copied where they are.  `begin` starts that on a tensor of their
    type, and waits for its end for some seconds; `loads`, `stores`: this rank gives some, gets some.
    """

    tensor: torch.Tensor
    begin: Callable[[Communicator, torch.Tensor, float], Operation[Any]]
    loads: bool = True
    stores: bool = True

    @property
    def bytes(self) -> int:
        """Of the tensor that travels."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def sample(self) -> torch.Tensor:
        """One that lies where all do."""
        return self.tensor

    def empty(self) -> "InPlace":
        """The same without elements, on the CPU."""
        return dataclasses.replace(self, tensor=torch.empty(0, dtype=self.tensor.dtype))

    def start(self, comm: Communicator, within: float = 0.0) -> Operation[Any]:
        """On the tensor itself."""
        return self.begin(comm, self.tensor, within)

    def slices(self, rank: int, ranks: int) -> Iterator[Slice]:
        """On copies; of rank `rank` of `ranks`."""
        del rank, ranks
        memory, dtype = bytes_of(self.tensor), self.tensor.dtype
        for at in range(0, memory.numel(), SLICE_BYTES):
            piece = memory[at : at + SLICE_BYTES]
            yield Slice(
                piece.numel(),
                [(0, piece)] if self.loads else [],
                lambda comm, pinned: self.begin(comm, pinned.view(dtype), 0.0),
                [(0, piece)] if self.stores else [],
            )


@dataclasses.dataclass
class _Shares:
    """A tensor `whole` of all ranks, and `share`, this rank's: as long as each rank's place in it."""

    whole: torch.Tensor
    share: torch.Tensor

    @property
    def bytes(self) -> int:
        """Of the tensor that travels."""
        return self.whole.numel() * self.whole.element_size()

    @property
    def sample(self) -> torch.Tensor:
        """As that of InPlace."""
        return self.whole

    def _cuts(self, ranks: int) -> Iterator[tuple[int, Layout, torch.Tensor]]:
        """Of each slice, which has as much of every rank: how many bytes, all ranks' places, and
        the same bytes of the share."""
        whole, share = bytes_of(self.whole), bytes_of(self.share)
        step = max(SLICE_BYTES // ranks // ALIGNED_BYTES, 1) * ALIGNED_BYTES
        for at in range(0, share.numel(), step):
            own = share[at : at + step]
            size, first = own.numel(), [r * share.numel() + at for r in range(ranks)]
            yield size, [(r * size, whole[b : b + size]) for r, b in enumerate(first)], own


class Scatter(_Shares):
    """`whole` of all ranks is reduced by `op`, and each gets its share."""

    def __init__(self, whole: torch.Tensor, share: torch.Tensor, op: str) -> None:
        super().__init__(whole, share)
        self.op = op

    def empty(self) -> "Scatter":
        """As that of InPlace."""
        none = torch.empty(0, dtype=self.whole.dtype)
        return Scatter(none, none, self.op)

    def start(self, comm: Communicator, within: float = 0.0) -> Operation[Any]:
        """On the tensors themselves."""
        del within  # several operations of the library
        return comm.reduce_scatter_start(self.whole, self.share, self.op)

    def slices(self, rank: int, ranks: int) -> Iterator[Slice]:
        """On copies; of rank `rank` of `ranks`."""

        def begin(comm: Communicator, pinned: torch.Tensor) -> Operation[Any]:
            whole = pinned.view(self.whole.dtype)
            return comm.reduce_scatter_start(whole, whole.chunk(ranks)[rank], self.op)

        for size, places, own in self._cuts(ranks):
            yield Slice(size * ranks, places, begin, [(rank * size, own)])


class Gather(_Shares):
    """All ranks' shares come to `whole`, on every rank."""

    def empty(self) -> "Gather":
        """As that of InPlace."""
        none = torch.empty(0, dtype=self.whole.dtype)
        return Gather(none, none)

    def start(self, comm: Communicator, within: float = 0.0) -> Operation[Any]:
        """On the tensors themselves."""
        del within  # several operations of the library
        return comm.allgather_start(self.share, self.whole)

    def slices(self, rank: int, ranks: int) -> Iterator[Slice]:
        """On copies; of rank `rank` of `ranks`."""

        def begin(comm: Communicator, pinned: torch.Tensor) -> Operation[Any]:
            whole = pinned.view(self.whole.dtype)
            return comm.allgather_start(whole.chunk(ranks)[rank], whole)

        for size, places, own in self._cuts(ranks):
            yield Slice(size * ranks, [(rank * size, own)], begin, places)


Carried = InPlace | Scatter | Gather
