# SPDX-License-Identifier: Apache-2.0
"""The command line of train_fashion_mnist.py."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .data import FOLDER, TRAIN

COMMS = ("fanin", "gloo", "none")
MODES = ("native", "fixed")
WIRES = ("float32", "float16", "bfloat16", "int8")
MODELS = ("cnn", "wide")
DIGITS_MAX = 12

TEXT = """Train a small network on Fashion-MNIST, data-parallel.

  torchrun --standalone --nproc_per_node=4 train_fashion_mnist.py --comm fanin

Without --switch and FANIN_SWITCH, rank 0 starts a switch of its own.  Without a launcher this is
one process that communicates with no one."""


@dataclass(frozen=True)
class Options:
    """What was asked for.  None: not given, so the environment or the library decides."""

    comm: str
    mode: str | None
    wire: str | None
    switch: str | None
    job: str | None
    timeout: float | None
    alive: float | None
    model: str
    epochs: int
    batch: int
    lr: float
    momentum: float
    seed: int
    steps: int
    limit: int
    test_limit: int
    compare: int
    data: str
    checkpoint: str | None
    checkpoint_every: int
    resume: bool
    json: str | None


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < DIGITS_MAX else -1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'"{text}": expected a number from {least} to {most}')
        return value

    return parse


def _real(most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(
                f'"{text}": expected a number above 0, at most {most:g}'
            )
        return value

    return parse


def _gradients(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how gradients are summed")
    group.add_argument(
        "--comm",
        choices=COMMS,
        default="fanin",
        help="none: not at all, so ranks drift apart; shows what communication " "costs (fanin)",
    )
    group.add_argument(
        "--mode", choices=MODES, help="fixed: the same bits on every run, too (native)"
    )
    group.add_argument("--wire", choices=WIRES, help="what a float32 gradient travels as (float32)")
    group.add_argument("--switch", metavar="ADDR:PORT", help="where `fanin switch` listens")
    group.add_argument("--job", metavar="NAME", help="one name for all ranks of this run")
    group.add_argument(
        "--timeout",
        metavar="S",
        type=_real(3600),
        help="how long to wait for a rank that does not take part (30)",
    )
    group.add_argument(
        "--alive", metavar="S", type=_real(3600), help="how long until a silent rank is lost (10)"
    )


def _training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument(
        "--model",
        choices=MODELS,
        default="cnn",
        help="wide: 34.9 MB of gradients, little to compute (cnn)",
    )
    group.add_argument("--epochs", metavar="N", type=_number(1, 1000), default=3, help="(3)")
    group.add_argument(
        "--batch",
        metavar="N",
        type=_number(1, TRAIN),
        default=64,
        help="images of one step on each rank (64)",
    )
    group.add_argument(
        "--lr", metavar="X", type=_real(10), default=0.05, help="learning rate (0.05)"
    )
    group.add_argument("--momentum", metavar="X", type=_real(1), default=0.9, help="(0.9)")
    group.add_argument("--seed", metavar="N", type=_number(0, 2**31 - 1), default=1, help="(1)")
    group.add_argument(
        "--steps",
        metavar="N",
        type=_number(1, 10**6),
        default=0,
        help="stop after so many steps of training",
    )
    group.add_argument(
        "--limit",
        metavar="N",
        type=_number(1, TRAIN),
        default=0,
        help="train on the first N images only",
    )
    group.add_argument(
        "--test-limit",
        metavar="N",
        type=_number(1, 10000),
        default=0,
        help="test on the first N images only",
    )
    group.add_argument(
        "--compare",
        metavar="N",
        type=_number(1, 10000),
        default=0,
        help="before training, time N steps with each way of communication, in turns",
    )


def _files(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("files")
    group.add_argument(
        "--data",
        metavar="DIR",
        default=FOLDER,
        help=f"the images ({FOLDER}, of the package dataset-fashion-mnist)",
    )
    group.add_argument("--checkpoint", metavar="FILE", help="where rank 0 keeps the state")
    group.add_argument(
        "--checkpoint-every",
        metavar="N",
        type=_number(1, 10**6),
        default=100,
        help="steps from one to the next; there is always one at the end (100)",
    )
    group.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint, if it is there"
    )
    group.add_argument("--json", metavar="FILE", help="where rank 0 writes all about the run")


def parse(argv: list[str] | None = None) -> Options:
    """Ends the program with exit code 2 when something is wrong."""
    parser = argparse.ArgumentParser(
        description=TEXT, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _gradients(parser)
    _training(parser)
    _files(parser)
    given: dict[str, Any] = vars(parser.parse_args(argv))
    options = Options(**given)
    if options.resume and not options.checkpoint:
        parser.error("--resume: expected --checkpoint FILE as well")
    if options.checkpoint and options.comm == "none":
        parser.error("--checkpoint: not with --comm none, whose ranks have no state in common")
    return options
