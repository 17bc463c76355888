# SPDX-License-Identifier: Apache-2.0
"""Layer tables of models, made from architectures or read from CSV.

A table has one line for each set of parameters that is used in one place: a convolution, its batch
norm, a matrix with its bias.  Parameters are those of the papers' reference implementations; the
tests have their sums.  Times are for one batch on a GPU of 2019, spread over the layers by their
multiply-adds: VGG16 takes 252 ms forwards and 439 ms backwards, ResNet50 202 and 261 ms (both
published, batch of 64).  Each other model takes as much for a multiply-add as the one of these two
that it resembles.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Tuple

from .files import FileError

LAYERS_MAX = 4096
NUMEL_MAX = 1 << 36  # of a layer
NS_MAX = 3_600_000_000_000
NAME_MAX = 47  # bytes of a layer's name

CLASSES = 1000  # of images
TOKENS = 128  # in a sample of a transformer
BERT_WORDS, GPT2_WORDS = 30522, 50257
NCF_USERS, NCF_ITEMS = 138493, 26744  # MovieLens-20M

HEAD = ["layer", "numel", "forward_ns", "backward_ns"]


class ModelError(FileError):
    """A table that makes no sense; the text has the line."""


class Layer(NamedTuple):
    """Parameters that are used in one place, and how long a batch computes there."""

    name: str
    numel: int
    forward_ns: int
    backward_ns: int


Part = Tuple[str, int, int]  # a layer's name, parameters and multiply-adds of a sample


# ---- images ----


def _conv(name: str, inputs: int, outputs: int, kernel: int, side: int, bias: bool) -> Part:
    """A convolution with `side` x `side` outputs."""
    weights = inputs * outputs * kernel * kernel
    return name, weights + (outputs if bias else 0), weights * side * side


def _norm(name: str, width: int, places: int) -> Part:
    return name, 2 * width, 2 * width * places


def _dense(name: str, inputs: int, outputs: int, places: int = 1) -> Part:
    return name, inputs * outputs + outputs, inputs * outputs * places


def _alexnet(_depth: int) -> Iterator[Part]:
    yield _conv("conv1", 3, 64, 11, 55, True)
    yield _conv("conv2", 64, 192, 5, 27, True)
    yield _conv("conv3", 192, 384, 3, 13, True)
    yield _conv("conv4", 384, 256, 3, 13, True)
    yield _conv("conv5", 256, 256, 3, 13, True)
    yield _dense("fc6", 256 * 6 * 6, 4096)
    yield _dense("fc7", 4096, 4096)
    yield _dense("fc8", 4096, CLASSES)


def _vgg(depth: int) -> Iterator[Part]:
    inputs, side = 3, 224
    for stage, width in enumerate((64, 128, 256, 512, 512)):
        for i in range(2 if stage < 2 else (depth - 7) // 3):
            yield _conv(f"conv{stage + 1}_{i + 1}", inputs, width, 3, side, True)
            inputs = width
        side //= 2
    yield _dense("fc6", 512 * 7 * 7, 4096)
    yield _dense("fc7", 4096, 4096)
    yield _dense("fc8", 4096, CLASSES)


def _conv_norm(
    block: str, part: str, inputs: int, outputs: int, kernel: int, side: int
) -> list[Part]:
    return [
        _conv(f"{block}.conv{part}", inputs, outputs, kernel, side, False),
        _norm(f"{block}.bn{part}", outputs, side * side),
    ]


def _resnet(depth: int) -> Iterator[Part]:
    """Bottleneck blocks; the 3 x 3 convolution has the stride."""
    blocks = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}[depth]
    yield from _conv_norm("stem", "", 3, 64, 7, 112)
    inputs, side = 64, 56
    for stage, many in enumerate(blocks):
        width = 64 << stage
        for i in range(many):
            out_side, name = side // 2 if i == 0 and stage else side, f"layer{stage + 1}.{i}"
            yield from _conv_norm(name, "1", inputs, width, 1, side)
            yield from _conv_norm(name, "2", width, width, 3, out_side)
            yield from _conv_norm(name, "3", width, 4 * width, 1, out_side)
            if i == 0:
                yield from _conv_norm(name, "_down", inputs, 4 * width, 1, out_side)
            inputs, side = 4 * width, out_side
    yield _dense("fc", inputs, CLASSES)


# ---- words ----


def _part(layer: int, name: str, inputs: int, outputs: int) -> Part:
    return _dense(f"layer{layer}.{name}", inputs, outputs, TOKENS)


def _attention(layer: int, width: int) -> Part:
    """Two products: of queries and keys, and of weights and values."""
    return f"layer{layer}.attention", 0, 2 * width * TOKENS * TOKENS


def _bert(layers: int) -> Iterator[Part]:
    width = 1024 if layers == 24 else 768
    yield "embeddings.word", BERT_WORDS * width, width * TOKENS
    yield "embeddings.position", 512 * width, width * TOKENS
    yield "embeddings.type", 2 * width, width * TOKENS
    yield _norm("embeddings.norm", width, TOKENS)
    for i in range(layers):
        for name in ("query", "key", "value"):
            yield _part(i, name, width, width)
        yield _attention(i, width)
        yield _part(i, "output", width, width)
        yield _norm(f"layer{i}.norm1", width, TOKENS)
        yield _part(i, "up", width, 4 * width)
        yield _part(i, "down", 4 * width, width)
        yield _norm(f"layer{i}.norm2", width, TOKENS)
    yield _dense("pooler", width, width)


def _gpt2(layers: int) -> Iterator[Part]:
    width = 768
    yield "wte", GPT2_WORDS * width, width * TOKENS
    yield "wpe", 1024 * width, width * TOKENS
    for i in range(layers):
        yield _norm(f"layer{i}.norm1", width, TOKENS)
        yield _part(i, "query_key_value", width, 3 * width)
        yield _attention(i, width)
        yield _part(i, "output", width, width)
        yield _norm(f"layer{i}.norm2", width, TOKENS)
        yield _part(i, "up", width, 4 * width)
        yield _part(i, "down", 4 * width, width)
    yield _norm("norm", width, TOKENS)
    yield "head", 0, GPT2_WORDS * width * TOKENS  # it reuses the matrix wte


# ---- recommendation ----


def _ncf(_depth: int) -> Iterator[Part]:
    yield "mf.users", 64 * NCF_USERS, 64
    yield "mf.items", 64 * NCF_ITEMS, 64
    yield "mlp.users", 128 * NCF_USERS, 128
    yield "mlp.items", 128 * NCF_ITEMS, 128
    yield _dense("mlp.1", 256, 256)
    yield _dense("mlp.2", 256, 128)
    yield _dense("mlp.3", 128, 64)
    yield _dense("score", 128, 1)


# ---- all ----


class _Measured(NamedTuple):
    """Published times of a batch of 64, and the multiply-adds of a sample to which they apply."""

    macs: int
    forward_ns: int
    backward_ns: int


_VGG16 = _Measured(15470264320, 252000000, 439000000)
_RESNET50 = _Measured(4111412224, 202000000, 261000000)
_BATCH = 64

_MODELS: dict[str, tuple[Callable[[int], Iterator[Part]], int, int, _Measured]] = {
    "alexnet": (_alexnet, 8, 64, _VGG16),
    "vgg16": (_vgg, 16, 64, _VGG16),
    "vgg19": (_vgg, 19, 64, _VGG16),
    "resnet50": (_resnet, 50, 64, _RESNET50),
    "resnet101": (_resnet, 101, 64, _RESNET50),
    "resnet152": (_resnet, 152, 64, _RESNET50),
    "bert-base": (_bert, 12, 64, _VGG16),
    "bert-large": (_bert, 24, 64, _VGG16),
    "gpt2-small": (_gpt2, 12, 64, _VGG16),
    "ncf": (_ncf, 4, 65536, _VGG16),
}
NAMES = list(_MODELS)


def macs(name: str) -> int:
    """The multiply-adds of all layers for one sample."""
    make, depth, _, _ = _MODELS[name]
    return sum(part[2] for part in make(depth))


def made(name: str) -> list[Layer]:
    """The table of the model `name`, one of NAMES.  No rounding loses any of its time."""
    make, depth, batch, like = _MODELS[name]
    parts = list(make(depth))
    total, of = sum(part[2] for part in parts), like.macs * _BATCH
    forward_ns, backward_ns = (
        ns * (total * batch) // of for ns in (like.forward_ns, like.backward_ns)
    )
    layers: list[Layer] = []
    done, spent = 0, (0, 0)
    for part_name, numel, work in parts:
        done += work
        now = forward_ns * done // total, backward_ns * done // total
        layers.append(Layer(part_name, numel, now[0] - spent[0], now[1] - spent[1]))
        spent = now
    return layers


# ---- CSV ----


def _whole(text: str, most: int) -> int | None:
    """The whole number up to `most` that a field is, or None."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > 20:
        return None
    return int(text) if int(text) <= most else None


