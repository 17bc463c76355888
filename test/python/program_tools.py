# SPDX-License-Identifier: Apache-2.0
"""What the programs of program_ranks.py and program_models.py share."""

import torch
import torch.distributed as dist


def own(rows=4, columns=3):
    """Numbers of this rank alone."""
    return torch.arange(float(rows * columns)).reshape(rows, columns) * (dist.get_rank() + 1)


def plain(tensors):
    """Tensors as lists of numbers that JSON keeps."""
    if isinstance(tensors, torch.Tensor):
        return [round(value, 4) for value in tensors.detach().double().flatten().tolist()]
    return [plain(tensor) for tensor in tensors]


def network(norm=False):
    torch.manual_seed(3)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
    if norm:
        layers.insert(1, torch.nn.BatchNorm1d(16))
    return torch.nn.Sequential(*layers)


def batch(step, rank=None):
    torch.manual_seed(100 * (dist.get_rank() if rank is None else rank) + step)
    return torch.randn(6, 8)


def trained(model, optimizer=None, same=False, steps=3):
    """The losses of some steps."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(batch(step, 0 if same else None)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses


def mesh_of(*shape, names=None):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=names)
