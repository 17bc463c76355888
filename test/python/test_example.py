# SPDX-License-Identifier: Apache-2.0
"""examples/train_fashion_mnist.py: what it says, what it keeps, and how it ends.

Each rank is a process, as a launcher would start it; few images make a run a matter of seconds.
"""

import gzip
import hashlib
import io
import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path

import pytest
import warm
from conftest import ROOT, WAIT_S, free_port

torch = pytest.importorskip("torch")

sys.path.insert(0, str(ROOT / "examples"))
from fashion_mnist import checkpoint, data  # noqa: E402
from fashion_mnist import ExampleError  # noqa: E402

EXAMPLE = ROOT / "examples" / "train_fashion_mnist.py"
FEW = ["--limit", "480", "--test-limit", "200", "--batch", "16", "--lr", "0.02"]
RUN_S = WAIT_S  # the longest that a run may take
POLL_S = 0.02

needs_images = pytest.mark.skipif(
    not Path(data.FOLDER).exists(), reason=f"SKIPPED: no {data.FOLDER} (package {data.PACKAGE})"
)


class Run:
    """The example as `size` processes; `with` ends what is left of them."""

    def __init__(self, folder, size, *arguments):
        self.json = folder / "result.json"
        self.json.unlink(missing_ok=True)
        self.outputs = [folder / f"rank{rank}.txt" for rank in range(size)]
        self.processes = []
        port = str(free_port())
        for rank in range(size):
            env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
            if size > 1:
                env.update(
                    RANK=str(rank),
                    WORLD_SIZE=str(size),
                    LOCAL_RANK=str(rank),
                    LOCAL_WORLD_SIZE=str(size),
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=port,
                )
            command = [str(EXAMPLE), "--json", str(self.json), *map(str, arguments)]
            with open(self.outputs[rank], "wb") as output:
                begun = warm.Process(command, env, output, output)
                self.processes.append(begun)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def wait(self):
        """The exit status of each rank."""
        until = time.monotonic() + RUN_S
        return [process.wait(max(0.1, until - time.monotonic())) for process in self.processes]

    def said(self, rank=0):
        return self.outputs[rank].read_text()

    def result(self):
        return json.loads(self.json.read_text())


def trained(folder, size, *arguments):
    """(the JSON, what rank 0 said) of a run that must end well."""
    with Run(folder, size, *FEW, *arguments) as run:
        assert run.wait() == [0] * len(run.processes), "\n".join(o.read_text() for o in run.outputs)
        return run.result(), run.said()


def refused(folder, *arguments):
    """What a single process says before it ends with exit code 2."""
    with Run(folder, 1, *FEW, *arguments) as run:
        assert run.wait() == [2], run.said()
        assert "Traceback" not in run.said()
        return run.said()


# ---- ways of communication -----------------------------------------------------


@needs_images
def test_fanin_trains_as_gloo_does(tmp_path, switch, job):
    fanin, said = trained(
        tmp_path, 2, "--epochs", 2, "--switch", switch, "--job", job, "--compare", 4
    )
    gloo, _ = trained(tmp_path, 2, "--epochs", 2, "--comm", "gloo")
    assert fanin["aggregation"]["active"] and not gloo["aggregation"]["active"]
    assert "aggregation by a switch: active" in said and switch in said
    assert "identical on all 2 ranks" in said
    assert fanin["identical"] and len(set(fanin["sha256"])) == 1 and len(fanin["sha256"]) == 2
    assert len(fanin["losses"]) == 30
    assert fanin["epochs"][1]["train_loss"] < 0.85 * fanin["epochs"][0]["train_loss"]
    assert fanin["losses"] == pytest.approx(gloo["losses"], rel=1e-3)
    assert [e["epoch"] for e in fanin["epochs"]] == [1, 2]
    assert fanin["final"]["accuracy"] > 0.25
    assert set(fanin["compare"]) == {"fanin", "gloo", "none"}
    assert all(way["steps"] == 4 and way["p50_s"] > 0 for way in fanin["compare"].values())


@needs_images
def test_without_communication_ranks_drift_apart(tmp_path):
    result, said = trained(tmp_path, 2, "--epochs", 1, "--comm", "none")
    assert not result["identical"]
    assert len(set(result["sha256"])) == 2
    assert "drift apart" in said and "as they must be without communication" in said


