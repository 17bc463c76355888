# SPDX-License-Identifier: Apache-2.0
"""What users' programs do with a process group, each as one rank of any backend:
`program_ranks.py PROGRAM {"backend": NAME}` prints what came out, to be compared between backends.

A program returns numbers.  One that ends with an exception prints its class and text.
"""

import contextlib
import datetime
import io
import json
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings

import torch
import torch.distributed as dist

import program_models
from program_tools import batch, mesh_of, network, own, plain

import fanin.torch  # noqa: F401

GROUP_S = 400.0  # a group's timeout: shorter than the tests'


# ---- names and groups ------------------------------------------------------------


def names():
    """What a program may ask a group about itself."""
    world, half = dist.group.WORLD, dist.new_group([0, 1], group_desc="pair")
    backend = world._get_backend(torch.device("cpu"))
    return {
        "name": [world.group_name, half.group_name],
        "desc": [world.group_desc, half.group_desc],
        "devices": "cpu" in [device.type for device in world._device_types],
        "rank": [backend.rank(), backend.size(), half.rank(), half.size()],
        "repr": str(world.name()) != "" and isinstance(repr(half), str),
    }


def devices():
    """Which backends a group has, and which of them a sum on the CPU goes through."""
    world = dist.group.WORLD
    found = [type(world._get_backend(torch.device(name))).__name__ for name in ("cpu", "cuda")]
    before, size = world.ops, dist.get_world_size()
    dist.all_reduce(tensor := torch.tensor([dist.get_rank() + 1.0]))
    first = world.ops - before
    dist.all_reduce(torch.ones(1), group=dist.new_group(list(range(size))))
    ranks = [min(dist.get_process_group_ranks(world)), size]
    return [*found, ranks, plain(tensor), first, world.ops - before]


def destroyed():
    """A subgroup is destroyed, and another one with the same ranks works."""
    group = dist.new_group([0, 1])
    first, second = own(), own()
    dist.all_reduce(first, group=group)
    dist.destroy_process_group(group)
    group = dist.new_group([0, 1])
    dist.all_reduce(second, group=group)
    dist.destroy_process_group()
    return plain([first, second])


def split():
    """Parts of the default group and of a part, with ranks in the order of the list."""
    rank, first = dist.get_rank(), [3, 0] if torch.__version__ >= "2.15" else [0, 3]
    pairs = dist.split_group(None, [first, [1, 2]], group_desc="pair")
    dist.all_reduce(summed := own(), group=pairs)
    dist.broadcast(sent := own(), group=pairs, group_src=0)
    two = dist.split_group(dist.group.WORLD, [[0, 2]])
    if rank in (0, 2):
        dist.all_reduce(summed, group=two)
    alone = dist.split_group(pairs, [[1], [0]])
    dist.all_reduce(sent, group=alone)
    told = []
    for ranks in ([], [[]], [[0, 0]]):
        try:
            told.append(repr(dist.split_group(None, ranks)))
        except ValueError as error:
            told.append(type(error).__name__)
    is_member = two is not dist.GroupMember.NON_GROUP_MEMBER
    ranks = dist.get_process_group_ranks(pairs)
    found = [pairs.rank(), pairs.size(), ranks, pairs.group_desc, alone.size(), is_member]
    return [plain([summed, sent]), found, told]


def barriers():
    """monitored_barrier, of the default group and of a subgroup."""
    group = dist.new_group([0, 1])
    dist.monitored_barrier()
    dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=GROUP_S), wait_all_ranks=True)
    dist.barrier()
    return "passed"


def threads():
    """A group for each thread, first used there."""
    groups = [dist.new_group([0, 1]) for _ in range(3)]
    tensors, errors = [own() + number for number in range(3)], []

    def work(number):
        try:
            for _ in range(3):
                dist.all_reduce(tensors[number], group=groups[number])
        except Exception as error:  # the test looks at it
            errors.append(str(error))

    running = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    if dist.get_rank() == 1:
        running.reverse()  # groups are used in another order
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(GROUP_S)
    return errors or plain(tensors)


# ---- works -----------------------------------------------------------------------


def done():
    """A future is done when its work's wait() has returned."""
    outcomes = []
    for _ in range(50):
        work = dist.all_reduce(own(), async_op=True)
        future = work.get_future()
        work.wait()
        outcomes += [future.done(), work.is_completed(), plain(future.value()[0])]
    other = dist.all_gather([torch.zeros(5) for _ in range(2)], torch.ones(5), async_op=True)
    other.wait()
    return [outcomes, other.get_future().done()]


def waited_twice():
    """Works that C++ code holds and waits for again and again, after Python has dropped them."""
    import torch.distributed._functional_collectives as functional

    group, outcomes = dist.group.WORLD, []
    for _ in range(20):
        tensors = functional.all_reduce_coalesced([own(), own(2, 2)], "sum", group)
        for _ in range(3):
            outcomes += [plain(functional.wait_tensor(tensor)) for tensor in tensors]
        gathered = functional.all_gather_tensor(own(), 0, group)
        outcomes += [plain(functional.wait_tensor(gathered)), plain(gathered)]
    work = group.allreduce_coalesced([own()], dist.AllreduceCoalescedOptions())
    return [outcomes, [bool(work.wait()) for _ in range(3)]]


