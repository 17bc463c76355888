# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch 2's users (program_ranks.py) end with the backend "fanin" as they do with Gloo."""

import importlib.util

import pytest
import warm
from conftest import Processes

torch = pytest.importorskip("torch")


NEW = pytest.mark.skipif(torch.__version__ < "2", reason="PyTorch 1.13 lacks what programs use")
COMPILE_S = 1200  # some start a compiler


class Process(warm.Process):
    """One that begins with more of PyTorch imported than other tests need."""

    preload = warm.PRELOAD + [
        "torch.distributed.checkpoint.state_dict",
        "torch.distributed.fsdp",
        "torch.distributed.nn.functional",
        "torch.distributed.optim",
        "torch.distributed.pipelining",
        "torch.distributed.rpc",
        "torch.distributed.tensor.parallel",
        "torch._dynamo",
    ]


PROGRAMS = {  # and ranks
    "names": 2,
    "destroyed": 2,
    "split": 4,
    "barriers": 2,
    "threads": 2,
    "done": 2,
    "waited_twice": 2,
    "functional": 2,
    "flat": 2,
    "lists": 2,
    "all_to_all": 2,
    "coalescing": 2,
    "differentiable": 2,
    "mesh": 4,
    "sharded": 2,
    "tensor_parallel": 2,
    "sequence_parallel": 2,
    "ddp_mesh": 2,
    "fsdp1": 2,
    "fsdp1_state": 2,
    "hybrid": 4,
    "hybrid_groups": 4,
    "fsdp2": 2,
    "fsdp2_hybrid": 4,
    "pipeline": 2,
    "compiled": 2,
    "compiled_ddp": 2,
    "inductor": 2,
    "compiled_ddp_inductor": 2,
    "checkpoint": 2,
    "checkpoint_async": 2,
    "checkpoint_process": 2,
    "from_rank0": 2,
    "rpc": 2,
    "zero": 2,
    "accelerate": 2,
    "trainer": 2,
    "ignite": 2,
}
MODULES = {"accelerate": "accelerate", "trainer": "transformers", "ignite": "ignite"}  # of programs


# No headers of PyTorch or of Python, or no compiler.
NO_INDUCTOR = ("CppCompileError", "InvalidCxxCompiler")
GLOO_FAILS = {  # in some version, and with which of these
    "all_to_all": ["does not support alltoall"],
    "split": [
        "does not support splitting",
        "has no attribute 'split_group'",
        "No device associated with the default pg",  # 2.6 to 2.14
    ],
    "coalescing": ["does not implement startCoalescing"],
    "fsdp2": ["'Stream' object has no attribute 'record_event'"],
    "fsdp2_hybrid": ["'Stream' object has no attribute 'record_event'"],
    "inductor": NO_INDUCTOR,
    "compiled_ddp_inductor": NO_INDUCTOR,
    "checkpoint_process": ["cannot import name 'AsyncCheckpointerType'"],  # before 2.7
    "rpc": ["object.__init__() takes exactly one argument"],  # a build without TensorPipe
}


def came(program, backend, size=0, late_s=0):
    """What each rank printed, or how it failed.  `late_s`: of all ranks but 0."""
    arguments = {"backend": backend, "late_s": late_s}
    size = size or PROGRAMS[program]
    processes = Processes(size, program, arguments, script="program_ranks.py", kind=Process)
    outcome = processes.wait(COMPILE_S)
    for status, answer, err in outcome:
        assert status == 0 and answer is not None, err
    return [answer for _, answer, _ in outcome], "\n".join(err for _, _, err in outcome)


@NEW
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_ends_as_with_gloo(program):
    if importlib.util.find_spec(MODULES.get(program, "torch")) is None:
        pytest.skip(f"{MODULES[program]} is not installed")
    expected, gloo_err = came(program, "gloo")
    got, err = came(program, "fanin")
    failed = [answer["failed"] for answer in expected if "failed" in answer]
    known = [why for why in GLOO_FAILS.get(program, []) if failed and why in failed[0]]
    if known:
        works = not any("failed" in answer for answer in got)
        # one that fails may end before others get there, and take rank 0's store with it
        alike = all("failed" in answer for answer in got)
        assert works or (alike and any(known[0] in answer["failed"] for answer in got)), err
        pytest.skip(f"Gloo fails, fanin {'works' if works else 'fails alike'}: {failed[0]}")
    assert not failed and got == expected, err + gloo_err


@NEW
def test_backends_by_device():
    """Gloo is made for the CPU where a program names it, and what cannot be had is an error."""
    for answer in came("devices", "cpu:gloo,cuda:fanin", 2, late_s=2)[0]:
        assert answer == {"came": ["ProcessGroupGloo", "FaninGroup", [0, 2], [3.0], 0, 0]}
    for answer in came("devices", "cpu:fanin,cuda:gloo", 2)[0]:
        assert answer == {"came": ["FaninGroup", "ProcessGroupGloo", [0, 2], [3.0], 1, 1]}
    if not torch.cuda.is_available():
        for answer in came("devices", "cpu:fanin,cuda:nccl", 2)[0]:
            assert "nccl" in answer["failed"].lower() or "GPU" in answer["failed"]
    for answer in came("devices", "cpu:fanin,cuda:mpi", 2)[0]:
        assert "mpi" in answer["failed"].lower()
