# SPDX-License-Identifier: Apache-2.0
"""Which tensors and operations fanin can carry, and tensors made contiguous for it."""

import contextlib
from typing import Any, Sequence

import torch
from torch._C._distributed_c10d import ReduceOp

from . import _staging

Tensors = list[torch.Tensor]

OPS = ["sum", "avg", "min", "max"]
FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
SUMMED = FLOATS | {torch.int32, torch.int64}
CARRIED = SUMMED | {torch.uint8}  # others are copied as bytes
ALL_OPS = "SUM AVG MIN MAX PRODUCT BAND BOR BXOR PREMUL_SUM".split()


_REDUCTIONS = [(getattr(ReduceOp, name.upper()), name) for name in OPS]


def name_of(op: Any) -> str:
    """Of a reduction that fanin has; "" of another one."""
    for known, name in _REDUCTIONS:
        if op == known:
            return name
    return ""


def words_of(op: Any) -> str:
    """Any reduction's name."""
    found = (name for name in ALL_OPS if op == getattr(ReduceOp, name, None))
    return next(found, "another operation").lower()


def is_staged(tensor: torch.Tensor) -> bool:
    """Whether it goes through pinned memory."""
    return _staging.needed_for(tensor) is not None


def _is_within_reach(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and (tensor.device.type == "cpu" or is_staged(tensor))


def why_not_copied(tensors: Sequence[torch.Tensor]) -> str:
    """Why fanin cannot carry the elements; "" if it can."""
    for tensor in tensors:
        if not _is_within_reach(tensor):
            return f"tensor of layout {tensor.layout} on {tensor.device}"
    if len(tensors) > 1 and len({tensor.device for tensor in tensors}) > 1:
        return "tensors on several devices"
    return ""


def why_not_summed(tensors: Sequence[torch.Tensor], op: Any) -> str:
    """Why fanin cannot reduce the tensors; "" if it can."""
    name = name_of(op)
    if not name:
        return "operation other than SUM, AVG, MIN and MAX"
    for tensor in tensors:
        if tensor.dtype not in SUMMED:
            return f"tensor of {tensor.dtype}"
        if name == "avg" and tensor.dtype not in FLOATS:
            return f"average of {tensor.dtype}"
    return why_not_copied(tensors)


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy of it."""
    if not _is_within_reach(tensor) or (
        tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()
    ):
        return tensor
    return tensor.detach().resolve_neg().resolve_conj().contiguous()


def each_contiguous(lists: Sequence[Sequence[torch.Tensor]]) -> list[Tensors]:
    """Lists of tensors as `contiguous` has each."""
    return [[contiguous(tensor) for tensor in tensors] for tensors in lists]


def elements_of(tensor: torch.Tensor) -> torch.Tensor:
    """Those of a contiguous tensor in a row, or their bytes where fanin does not know the type.  One of
    few elements may have any strides."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    return flat if tensor.dtype in CARRIED else flat.view(torch.uint8)


def joined(tensors: Tensors) -> torch.Tensor:
    """The elements of contiguous tensors of one size, one behind the other: in their own memory, if
    they lie there like that."""
    flat = [tensor.detach().as_strided((tensor.numel(),), (1,)) for tensor in tensors]
    step = flat[0].numel() * flat[0].element_size()
    first = flat[0].data_ptr()
    if all(one.data_ptr() == first + number * step for number, one in enumerate(flat)):
        with contextlib.suppress(RuntimeError):  # neighbours by chance
            return flat[0].as_strided((len(flat) * flat[0].numel(),), (1,))
    return torch.cat(flat)


def spread(whole: torch.Tensor, over: Tensors) -> None:
    """Copy the pieces of `whole` to tensors."""
    for piece, one in zip(whole.chunk(len(over)), over):
        one.copy_(piece.view(one.shape))


def split_sizes(tensor: torch.Tensor, sizes: Sequence[int], ranks: int) -> list[int]:
    """Elements for each rank, of a tensor that is cut into these, or evenly, along its first dimension."""
    rows = tensor.size(0) if tensor.dim() else 1
    each = tensor.numel() // rows if rows else 0
    return [one * each for one in sizes or [rows // ranks] * ranks]


def listed(tensors: Any) -> Tensors:
    """One tensor as a list of it."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def options_of(kind: Any, given: Any) -> Any:
    """Options as PyTorch passes them, or made of the operation alone."""
    if isinstance(given, kind):
        return given
    made = kind()
    if given is not None:
        made.reduceOp = given
    return made


def is_waited_for(opts: Any) -> bool:
    """Whether the caller waits for the operation at once and asks no more of it, as far as PyTorch's options
    tell; they do from 2.6 on."""
    return not getattr(opts, "asyncOp", True)