@needs_images
def test_one_process_needs_no_launcher(tmp_path):
    result, said = trained(tmp_path, 1, "--steps", 2, "--model", "wide")
    assert "one process, nothing to communicate" in said
    assert result["gradient_bytes"] >= 30e6 and result["parameters"] >= 8_000_000


# ---- checkpoints ---------------------------------------------------------------


@needs_images
def test_resumed_run_ends_with_the_same_bits(tmp_path, switch, job):
    """Stopped in the middle of the second epoch.  Three ranks: two cannot add in another order."""
    arguments = ["--epochs", 2, "--switch", switch, "--job", job, "--mode", "fixed"]
    whole, _ = trained(tmp_path, 3, *arguments)
    parts = [*arguments, "--checkpoint", tmp_path / "state", "--checkpoint-every", 4, "--resume"]
    _, said = trained(tmp_path, 3, *parts, "--steps", 13)
    assert "is not there yet" in said
    last, said = trained(tmp_path, 3, *parts)
    assert "step 3 of epoch 2" in said
    assert whole["steps"] == last["steps"] == 20
    assert last["losses"] == whole["losses"]
    assert last["sha256"] == whole["sha256"]
    assert last["final"]["accuracy"] == whole["final"]["accuracy"]


@needs_images
def test_lost_rank_is_named_and_training_goes_on_from_the_checkpoint(tmp_path, switch, job):
    state = tmp_path / "state"
    arguments = [
        "--epochs",
        40,
        "--switch",
        switch,
        "--job",
        job,
        "--alive",
        5,
        "--wire",
        "float16",
        "--timeout",
        RUN_S,
        "--checkpoint",
        state,
        "--checkpoint-every",
        5,
    ]
    with Run(tmp_path, 2, *FEW, *arguments) as run:
        until = time.monotonic() + RUN_S
        while not state.exists() and time.monotonic() < until:
            time.sleep(POLL_S)
        assert state.exists(), run.said()
        run.processes[1].kill()
        assert run.wait() == [1, -signal.SIGKILL]
        said = run.said()
        assert "Traceback" not in said
        last = said.strip().splitlines()[-1]
        # Either way of finding out; a sum over all ranks goes through Gloo, which knows no ranks.
        assert "rank 1" in last or "a rank was lost" in last
        assert "--resume goes on from" in last
    steps = 5 + checkpoint.decode(state.read_bytes(), "state", {"step": int})["step"]
    epoch = checkpoint.decode(state.read_bytes(), "state", {"epoch": int})["epoch"]
    result, said = trained(tmp_path, 2, *arguments, "--resume", "--steps", epoch * 15 + steps)
    assert "Goes on from" in said and result["identical"]


@needs_images
def test_checkpoint_of_another_training(tmp_path):
    state = tmp_path / "state"
    trained(tmp_path, 1, "--steps", 1, "--checkpoint", state)
    said = refused(tmp_path, "--steps", 2, "--checkpoint", state, "--resume", "--lr", 0.2)
    assert "lr is 0.2 here and 0.02 there" in said
    whole = state.read_bytes()
    state.write_bytes(whole[:-1000] + bytes([whole[-1000] ^ 1]) + whole[-999:])
    said = refused(tmp_path, "--steps", 2, "--checkpoint", state, "--resume")
    assert "damaged" in said and str(state) in said


def test_checkpoint__what_goes_in_comes_out():
    tensors = {"momentum": [torch.ones(3)], "model": {"weight": torch.arange(4.0)}}
    content = checkpoint.decode(
        checkpoint.encode({"step": 3, "lr": 0.1}, tensors),
        "x",
        {"step": int, "lr": float, "model": dict, "momentum": list},
    )
    assert content["step"] == 3 and content["lr"] == 0.1
    assert content["model"]["weight"].tolist() == [0, 1, 2, 3]


def sealed(payload):
    digest = hashlib.sha256(payload).hexdigest().encode()
    return checkpoint.MAGIC + digest + b"\n" + payload


class Harmful:
    """Its pickle runs code when it is loaded."""

    def __reduce__(self):
        return (exec, ("import os; os.environ['TEST_EXAMPLE_HARMED'] = 'yes'",))


def saved(content):
    held = io.BytesIO()
    torch.save(content, held)
    return held.getvalue()


