# SPDX-License-Identifier: Apache-2.0
"""The networks: one that learns the data well, one that has many gradients to send."""

from __future__ import annotations

from torch import nn

from .data import CLASSES, SIDE


def cnn() -> nn.Module:
    """Two convolutions and two linear layers: 281,034 parameters, 1.1 MB of gradients."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def wide() -> nn.Module:
    """Three linear layers: 8,725,514 parameters, 34.9 MB of gradients, little to compute."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIDE * SIDE, 3072),
        nn.ReLU(),
        nn.Linear(3072, 2048),
        nn.ReLU(),
        nn.Linear(2048, CLASSES),
    )


MODELS = {"cnn": cnn, "wide": wide}


def parameter_count(model: nn.Module) -> int:
    """Every one has a gradient."""
    return sum(p.numel() for p in model.parameters())
