# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Epochs of training, tests, and the state that a checkpoint keeps."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.nn.functional as F

from . import FAILED, ExampleError, checkpoint
from .comm import Comm
from .data import Images, epoch_order, steps_per_epoch
from .models import MODELS
from .options import Options
from .progress import Progress, say
from .ranks import World

TEST_BATCH = 500
CHECKPOINT_KEYS: dict[str, type] = {
    "settings": dict,
    "comm": list,
    "epoch": int,
    "step": int,
    "losses": list,
    "epochs": list,
    "model": dict,
    "momentum": list,
    "rng": torch.Tensor,
}


class Learner:
    """A model, what communicates for it, and its optimizer."""

    def __init__(self, options: Options, comm: Comm) -> None:
        torch.manual_seed(options.seed)
        self.comm = comm
        self.bare = MODELS[options.model]()
        self.model = comm.wrap(self.bare)
        self.optimizer = torch.optim.SGD(
            self.bare.parameters(), lr=options.lr, momentum=options.momentum
        )

    def gradients(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """Forward and backward; returns the loss of this rank's batch."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(images), labels)
        with self.comm.errors():
            loss.backward()
        return float(loss.item())

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """The same, and a step of the optimizer with the gradients of all ranks."""
        loss = self.gradients(images, labels)
        self.optimizer.step()
        return loss

    def warm_up(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """A backward pass of which nothing is kept.

        DistributedDataParallel divides the parameters into buckets anew after the first one, and
        how they are divided is how sums are rounded.  With this pass a run that goes on from a
        checkpoint has the buckets that the first run had at that step."""
        self.gradients(images, labels)
        self.optimizer.zero_grad(set_to_none=True)

    def momentum(self) -> list[torch.Tensor]:
        """The optimizer's state: one tensor for each parameter, none before the first step."""
        states = [self.optimizer.state[parameter] for parameter in self.bare.parameters()]
        return [state["momentum_buffer"] for state in states if "momentum_buffer" in state]

    def set_momentum(self, tensors: list[torch.Tensor]) -> None:
        """ValueError if they do not fit."""
        parameters = list(self.bare.parameters())
        if [t.shape for t in tensors] != [p.shape for p in parameters]:
            raise ValueError("other shapes of momentum than of parameters")
        for parameter, tensor in zip(parameters, tensors):
            self.optimizer.state[parameter]["momentum_buffer"] = tensor


class Training:
    """What is trained on what, and how far it is."""

    def __init__(
        self, options: Options, world: World, comm: Comm, train: Images, test: Images
    ) -> None:
        self.options, self.world, self.train, self.test = options, world, train, test
        self.steps_per_epoch = steps_per_epoch(len(train), world.size, options.batch)
        self.learner = Learner(options, comm)
        self.epoch = 0
        self.step = 0  # of this epoch
        self.losses: list[float] = []  # one a step, the mean over all ranks
        self.own_losses: list[float] = []  # of this rank, not yet in `losses`
        self.epochs: list[dict[str, float]] = []
        self.step_times_s: list[float] = []
        self.final: dict[str, float] = {}
        self.learner.warm_up(*train.batch(self.order()[0]))
        torch.manual_seed(options.seed + world.rank)

    def order(self) -> torch.Tensor:
        """This rank's images of the epoch: int64 [steps, batch]."""
        return epoch_order(
            len(self.train),
            self.epoch,
            self.options.seed,
            self.world.rank,
            self.world.size,
            self.options.batch,
        )

    @property
    def steps_done(self) -> int:
        """Since the beginning of training, earlier runs included."""
        return self.epoch * self.steps_per_epoch + self.step

    @property
    def stopped(self) -> bool:
        """Whether --steps ends training here."""
        return 0 < self.options.steps <= self.steps_done

    def run(self) -> None:
        """Train until all epochs, or --steps, are done; then test what came out."""
        while self.epoch < self.options.epochs and not self.stopped:
            begin = time.monotonic()
            self.run_steps()
            if self.step == self.steps_per_epoch:
                self.end_epoch(time.monotonic() - begin)
        self.gather_losses()
        self.final = self.epochs[-1] if self.epochs and self.step == 0 else self.tested()
        if self.options.checkpoint:
            self.save(self.options.checkpoint)

    def run_steps(self) -> None:
        """The rest of the epoch, or what --steps leaves of it."""
        title = f"epoch {self.epoch + 1} of {self.options.epochs}"
        progress = Progress(title, self.step, self.steps_per_epoch, self.world.speaks)
        try:
            for index in self.order()[self.step :]:
                if self.stopped:
                    return
                progress.step(self.one_step(index))
                if self.options.checkpoint and self.steps_done % self.options.checkpoint_every == 0:
                    self.save(self.options.checkpoint)
        finally:
            progress.close()

    def one_step(self, index: torch.Tensor) -> float:
        """A batch, and how long it took."""
        begin = time.perf_counter()
        loss = self.learner.step(*self.train.batch(index))
        self.step_times_s.append(time.perf_counter() - begin)
        self.own_losses.append(loss)
        self.step += 1
        return loss

    def end_epoch(self, seconds: float) -> None:
        """Test, say how it went, and go to the next."""
        self.gather_losses()
        losses = self.losses[-self.steps_per_epoch :]
        result = {
            "epoch": self.epoch + 1,
            "train_loss": sum(losses) / len(losses),
            **self.tested(),
            "seconds": seconds,
        }
        self.epochs.append(result)
        self.epoch, self.step = self.epoch + 1, 0
        if self.world.speaks:
            say(
                f"epoch {self.epoch} of {self.options.epochs}: loss {result['train_loss']:.4f}, "
                f"in the test {result['test_loss']:.4f}, accuracy "
                f"{result['accuracy'] * 100:.2f} %, {seconds:.1f} s"
            )

    def gather_losses(self) -> None:
        """From `own_losses` to `losses`."""
        self.losses += [total / self.world.size for total in self.world.sum(self.own_losses)]
        self.own_losses = []

    @torch.no_grad()
    def tested(self) -> dict[str, float]:
        """Loss and accuracy on the test images, of which every rank takes its share."""
        self.learner.bare.eval()
        loss = correct = 0.0
        share = torch.arange(self.world.rank, len(self.test), self.world.size)
        for index in share.split(TEST_BATCH):
            images, labels = self.test.batch(index)
            found = self.learner.bare(images)
            loss += float(F.cross_entropy(found, labels, reduction="sum"))
            correct += float((found.argmax(1) == labels).sum())
        self.learner.bare.train()
        loss, correct = self.world.sum([loss, correct])
        return {"test_loss": loss / len(self.test), "accuracy": correct / len(self.test)}

    # ---- checkpoint ------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What must be the same for going on: another value would train something else."""
        options = self.options
        return {
            "model": options.model,
            "workers": self.world.size,
            "batch": options.batch,
            "lr": options.lr,
            "momentum": options.momentum,
            "seed": options.seed,
            "images": len(self.train),
        }

    def sums(self) -> list[str]:
        """What may change, though not without changing bits."""
        options = self.options
        return [options.comm, options.mode or "native", options.wire or "float32"]

    def save(self, path: str) -> None:
        """Every rank calls it; rank 0 writes."""
        self.gather_losses()
        rng = self.world.gather(torch.get_rng_state())
        problem = ""
        if self.world.speaks:
            facts = {
                "settings": self.settings(),
                "comm": self.sums(),
                "epoch": self.epoch,
                "step": self.step,
                "losses": self.losses,
                "epochs": self.epochs,
            }
            tensors = {
                "model": self.learner.bare.state_dict(),
                "rng": rng,
                "momentum": self.learner.momentum(),
            }
            try:
                checkpoint.write(path, checkpoint.encode(facts, tensors))
            except ExampleError as error:
                problem = str(error)
        problem = self.world.from_first(problem.encode()).decode()
        if problem:
            raise ExampleError(problem, FAILED)

    def resume(self, path: str) -> None:
        """Every rank calls it; rank 0 reads.  Without a file, training starts from the beginning."""
        answer = b""
        if self.world.speaks:
            try:
                data = checkpoint.read(path)
                answer = b"none" if data is None else b"file" + data
            except ExampleError as error:
                answer = b"fail" + str(error).encode()
        answer = self.world.from_first(answer)
        if answer.startswith(b"fail"):
            raise ExampleError(answer[4:].decode())
        if answer.startswith(b"file"):
            self.restore(checkpoint.decode(answer[4:], path, CHECKPOINT_KEYS), path)
        elif self.world.speaks:
            say(f"{path} is not there yet: training starts from the beginning")

    def restore(self, content: checkpoint.Content, path: str) -> None:
        """Be as far as the checkpoint is."""
        differ = checkpoint.differences(self.settings(), content["settings"])
        if differ:
            raise ExampleError(f"{path}: belongs to another training: {differ}")
        try:
            self.learner.bare.load_state_dict(content["model"])
            self.learner.set_momentum(content["momentum"])
            # A copy: PyTorch 2.14 reads a row of a tensor at a wrong place, and crashes.
            torch.set_rng_state(content["rng"][self.world.rank].clone())
        except (RuntimeError, ValueError, KeyError, IndexError, TypeError) as error:
            text = str(error).split("\n")[0]
            raise ExampleError(f"{path}: does not fit this program: {text}") from error
        self.epoch, self.step = content["epoch"], content["step"]
        self.losses, self.epochs = content["losses"], content["epochs"]
        if self.world.speaks:
            other = (
                ""
                if content["comm"] == self.sums()
                else f" (sums were {' '.join(content['comm'])} until now)"
            )
            say(f"Goes on from {path}: step {self.step} of epoch {self.epoch + 1}{other}")
