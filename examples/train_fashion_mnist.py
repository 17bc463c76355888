#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small network on Fashion-MNIST, data-parallel, with its gradients summed by fanin.

    torchrun --standalone --nproc_per_node=4 examples/train_fashion_mnist.py --comm fanin

--help tells the rest; README.md beside this file has examples.  Exit code 0: trained, and all
ranks hold the same parameters (with --comm none they cannot); 1: they differ, or a rank or the
switch was lost; 2: wrong options, data or checkpoint.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

from fashion_mnist import compute_threads  # first: it tells libraries how many threads to use

import torch

from fashion_mnist import FAILED, ExampleError, LostError, data, options as command_line, report
from fashion_mnist.comm import Comm, connect
from fashion_mnist.compare import compare
from fashion_mnist.models import parameter_count
from fashion_mnist.options import Options
from fashion_mnist.progress import say
from fashion_mnist.ranks import World
from fashion_mnist.training import Training

NAME = "train_fashion_mnist"
WARM_STEPS = 5  # at the beginning of training, not in the step time
INTERRUPTED = 130


def load(options: Options, world: World) -> tuple[data.Images, data.Images]:
    """Training and test images."""
    train = data.load(options.data, "train", data.TRAIN).head(options.limit)
    test = data.load(options.data, "t10k", data.TEST).head(options.test_limit)
    if data.steps_per_epoch(len(train), world.size, options.batch) == 0:
        raise ExampleError(
            f"{len(train)} images are not enough for one step of {world.size} "
            f"workers with {options.batch} each; expected a smaller --batch or a "
            f"larger --limit"
        )
    return train, test


def introduce(options: Options, world: World, comm: Comm) -> None:
    """Who trains, and who sums."""
    if not world.speaks:
        return
    ranks = f"{world.size} workers" if world.size > 1 else "one process, nothing to communicate"
    say(f"Fashion-MNIST, model {options.model}: {ranks}, {torch.get_num_threads()} thread(s) each")
    facts = comm.facts()
    if facts["comm"] == "fanin":
        say(
            "aggregation by a switch: "
            + ("active" if facts["active"] else f"not active: {facts['reason']}")
        )
    elif world.size > 1:
        say(f"aggregation by a switch: not active: {facts['reason']}")
        if comm.name == "none":
            say(
                "nothing is communicated: parameters drift apart, and what is tested differs from "
                "rank to rank"
            )


def finish(training: Training, world: World, comm: Comm) -> dict[str, Any]:
    """What every rank finds out together at the end."""
    digests = world.digests(training.learner.bare)
    count = parameter_count(training.learner.bare)
    return {
        "workers": world.size,
        "parameters": count,
        "gradient_bytes": 4 * count,
        "losses": training.losses,
        "epochs": training.epochs,
        "final": training.final,
        "steps": training.steps_done,
        "step_time": report.step_time(world, training.step_times_s[WARM_STEPS:]),
        "sha256": digests,
        "identical": len(set(digests)) == 1,
        "aggregation": comm.facts(),
    }


def conclude(results: dict[str, Any], world: World, comm: Comm) -> int:
    """Say it; returns the exit code."""
    timing = results["step_time"]
    if timing["steps"]:
        say(
            f"step time: {timing['p50_s'] * 1e3:.1f} ms median, {timing['mean_s'] * 1e3:.1f} ms "
            f"mean, of {timing['steps']} steps"
        )
    say(f"test accuracy: {results['final']['accuracy'] * 100:.2f} %")
    if results["aggregation"]["summary"]:
        say(results["aggregation"]["summary"])
    if world.size == 1:
        return 0
    if results["identical"]:
        say(
            f"parameters: identical on all {world.size} ranks, SHA-256 "
            f"{results['sha256'][0][:16]}..."
        )
        return 0
    if comm.name == "none":
        say("parameters: different on the ranks, as they must be without communication")
        return 0
    say("parameters: NOT IDENTICAL; please report this with the following:")
    for rank, digest in enumerate(results["sha256"]):
        say(f"  rank {rank}: {digest}")
    return FAILED


def work(options: Options, world: World) -> int:
    """All of it; returns the exit code."""
    torch.set_num_threads(compute_threads())
    train, test = load(options, world)
    world.join()
    comm = connect(options.comm, world, options)
    introduce(options, world, comm)
    compared = compare(options, world, comm, train) if options.compare and world.size > 1 else {}
    training = Training(options, world, comm, train, test)
    if options.resume and options.checkpoint:
        training.resume(options.checkpoint)
    training.run()
    results = {**finish(training, world, comm), "compare": compared}
    code = conclude(results, world, comm) if world.speaks else 0
    if options.json and world.speaks:
        report.write(options.json, options, results)
    code = int(world.from_first(str(code).encode()))
    comm.close()
    return code


def hint(options: Options) -> str:
    """How to save what can be saved."""
    if options.checkpoint and Path(options.checkpoint).exists():
        return f"; the same command with --resume goes on from {options.checkpoint}"
    return ""


def complain(text: str) -> None:
    """One line to stderr, in one go: other ranks write there, too."""
    line = f"{NAME}: rank {os.environ.get('RANK', '0')}: {text}\n"
    os.write(sys.stderr.fileno(), line.encode())


def run(options: Options) -> int:
    """Work, and say what went wrong; returns the exit code."""
    try:
        return work(options, World())
    except LostError as error:
        complain(f"{error}{hint(options)}")
        return error.exit_code
    except ExampleError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        return FAILED


def leave(code: int) -> None:
    """End this process without the interpreter's clean-up.

    When a rank is dead, the process group's threads wait for it.  And when none is, PyTorch 1.13
    may deadlock: DistributedDataParallel's destructor waits for Gloo's threads while it holds the
    interpreter's lock, which these need for the last tensors that they let go."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(run(command_line.parse()))