GOOD = checkpoint.encode({"step": 3}, {"model": {}})
BAD = {
    "empty": b"",
    "foreign": b"PK\x03\x04" + bytes(500),
    "cut": GOOD[:-9],
    "head alone": GOOD[:80],
    "bit": GOOD[:200] + bytes([GOOD[200] ^ 16]) + GOOD[201:],
    "no key": checkpoint.encode({"other": 3}, {}),
    "type": checkpoint.encode({"step": "3"}, {}),
    "no JSON": sealed(b"[\n"),
    "no tensors": sealed(b"{}\n"),
    "list": sealed(b"[1]\n"),
    "code": sealed(b"{}\n" + saved({"step": Harmful()})),
    "bare code": sealed(b"{}\n" + pickle.dumps(Harmful())),
}


@pytest.mark.parametrize("name", BAD)
def test_checkpoint__bad_file_is_refused(name):
    with pytest.raises(ExampleError, match="^state: "):
        checkpoint.decode(BAD[name], "state", {"step": int})
    assert "TEST_EXAMPLE_HARMED" not in os.environ


def test_checkpoint__failed_write_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "state"
    checkpoint.write(str(path), b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExampleError, match="No space left"):
        checkpoint.write(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


# ---- data and options ----------------------------------------------------------


def test_missing_data_names_the_package(tmp_path):
    said = refused(tmp_path, "--data", tmp_path)
    assert "train-images-idx3-ubyte.gz: no such file" in said
    assert "apt-get install dataset-fashion-mnist" in said


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--epochs", "0"], 'argument --epochs: "0": expected a number from 1 to 1000'),
        (["--lr", "nan"], 'argument --lr: "nan": expected a number above 0'),
        (["--resume"], "--resume: expected --checkpoint FILE as well"),
        (["--comm", "none", "--checkpoint", "x"], "--checkpoint: not with --comm none"),
    ],
)
def test_wrong_options(tmp_path, arguments, text):
    assert text in refused(tmp_path, *arguments)


@needs_images
def test_too_few_images(tmp_path):
    assert "15 images are not enough for one step" in refused(tmp_path, "--limit", 15)


IDX = bytes.fromhex("00000803" "00000002" "00000002" "00000001") + b"abcd"
BAD_IDX = {
    "magic": (b"\1" + IDX[1:], "starts with 01"),
    "size": (IDX[:7] + b"\3" + IDX[8:], "starts with"),
    "short": (IDX[:-1], "expected 20 bytes when unpacked, found 19"),
    "long": (IDX + b"e", "expected 20 bytes when unpacked, found more"),
    "empty": (b"", "nothing"),
}


def test_idx__good_file(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(IDX))
    assert data.read_idx(path, data.MAGIC_IMAGES, (2, 2, 1)).tolist() == [
        [[97], [98]],
        [[99], [100]],
    ]


@pytest.mark.parametrize("name", BAD_IDX)
def test_idx__bad_content(tmp_path, name):
    content, text = BAD_IDX[name]
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ExampleError, match=text):
        data.read_idx(path, data.MAGIC_IMAGES, (2, 2, 1))


@pytest.mark.parametrize("spoil", [lambda b: b[:-10], lambda b: b"x" + b, lambda b: b[:12] + b"zz"])
def test_idx__bad_gzip(tmp_path, spoil):
    path = tmp_path / "images.gz"
    path.write_bytes(spoil(gzip.compress(IDX)))
    with pytest.raises(ExampleError, match="cannot be read .* --reinstall dataset-fashion-mnist"):
        data.read_idx(path, data.MAGIC_IMAGES, (2, 2, 1))


def test_order__every_image_once_and_the_same_on_every_run():
    shares = [data.epoch_order(1000, 0, 7, rank, 4, 30) for rank in range(4)]
    assert all(tuple(share.shape) == (8, 30) for share in shares)
    images = torch.cat([share.flatten() for share in shares])
    assert len(set(images.tolist())) == 960 and int(images.min()) >= 0 and int(images.max()) < 1000
    assert torch.equal(data.epoch_order(1000, 0, 7, 2, 4, 30), shares[2])
    assert not torch.equal(data.epoch_order(1000, 1, 7, 2, 4, 30), shares[2])
    assert not torch.equal(data.epoch_order(1000, 0, 8, 2, 4, 30), shares[2])