def parse(text: str) -> list[Layer]:
    """The table in a CSV file, whose blank and # lines do not count."""
    lines = ((number, line.strip(" \t\r")) for number, line in enumerate(text.split("\n"), 1))
    used = [(n, line.split(",")) for n, line in lines if line and not line.startswith("#")]
    first, head = used[0] if used else (1, [])
    if [name.strip(" \t") for name in head] != HEAD:
        raise ModelError(f"line {first}: expected the columns {','.join(HEAD)}")
    layers: list[Layer] = []
    for number, fields in used[1:]:
        if len(fields) != len(HEAD):
            raise ModelError(f"line {number}: expected 4 fields")
        values = []
        for key, field, most in zip(HEAD[1:], fields[1:], (NUMEL_MAX, NS_MAX, NS_MAX)):
            value = _whole(field.strip(" \t"), most)
            if value is None:
                bound = "2^36" if most == NUMEL_MAX else "an hour"
                raise ModelError(
                    f"line {number}: {key}: expected a whole number of at most {bound}"
                )
            values.append(value)
        if len(layers) == LAYERS_MAX:
            raise ModelError(f"line {number}: too many layers")
        layers.append(Layer(fields[0].strip(" \t")[:NAME_MAX], *values))
    if not layers:
        raise ModelError("expected at least one layer")
    return layers
