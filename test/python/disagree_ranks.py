# SPDX-License-Identifier: Apache-2.0
"""What one rank of a test of ranks that disagree does: `disagree_ranks.py FUNCTION ARGUMENTS-AS-JSON`."""

import json
import os
import sys

import torch
import torch.distributed as dist

import fanin
import fanin.torch

BIG = 20000  # bytes of a rank whose all-gather is no small one


def gathered(tensor):
    """An all-gather of the tensor."""
    outputs = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    return lambda group: dist.all_gather(outputs, tensor, group=group)


def exchanged(sends, receives):
    """An all-to-all of so many elements to and from each rank."""
    into, source = torch.zeros(sum(receives)), torch.ones(sum(sends))
    return lambda group: dist.all_to_all_single(into, source, receives, sends, group=group)


def collected(count, group):
    """A gather to rank 0."""
    size = dist.get_world_size()
    outputs = [torch.zeros(count) for _ in range(size)] if dist.get_rank() == 0 else None
    dist.gather(torch.ones(count), outputs, 0, group)


def spread(count, group):
    """A scatter from rank 0."""
    size = dist.get_world_size()
    inputs = [torch.ones(count) for _ in range(size)] if dist.get_rank() == 0 else None
    dist.scatter(torch.zeros(count), inputs, 0, group)


def summed(count, dtype="float32", op="SUM"):
    """An all-reduce."""
    tensor = torch.ones(count, dtype=getattr(torch, dtype))
    return lambda group: dist.all_reduce(tensor, getattr(dist.ReduceOp, op), group)


def broadcast(count, dtype="float32", root=0):
    """From rank `root`."""
    tensor = torch.ones(count, dtype=getattr(torch, dtype))
    return lambda group: dist.broadcast(tensor, root, group)


def coalesced(*counts):
    """Several tensors, added as one."""
    tensors = [torch.ones(count) for count in counts]
    return lambda group: dist.all_reduce_coalesced(tensors, group=group)


def sparse(group):
    """An all-reduce of a sparse tensor."""
    dist.all_reduce(torch.eye(3).to_sparse(), group=group)


# name -> what rank 0 and what all others ask for
DIFFERENCES = {
    "empty": [summed(0), summed(5)],
    "type that Gloo sums": [summed(5), summed(5, "int8")],
    "types that Gloo sums": [summed(5, "int8"), summed(5, "uint8")],
    "count that Gloo sums": [summed(5, "int8"), summed(7, "int8")],
    "operation that Gloo has": [summed(5, op="PRODUCT"), summed(5)],
    "sparse": [sparse, summed(9)],
    "coalesced": [coalesced(2, 3), coalesced(3, 2)],
    "coalesced or not": [coalesced(2, 3), summed(5)],
    "barrier": [dist.barrier, summed(1)],
    "type of a broadcast": [broadcast(20, "uint8"), broadcast(5)],
    "type of a broadcast of bytes": [broadcast(5, "bool"), broadcast(5, "uint8")],
    "types of broadcasts of bytes": [broadcast(5, "bool"), broadcast(5, "int8")],
    "root": [broadcast(5, root=0), broadcast(5, root=1)],
    "count of a small all-gather": ["gathered", 5, 7],
    "count of a small all-gather of bytes": ["gathered", 5, 7, "uint8"],
    "small all-gather or none": ["gathered", 5, BIG],
    "empty all-gather": ["gathered", 0, 5],
    "type of a small all-gather": ["types", 5],
    "type of an all-gather": ["types", BIG],
    "all-gather or broadcast": ["broadcasts", BIG],
    "all-gather or sum": ["sum", 5],
    "gather or scatter": [lambda group: collected(5, group), lambda group: spread(5, group)],
    "count of a gather": [lambda group: collected(5, group), lambda group: collected(7, group)],
    "gather or sum": [lambda group: collected(5, group), summed(5)],
}


def made(parts):
    """The two operations: those that need the size of the job are made late."""
    if callable(parts[0]):
        return parts
    kind, count = parts[0], parts[1]
    if kind == "gathered":
        dtype = getattr(torch, parts[3] if len(parts) > 3 else "float32")
        return [gathered(torch.ones(one, dtype=dtype)) for one in parts[1:3]]
    if kind == "types":
        return [gathered(torch.ones(count, dtype=one)) for one in (torch.float32, torch.int32)]
    return [
        gathered(torch.ones(count)),
        broadcast(count) if kind == "broadcasts" else summed(count),
    ]


def differences():
    """How each ends on this rank, in a group of its own.  After it a rank goes on, as if that had been
    what the other one has asked for: its next operation must not be added to that."""
    answer = {}
    rank = dist.get_rank()
    cases = {name: made(parts) for name, parts in DIFFERENCES.items()}
    others = dist.get_world_size() - 1  # rank 1 expects more of rank 0 than that sends
    sends = [[2] * (others + 1), [2] * (others + 1)]
    cases["parts of an all-to-all"] = [
        exchanged(sends[0], sends[0]),
        exchanged(sends[1], [3 if rank == 1 else 2, *sends[1][1:]]),
    ]
    for name, parts in cases.items():
        group = dist.new_group()
        tensor = torch.full((5,), float(10**rank))
        answer[name] = []
        for ask in (
            parts[min(rank, 1)],
            lambda group, one=tensor: dist.all_reduce(one, group=group),
        ):
            try:
                ask(group)
                answer[name].append(["", tensor[0].item()])
            except RuntimeError as error:
                answer[name].append([type(error).__name__, str(error)])
    return answer


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    options = fanin.torch.Options(**given.pop("options", {}))
    dist.init_process_group("fanin", pg_options=options)
    print(json.dumps(globals()[sys.argv[1]](**given)), flush=True)
    dist.barrier(dist.new_group(backend="gloo"))  # nobody leaves while others still ask
    os._exit(0)
