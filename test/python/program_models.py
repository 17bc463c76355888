# SPDX-License-Identifier: Apache-2.0
"""Programs of program_ranks.py that train models, compile them, and save them."""

import tempfile

import torch
import torch.distributed as dist
from program_tools import batch, mesh_of, network, own, plain, trained


# ---- models that are trained --------------------------------------------------------


def ddp_mesh():
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(network(), device_mesh=mesh_of(2))
    return [trained(model), plain(list(model.parameters()))]


def fsdp(**options):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(network(), device_id=torch.device("cpu"), **options)


def fsdp1():
    """FSDP1: every way to shard, with and without the original parameters."""
    from torch.distributed.fsdp import ShardingStrategy

    results = []
    for original in (False, True):
        for name in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
            strategy = ShardingStrategy[name]
            results.append(trained(fsdp(use_orig_params=original, sharding_strategy=strategy)))
    return results


def fsdp1_state():
    """FSDP1's state and its optimizer's, whole and sharded."""
    from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

    results = []
    for original in (False, True):
        model = fsdp(use_orig_params=original)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        results.append(trained(model, optimizer))
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
            results.append(plain([value for _, value in sorted(model.state_dict().items())]))
        state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        load = FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, state)
        optimizer.load_state_dict(load)
        results.append(trained(model, optimizer))
    return results


def hybrid():
    """FSDP1's HYBRID_SHARD over a mesh of two dimensions."""
    from torch.distributed.fsdp import ShardingStrategy

    mesh = mesh_of(2, 2, names=("replicate", "shard"))
    return trained(fsdp(device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD))


def hybrid_groups():
    """The same with groups that FSDP makes or is given."""
    from torch.distributed.fsdp import ShardingStrategy

    rank = dist.get_rank()
    shards = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    copies = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pair = shards[rank // 2], copies[rank % 2]
    strategy = ShardingStrategy.HYBRID_SHARD
    return trained(fsdp(process_group=pair, sharding_strategy=strategy))


def fully_sharded(model, mesh):
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard

    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp2():
    model = fully_sharded(network(), mesh_of(2))
    return [trained(model), plain([p.full_tensor() for p in model.parameters()])]


def fsdp2_hybrid():
    model = fully_sharded(network(), mesh_of(2, 2, names=("replicate", "shard")))
    return [trained(model), plain([p.full_tensor() for p in model.parameters()])]


def pipeline():
    """Two stages under three schedules."""
    from torch.distributed import pipelining

    results, rank = [], dist.get_rank()
    schedules = ["ScheduleGPipe"] + ["Schedule1F1B"] * (torch.__version__ >= "2.7")
    for name in schedules:  # PyTorch 2.6 waits for ever in the second, with Gloo as well
        layers = network()
        stage = layers[:1] if rank == 0 else layers[1:]
        one = pipelining.PipelineStage(stage, rank, 2, torch.device("cpu"))
        schedule = getattr(pipelining, name)(
            one, n_microbatches=3, loss_fn=lambda out, target: (out - target).square().mean()
        )
        losses = []
        if rank == 0:
            schedule.step(batch(0, 0))
        else:
            schedule.step(target=torch.zeros(6, 4), losses=losses)
        results += [plain(losses), plain([p.grad for p in stage.parameters()])]
    return results


# ---- compiled ------------------------------------------------------------------------


def compiled(backend="aot_eager"):
    """Code that calls collectives, compiled."""
    import torch.distributed._functional_collectives as functional

    def work(source):
        total = functional.all_reduce(source * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(total + 1, 0, dist.group.WORLD).sin()

    def calls(source):
        into = torch.zeros(8, 3)
        dist.all_reduce(source)
        dist.all_gather_into_tensor(into, source)
        return into * 2

    return plain([torch.compile(one, backend=backend)(own()) for one in (work, calls)])


def inductor():
    return compiled("inductor")


def compiled_ddp(backend="aot_eager"):
    """A model whose buffers DDP broadcasts."""
    from torch.nn.parallel import DistributedDataParallel

    torch._dynamo.config.suppress_errors = False
    model = DistributedDataParallel(network(norm=True))
    results = trained(torch.compile(model, backend=backend))
    return [results, plain([b.float() for b in model.buffers()])]


def compiled_ddp_inductor():
    return compiled_ddp("inductor")


# ---- checkpoints ------------------------------------------------------------------------


def folder():
    """One that all ranks see."""
    path = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(path, 0)
    return path[0]


def checkpoint(save=None):
    """A sharded model is saved, changed, and loaded."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.tensor import parallel

    model = network()
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh_of(2), plan)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before, path = trained(model, optimizer, same=True), folder()
    parts = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
    waiting = (save or dcp.save)(parts, checkpoint_id=path)
    if save is not None:
        waiting.result()
    after = trained(model, optimizer, same=True)
    dcp.load(parts, checkpoint_id=path)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=parts["model"],
        optim_state_dict=parts["optim"],
    )
    assert trained(model, optimizer, same=True) == after
    return [before, after]


def checkpoint_async():
    import torch.distributed.checkpoint as dcp

    return checkpoint(dcp.async_save)


def checkpoint_process():
    """A process of its own saves."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    return checkpoint(
        lambda *args, **named: dcp.async_save(
            *args, async_checkpointer_type=AsyncCheckpointerType.PROCESS, **named
        )
    )


def from_rank0():
    """set_model_state_dict with what rank 0 alone has."""
    from torch.distributed.checkpoint import state_dict

    model = fsdp(use_orig_params=True)
    whole = network().state_dict() if dist.get_rank() == 0 else {}
    whole = {name: value * 2 for name, value in whole.items()}
    options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state_dict.set_model_state_dict(model, whole, options=options)
    return trained(model)


def zero():
    """ZeroRedundancyOptimizer under DDP."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    return [trained(model, optimizer), plain(list(model.parameters()))]
