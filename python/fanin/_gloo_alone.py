# SPDX-License-Identifier: Apache-2.0
"""Operations of a process group that Gloo alone can do: from each rank to one, or to each other."""

from typing import Any, Callable

import torch

from ._agreed import balance, said
from ._carried import bytes_of
from ._completion import copy_back
from ._devices import DevicesGroup, collective
from ._tensors import Tensors, contiguous, each_contiguous, split_sizes

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it


class GlooAlone(DevicesGroup):
    """A group that has a way through Gloo."""

    membership: Any

    def _through_gloo(
        self,
        text: str,
        outputs: Tensors,
        call: Callable[[Any], Any],
        finish: Callable[[], Any] | None = None,
        unbalance: int = 0,
    ) -> Any:
        raise NotImplementedError

    @collective
    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts, sources = opts or c10d.AllgatherOptions(), each_contiguous([inputs])[0]
        return self._into_lists(
            said("all_gather_coalesced", inputs),
            outputs,
            lambda gloo, into: gloo.allgather_coalesced(into, sources, opts),
        )

    @collective
    def gather(self, outputs: Any, inputs: Any, *opts: Any) -> Any:
        sources, root = each_contiguous([inputs])[0], opts[0].rootRank if opts else 0
        return self._into_lists(
            said("gather", inputs, root=root),
            outputs if root == self.membership.rank else [],  # [[]], where torchcomms is turned on
            lambda gloo, into: gloo.gather(into, sources, *opts),
        )

    @collective
    def gather_single(self, output: Any, source: torch.Tensor, *opts: Any) -> Any:
        """As gather, into one tensor, which only the root has; in PyTorch 2.15."""
        size, root = self.membership.size, opts[0].rootRank if opts else 0
        outputs = [output] if root == self.membership.rank else []
        for one in outputs:
            if one.numel() != size * source.numel() or one.dtype != source.dtype:
                raise ValueError(
                    f"gather_single: input has {source.numel()} elements of {source.dtype}, output "
                    f"{one.numel()} of {one.dtype}: expected {size} times as many of one type"
                )
        flat, dense = contiguous(source).detach().reshape(-1), each_contiguous([outputs])[0]
        into = [list(one.detach().reshape(-1).chunk(size)) for one in dense]
        return self._through_gloo(
            said("gather", [source], root=root),
            outputs,
            lambda gloo: gloo.gather(into, [flat], *opts),
            copy_back(list(zip(outputs, dense))),
        )

    @collective
    def scatter(self, outputs: Any, inputs: Any, *opts: Any) -> Any:
        sources = each_contiguous(inputs)
        return self._into_lists(
            said("scatter", outputs, root=opts[0].rootRank if opts else 0),
            [outputs],
            lambda gloo, into: gloo.scatter(into[0], sources, *opts),
        )

    def _into_lists(self, text: str, lists: Any, call: Callable[[Any, list[Tensors]], Any]) -> Any:
        """`call` has Gloo fill lists of contiguous tensors."""
        dense = each_contiguous(lists)
        pairs = [both for ones in zip(lists, dense) for both in zip(*ones)]
        return self._through_gloo(
            text,
            [one for ones in lists for one in ones],
            lambda gloo: call(gloo, dense),
            copy_back(pairs),
        )

    @collective
    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Gloo has it for one tensor: theirs one behind the other, as bytes."""
        del opts
        sources = [bytes_of(contiguous(tensor)) for tensor in inputs]
        dense = [contiguous(tensor) for tensor in outputs]
        into = [bytes_of(tensor) for tensor in dense]
        flat, source = torch.cat(into), torch.cat(sources)
        got, given = ([one.numel() for one in ones] for ones in (into, sources))

        def finish() -> None:
            for one, piece in zip(into, torch.split(flat, got)):
                one.copy_(piece)
            bring_back = copy_back(list(zip(outputs, dense)))
            if bring_back is not None:
                bring_back()

        return self._exchange(
            said("all_to_all", inputs[:1], count=False),
            list(outputs),
            (given, got),
            lambda gloo: gloo.alltoall_base(flat, source, got, given),
            finish,
        )

    @collective
    def alltoall_base(
        self, output: torch.Tensor, source: torch.Tensor, got: Any, given: Any, *opts: Any
    ) -> Any:
        size, into, source = self.membership.size, contiguous(output), contiguous(source)
        return self._exchange(
            said("all_to_all_single", [source], count=False),
            [output],
            (split_sizes(source, given, size), split_sizes(output, got, size)),
            lambda gloo: gloo.alltoall_base(into, source, got, given, *opts),
            copy_back([(output, into)]),
        )

    all_to_all_single = alltoall_base  # in PyTorch 2.13 and later

    def _exchange(
        self,
        text: str,
        outputs: Tensors,
        counts: tuple[list[int], list[int]],
        call: Callable[[Any], Any],
        finish: Callable[[], Any] | None = None,
    ) -> Any:
        """From each rank to each: `counts` are those that this one sends and receives."""
        unbalance = balance(self.membership.rank, *counts)
        return self._through_gloo(text, outputs, call, finish, unbalance)
