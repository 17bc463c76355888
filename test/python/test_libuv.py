# SPDX-License-Identifier: Apache-2.0
"""PyTorch builds without libuv: what `import fanin.torch` sets, and when it says so."""

import os
import subprocess
import sys

import pytest
import torch.distributed as dist
from conftest import ROOT, WAIT_S, free_port

from fanin import _libuv


def stores(monkeypatch, version, problem):
    """As if PyTorch were of this version, and its stores failed so; the list has what they were
    asked for."""
    asked = []

    def store(*args, **options):
        asked.append(options)
        raise RuntimeError(problem)

    monkeypatch.setattr(_libuv.torch, "__version__", version)
    monkeypatch.setattr(dist, "TCPStore", store)
    return asked


WITHOUT = "use_libuv was requested but PyTorch was build without libuv support"
WITH = "Failed to open existing socket. socket: 2147483647, code: -9, name: EBADF"


def test_what_lacks_libuv_is_told_once(monkeypatch, caplog):
    stores(monkeypatch, "2.6.0+debian", WITHOUT)
    env = {}
    _libuv.complete(env)
    _libuv.complete(env)
    assert env == {"USE_LIBUV": "0"}
    assert len(caplog.records) == 1 and "USE_LIBUV=0" in caplog.text


def test_only_rank_0_says_so(monkeypatch, caplog):
    stores(monkeypatch, "2.14.1", WITHOUT)
    env = {"RANK": "1"}
    _libuv.complete(env)
    assert env["USE_LIBUV"] == "0" and not caplog.records


@pytest.mark.parametrize("choice", ["0", "1", ""])
def test_what_the_user_set_stays(monkeypatch, choice):
    asked = stores(monkeypatch, "2.6.0", WITHOUT)
    env = {"USE_LIBUV": choice}
    _libuv.complete(env)
    assert env == {"USE_LIBUV": choice} and not asked


def test_a_build_with_libuv_keeps_it(monkeypatch, caplog):
    asked = stores(monkeypatch, "2.9.1+cu128", WITH)
    env = {}
    _libuv.complete(env)
    assert env == {} and not caplog.records
    assert asked[0]["use_libuv"] and asked[0]["master_listen_fd"] == _libuv.NO_DESCRIPTOR


@pytest.mark.parametrize("version", ["1.13.0a0+debian", "2.3.1"])
def test_older_versions_are_not_asked(monkeypatch, version):
    asked = stores(monkeypatch, version, WITHOUT)
    env = {}
    _libuv.complete(env)
    assert env == {} and not asked


PROGRAM = """
import sys, torch, torch.distributed as dist, fanin.torch
for backend, port in zip(("gloo", "fanin"), sys.argv[1:]):
    dist.init_process_group(backend, init_method="tcp://127.0.0.1:" + port, rank=0, world_size=1)
    ones = torch.ones(3)
    dist.all_reduce(ones)
    assert ones.tolist() == [1, 1, 1]
    dist.destroy_process_group()
"""


def test_groups_are_made_by_the_pytorch_that_is_here():
    env = {name: value for name, value in os.environ.items() if name != "USE_LIBUV"}
    env["PYTHONPATH"] = str(ROOT / "python")
    command = [sys.executable, "-c", PROGRAM, str(free_port()), str(free_port())]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S)
    assert run.returncode == 0, run.stderr
