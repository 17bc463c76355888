# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST: 60,000 training and 10,000 test images of 28 x 28 grey pixels, 10 kinds of clothes.

The files are those of Debian's package dataset-fashion-mnist: gzip over idx, which is a magic
number, one size for each dimension, and bytes.  Images stay bytes in memory; a batch is made
floating-point, and normalised with the mean and the deviation of all training images, when it
is needed.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from . import ExampleError

PACKAGE = "dataset-fashion-mnist"
FOLDER = "/usr/share/datasets/fashion-mnist"

SIDE = 28
CLASSES = 10
TRAIN = 60000
TEST = 10000

# Of all 47,040,000 training pixels, as parts of 255.
MEAN = 0.28604
DEVIATION = 0.35302

MAGIC_IMAGES = 0x00000803  # bytes, three dimensions
MAGIC_LABELS = 0x00000801  # bytes, one dimension


@dataclass(frozen=True)
class Images:
    """`pixels` uint8 [n, 28, 28], `labels` uint8 [n]."""

    pixels: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def batch(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised float32 [b, 1, 28, 28] and int64 [b] of the images `index`."""
        pixels = self.pixels[index].unsqueeze(1).to(torch.float32)
        return pixels.div_(255).sub_(MEAN).div_(DEVIATION), self.labels[index].long()

    def head(self, count: int) -> Images:
        """The first `count`, or all if 0."""
        return Images(self.pixels[:count], self.labels[:count]) if count else self


def _unpacked(path: Path, count: int) -> bytes:
    """At most `count` + 1 bytes, so that a wrong file fills no memory."""
    try:
        with gzip.open(path) as file:
            return file.read(count + 1)
    except FileNotFoundError:
        raise ExampleError(
            f"{path}: no such file; as root: apt-get install {PACKAGE}, "
            f"or name the folder that has it with --data"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise ExampleError(
            f"{path}: cannot be read ({error}); to have it again, as root: "
            f"apt-get install --reinstall {PACKAGE}"
        ) from None


def read_idx(path: Path, magic: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The array of a gzipped idx file, which must have just this magic number and shape."""
    head = struct.pack(f">{1 + len(shape)}I", magic, *shape)
    size = len(head) + int(np.prod(shape))
    data = _unpacked(path, size)
    if data[: len(head)] != head:
        raise ExampleError(
            f"{path}: starts with {data[:len(head)].hex() or 'nothing'}, expected "
            f"{head.hex()}: not a file of the package {PACKAGE}"
        )
    if len(data) != size:
        found = f"{len(data)}" if len(data) < size else "more"
        raise ExampleError(f"{path}: expected {size} bytes when unpacked, found {found}")
    return np.frombuffer(data, np.uint8, offset=len(head)).reshape(shape)


def load(folder: str, part: str, count: int) -> Images:
    """`part` is "train" or "t10k" and `count` the number of images that it has."""
    images = Path(folder) / f"{part}-images-idx3-ubyte.gz"
    labels = Path(folder) / f"{part}-labels-idx1-ubyte.gz"
    pixels = read_idx(images, MAGIC_IMAGES, (count, SIDE, SIDE))
    kinds = read_idx(labels, MAGIC_LABELS, (count,))
    if int(kinds.max()) >= CLASSES:
        raise ExampleError(f"{labels}: label {kinds.max()}, expected 0 to {CLASSES - 1}")
    return Images(torch.from_numpy(pixels.copy()), torch.from_numpy(kinds.copy()))


def steps_per_epoch(count: int, ranks: int, batch: int) -> int:
    """What is left over after whole batches for every rank is not trained on in that epoch."""
    return count // (ranks * batch)


def epoch_order(
    count: int, epoch: int, seed: int, rank: int, ranks: int, batch: int
) -> torch.Tensor:
    """The images that `rank` trains on: int64 [steps, batch].

    Depends on nothing else, so every run has the same order, and no two ranks the same image."""
    steps = steps_per_epoch(count, ranks, batch)
    shuffled = np.random.default_rng([seed, epoch]).permutation(count)[: steps * ranks * batch]
    return torch.from_numpy(shuffled.reshape(steps, ranks, batch)[:, rank].copy())