# ---- collectives -------------------------------------------------------------------


def functional():
    import torch.distributed._functional_collectives as functional

    group, size = dist.group.WORLD, dist.get_world_size()
    results = [
        functional.all_reduce(own(), "sum", group),
        functional.all_reduce(own(), "max", group),
        functional.all_gather_tensor(own(), 0, group),
        functional.reduce_scatter_tensor(own(), "sum", 0, group),
        functional.broadcast(own(), 1, group),
        functional.all_to_all_single(own(), None, None, group),
        functional.all_to_all_single(own(), [2] * size, [2] * size, group),
        *functional.all_reduce_coalesced([own(), own(2, 2)], "sum", group),
        *functional.all_gather_into_tensor_coalesced([own(), own(2, 2)], group),
        *functional.reduce_scatter_tensor_coalesced([own(), own(2, 2)], "sum", [0, 0], group),
    ]
    return plain([result + 0 for result in results])


def flat():
    """Collectives on one tensor, blocking and not."""
    size, results = dist.get_world_size(), []
    for later in (False, True):
        gathered, scattered = torch.zeros(4 * size, 3), torch.zeros(4 // size, 3)
        works = [dist.all_gather_into_tensor(gathered, own(), async_op=later)]
        works.append(dist.reduce_scatter_tensor(scattered, own(), async_op=later))
        for work in works if later else []:
            work.wait()
        results += [gathered, scattered]
    return plain(results)


def lists():
    """Collectives on lists of tensors, and between two ranks."""
    size, rank = dist.get_world_size(), dist.get_rank()
    into, results = [torch.zeros(4, 3) for _ in range(size)], []
    dist.all_gather(into, own())
    results += [one.clone() for one in into]
    part = torch.zeros(4 // size, 3)
    dist.scatter(part, list(own().chunk(size)) if rank == 0 else None, 0)
    dist.gather(own(), into if rank == 1 else None, 1)
    results += [part, *into]
    swapped = torch.zeros(4, 3)
    dist.all_to_all_single(swapped, own())
    results.append(swapped)
    requests = [
        dist.P2POp(dist.isend, own(), 1 - rank),
        dist.P2POp(dist.irecv, received := torch.zeros(4, 3), 1 - rank),
    ]
    for request in dist.batch_isend_irecv(requests):
        request.wait()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    one = [{"from": rank}]
    dist.broadcast_object_list(one, 1)
    scattered = [None]
    dist.scatter_object_list(scattered, [{"to": r} for r in range(size)], 0)
    return [plain([*results, received]), objects, one, scattered]


def all_to_all():
    size, into = dist.get_world_size(), []
    into = [torch.zeros(4 // size, 3) for _ in range(size)]
    dist.all_to_all(into, list(own().chunk(size)))
    return plain(into)


def coalescing():
    """The coalescing manager, with the device named and without."""
    from torch.distributed.distributed_c10d import _coalescing_manager

    size, results = dist.get_world_size(), []
    device = torch.device("cpu")
    gathered, scattered = torch.zeros(2, 4 * size, 3), torch.zeros(2, 4 // size, 3)
    reduced = [own(), own() + 1]
    with _coalescing_manager():
        for tensor in reduced:
            dist.all_reduce(tensor)
    with _coalescing_manager(device=device, async_ops=True) as manager:
        for into in gathered:
            dist.all_gather_into_tensor(into, own())
    manager.wait()
    with _coalescing_manager(device=device):
        for into in scattered:
            dist.reduce_scatter_tensor(into, own())
    with _coalescing_manager(device=device, async_ops=True) as manager:
        dist.all_reduce(last := own())
    manager.wait()
    results += [*reduced, gathered, scattered, last]
    return plain(results)


def differentiable():
    """torch.distributed.nn: collectives with gradients."""
    import torch.distributed.nn.functional as nn

    size, results = dist.get_world_size(), []
    for call in (
        lambda x: torch.cat(nn.all_gather(x)),
        nn.all_reduce,
        lambda x: nn.broadcast(x, 0),
        lambda x: torch.cat(nn.all_to_all([torch.zeros(4 // size, 3)] * size, list(x.chunk(size)))),
    ):
        source = own().requires_grad_()
        result = call(source)
        (result * own(*result.shape)).sum().backward()
        results += [result, source.grad]
    return plain(results)


# ---- meshes, sharded tensors ---------------------------------------------------------


def mesh():
    """One dimension; two; of groups; flattened."""
    from torch.distributed.device_mesh import DeviceMesh

    two = mesh_of(2, 2, names=("dp", "tp"))
    results = []
    for name in ("dp", "tp"):
        dist.all_reduce(tensor := own(), group=two.get_group(name))
        results.append(tensor)
    one = mesh_of(4)
    dist.all_reduce(tensor := own(), group=one.get_group())
    of_group = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    flattened = two._flatten("all")
    dist.all_reduce(other := own(), group=flattened.get_group())
    dist.all_reduce(third := own(), group=of_group.get_group())
    return [plain([*results, tensor, other, third]), two.get_coordinate(), flattened.size()]


def sharded():
    """DTensor: distribute, redistribute in each way, and compute."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    one, results = mesh_of(2), []
    torch.manual_seed(1)
    whole = torch.randn(6, 4)
    rows = distribute_tensor(whole, one, [Shard(0)])
    results += [rows.full_tensor(), rows.redistribute(one, [Shard(1)]).to_local()]
    results.append(rows.redistribute(one, [Replicate()]).to_local())
    product = rows.t() @ rows  # partial sums
    results += [product.full_tensor(), product.redistribute(one, [Shard(0)]).to_local()]
    return plain(results)


def tensor_parallel():
    """Columns, then rows; and the same with the sequence sharded in between."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel

    results = []
    for sequence in (False, True):
        model, one = network(), mesh_of(2)
        shard = Shard(0) if sequence else Replicate()
        plan = {
            "0": parallel.ColwiseParallel(input_layouts=shard),
            "2": parallel.RowwiseParallel(output_layouts=shard),
        }
        parallel.parallelize_module(model, one, plan)
        source = batch(0, 0)
        source = source.chunk(2)[dist.get_rank()] if sequence else source
        loss = model(source).square().sum()
        loss.backward()
        results += [loss, *(p.grad.full_tensor() for p in model.parameters())]
    return plain(results)


def sequence_parallel():
    from torch.distributed.tensor import parallel

    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8))
    plan = {"0": parallel.SequenceParallel(), "1": parallel.ColwiseParallel()}
    one = mesh_of(2)
    parallel.parallelize_module(model, one, plan)
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    source = distribute_tensor(torch.randn(2, 4, 8), one, [Shard(1)])
    normed = model[0](source)
    result = model[1](normed.redistribute(one, [Replicate()]))
    result = result.full_tensor() if hasattr(result, "full_tensor") else result
    return plain([normed.full_tensor(), result])


# ---- beside it ---------------------------------------------------------------------------


def rpc():
    """RPC, whose agent has a group of its own."""
    import torch.distributed.rpc as rpc

    rank = dist.get_rank()
    store = [tempfile.mktemp() if rank == 0 else None]
    dist.broadcast_object_list(store, 0)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store[0]}", rpc_timeout=GROUP_S)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    dist.all_reduce(tensor := own())
    far = rpc.rpc_sync(f"worker{1 - rank}", torch.add, args=(torch.ones(2), 3))
    rpc.shutdown()
    return plain([tensor, far])


# ---- frameworks, which take a group that is there ----------------------------------


def accelerate():
    """accelerate refuses the name as InitProcessGroupKwargs(backend=)."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward(model(batch(step)).square().mean())
        optimizer.step()
    return plain([*model.parameters(), accelerator.gather(torch.tensor([1.0]))])


def trainer():
    """The Trainer of transformers refuses it as ddp_backend."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    torch.manual_seed(1)
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(num_attention_heads=2, **sizes))
    items = [{"input_ids": torch.arange(4) + i, "labels": i % 2} for i in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        told = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
        arguments = TrainingArguments(folder, use_cpu=True, num_train_epochs=2, **told)
        loss = Trainer(model, arguments, train_dataset=items).train().training_loss
    return [round(loss, 6), plain(list(model.parameters())[0])]


def ignite():
    """idist.Parallel refuses it, and auto_model wraps no model in a group whose name it does not know."""
    import ignite.distributed as idist
    from ignite.engine import create_supervised_trainer

    def training(_):
        model = torch.nn.parallel.DistributedDataParallel(network())
        optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
        data = [(batch(step), torch.zeros(1)) for step in range(3)]
        loss = torch.nn.functional.mse_loss
        trainer = create_supervised_trainer(model, optimizer, lambda got, _: loss(got, got * 0))
        trainer.run(data, max_epochs=2)
        return plain([*model.parameters(), idist.all_reduce(torch.tensor(1.0))])

    found = []
    with idist.Parallel(backend=None) as parallel:
        parallel.run(lambda rank: found.append(training(rank)))
    return found[0]


def main():
    """The program, and what came out as JSON."""
    arguments = json.loads(sys.argv[2])
    warnings.simplefilter("ignore")
    answer = {}
    try:
        timeout = datetime.timedelta(seconds=GROUP_S)
        if os.environ["RANK"] != "0":
            time.sleep(arguments.get("late_s", 0))
        dist.init_process_group(arguments["backend"], timeout=timeout)
        program = globals().get(sys.argv[1]) or getattr(program_models, sys.argv[1])
        with contextlib.redirect_stdout(io.StringIO()):
            answer["came"] = program()
        if dist.is_initialized():
            dist.barrier()
    except BaseException as error:  # the test compares it
        answer["failed"] = f"{type(error).__name__}: {error}"[:300]
        traceback.print_exc()
    print(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
