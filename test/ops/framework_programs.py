# SPDX-License-Identifier: Apache-2.0
"""A rank of a program of a framework, as test/ops/frameworks runs it: framework_programs.py NAME BACKEND FILE.

Each trains a small model with the backend by the framework's own setting, or, where that takes known names alone, by the
line of doc/pytorch.md.  Rank 0 writes to FILE what came out, of which all is a matter of gradients."""

import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist

ROWS = 6
TOKENS = 128  # a block of flex_attention


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batch(step, rank=None):
    torch.manual_seed(100 * (dist.get_rank() if rank is None else rank) + step)
    return torch.randn(ROWS, 8)


def plain(tensors):
    return [round(value, 5) for one in tensors for value in one.detach().flatten().tolist()]


def accelerate(backend):
    from accelerate import Accelerator

    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward(model(batch(step)).square().mean())
        optimizer.step()
    return plain(model.parameters())


def trainer(backend):
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    dist.init_process_group(backend)
    torch.manual_seed(1)
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(num_attention_heads=2, **sizes))
    items = [{"input_ids": torch.arange(4) + i, "labels": i % 2} for i in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        told = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
        arguments = TrainingArguments(folder, use_cpu=True, num_train_epochs=2, **told)
        Trainer(model, arguments, train_dataset=items).train()
    return plain(model.parameters())


def ignite(backend):
    import ignite.distributed as idist
    from ignite.distributed.comp_models.native import _NativeDistModel
    from ignite.engine import create_supervised_trainer

    if backend not in _NativeDistModel.available_backends:
        _NativeDistModel.available_backends += (backend,)
    found = []

    def training(_):
        model = torch.nn.parallel.DistributedDataParallel(network())
        optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
        data = [(batch(step), torch.zeros(1)) for step in range(3)]
        loss = torch.nn.functional.mse_loss
        one = create_supervised_trainer(model, optimizer, lambda got, _: loss(got, got * 0))
        one.run(data, max_epochs=2)
        assert dist.get_backend() == backend
        found.extend(plain(model.parameters()))

    with idist.Parallel(backend=backend) as parallel:
        parallel.run(training)
    return found


def lightning(backend):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, rows, _):
            return self.model(rows).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    one = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=backend),
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    rows = torch.cat([batch(step, 0) for step in range(4)])
    one.fit(module, torch.utils.data.DataLoader(rows, batch_size=ROWS))
    assert dist.get_backend() == backend
    return plain(module.parameters())


def opacus(backend):
    from opacus import PrivacyEngine
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

    dist.init_process_group(backend)
    model = DifferentiallyPrivateDistributedDataParallel(network())
    rows = torch.cat([batch(step, 0) for step in range(4)])
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows, torch.zeros(len(rows), 4)), batch_size=ROWS
    )
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=0.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for source, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(source), target).backward()
        optimizer.step()
    return plain(model.parameters())


def deepspeed(backend):
    """ZeRO of each stage."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed as ds

    ds.init_distributed(dist_backend=backend)
    assert dist.get_backend() == backend
    found = []
    for stage in (1, 2, 3):
        model = network()
        config = {
            "train_micro_batch_size_per_gpu": ROWS,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        }
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=config)
        for step in range(3):
            engine.backward(engine(batch(step)).square().mean())
            engine.step()
        with ds.zero.GatheredParameters(list(model.parameters())):
            found.append(plain(model.parameters()))
    return found


def torchft(backend):
    """Each rank is a replica: torchft gives the default group its ranks, and new ones as replicas come and go."""
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
    from torchft.coordination import LighthouseServer

    rank = int(os.environ["RANK"])
    meeting = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        lighthouse = LighthouseServer(bind="[::]:0", min_replicas=2)
        meeting.set("lighthouse", lighthouse.address())
    own = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    if backend == "gloo":
        group = ProcessGroupGloo()
    else:
        alone = {"rank": 0, "world_size": 1, "enable_reconfigure": True}
        dist.init_process_group(backend, store=own, **alone)
        group = dist.group.WORLD
    manager = Manager(
        pg=group,
        min_replica_size=2,
        load_state_dict=None,
        state_dict=None,
        store_addr="localhost",
        store_port=own.port,
        rank=0,
        world_size=1,
        replica_id=f"replica{rank}",
        lighthouse_addr=meeting.get("lighthouse").decode(),
        init_sync=False,
    )
    model = DistributedDataParallel(manager, network())
    optimizer = Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        optimizer.zero_grad()
        model(batch(step, rank)).square().mean().backward()
        optimizer.step()
    assert group.size() == 2 and manager.current_step() == 3
    manager.shutdown()
    return plain(model.parameters())


def ray(backend):
    """Workers are Ray's, which this process alone asks for."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray as cluster
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    def training():
        model = torch.nn.parallel.DistributedDataParallel(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(batch(step)).square().mean().backward()
            optimizer.step()
        assert dist.get_backend() == backend
        return plain(model.parameters())

    cluster.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20)
    with tempfile.TemporaryDirectory() as folder:
        how = {"torch_config": TorchConfig(backend), "run_config": RunConfig(storage_path=folder)}
        trainer = TorchTrainer(training, scaling_config=ScalingConfig(num_workers=2), **how)
        return trainer.fit().return_value


def causal(_batch, _head, query, key):
    return query >= key


def attention(query, key, value, **_):
    """In place of flex_attention, which has no gradient on CPUs."""
    options = {"is_causal": True, "enable_gqa": True}
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, **options), None


def torchtitan(backend):
    """Its llama3 of debugmodel's size, sharded by its FSDP: its trainer and its compiled attention run on no CPU."""
    import torchtitan.tools.utils as tools

    tools.device_type, tools.device_module = "cpu", torch.cpu
    from torch.nn.attention.flex_attention import create_block_mask
    from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
    from torchtitan.distributed import ParallelDims
    from torchtitan.models.common.attention import FlexAttention
    from torchtitan.models.llama3 import model_registry

    FlexAttention._compiled_flex_attn = staticmethod(attention)
    dist.init_process_group(backend)
    parallelism = ParallelismConfig(spmd_backend="partial_dtensor")
    dims = ParallelDims.from_config(parallelism, dist.get_world_size())
    spec = model_registry("debugmodel")
    torch.manual_seed(1)
    model = spec.model.build()
    model = spec.parallelize_fn(
        model,
        parallel_dims=dims,
        training=TrainingConfig(mixed_precision_param="float32"),
        parallelism=parallelism,
        compile_config=CompileConfig(),
        ac_config=None,
        dump_folder="",
    )
    for module in model.modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)  # Gloo lacks PREMUL_SUM
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mask, losses = create_block_mask(causal, 1, None, TOKENS, TOKENS, device="cpu"), []
    for step in range(2):
        torch.manual_seed(10 * dist.get_rank() + step)
        tokens = torch.randint(0, 200, (1, TOKENS + 1))
        logits = model(tokens[:, :-1], None, mask)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), tokens[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 5))
    return losses


if __name__ == "__main__":
    name, how, file = sys.argv[1:]
    came = globals()[name](how)
    if os.environ.get("RANK", "0") == "0":
        with open(file, "w", encoding="utf-8") as out:
            json.dump(came, out)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
