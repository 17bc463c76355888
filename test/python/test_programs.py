# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch 2's users (program_ranks.py) end with the backend "fanin" as they do with Gloo."""

import pytest
import warm
from conftest import Processes

torch = pytest.importorskip("torch")


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
    "flat": 2,
    "lists": 2,
    "all_to_all": 2,
    "mesh": 4,
    "sharded": 2,
    "tensor_parallel": 2,
    "ddp_mesh": 2,
}


GLOO_FAILS = {  # and with what
    "all_to_all": ["does not support alltoall"],
    "coalescing": ["does not implement startCoalescing"],
}


def came(program, backend):
    """What each rank printed, or how it failed."""
    arguments = {"backend": backend}
    processes = Processes(
        PROGRAMS[program], program, arguments, script="program_ranks.py", kind=Process
    )
    outcome = processes.wait()
    for status, answer, err in outcome:
        assert status == 0 and answer is not None, err
    return [answer for _, answer, _ in outcome], "\n".join(err for _, _, err in outcome)


@pytest.mark.skipif(torch.__version__ < "2", reason="PyTorch 1.13 lacks what the programs use")
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_ends_as_with_gloo(program):
    expected, gloo_err = came(program, "gloo")
    got, err = came(program, "fanin")
    failed = [answer["failed"] for answer in expected if "failed" in answer]
    if failed and any(text in failed[0] for text in GLOO_FAILS.get(program, ())):
        assert not any("failed" in answer for answer in got), err
        pytest.skip(f"Gloo itself fails, fanin works: {failed[0]}")
    assert not failed and got == expected, err + gloo_err
