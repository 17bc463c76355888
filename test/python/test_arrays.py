# SPDX-License-Identifier: Apache-2.0
"""Arrays of other packages, by the table of doc/pytorch.md: what is summed where, and what stays as it was.

A package that is not there is skipped; all of them:

    pip install ml_dtypes 'jax[cpu]' 'mlx[cpu]' paddlepaddle pyarrow tinygrad
"""

import array
import ctypes

import numpy
import pytest
from conftest import ranks

VALUES = [1.0, 2.0, 3.0, 4.0]


def bfloat16(values):
    return numpy.array(values, pytest.importorskip("ml_dtypes").bfloat16)


def jax(values, dtype):
    found = pytest.importorskip("jax").numpy
    return found.array(values, getattr(found, dtype))


def mlx(values, dtype):
    found = pytest.importorskip("mlx.core")
    found.set_default_device(found.cpu)
    made = found.array(values, getattr(found, dtype))
    found.eval(made)
    return made


def paddle(values):
    return pytest.importorskip("paddle").to_tensor(values, "float32")


def paddle_bfloat16(values):
    made = pytest.importorskip("paddle").to_tensor(values).astype("bfloat16")
    return made.numpy().view(pytest.importorskip("ml_dtypes").bfloat16)


def arrow(values):
    return pytest.importorskip("pyarrow").array(values, "float32")


def arrow_tensor(values):
    made = numpy.array(values, "float32")
    return pytest.importorskip("pyarrow").Tensor.from_numpy(made)


def tinygrad(values):
    return pytest.importorskip("tinygrad").Tensor(values, device="CPU").data()


WRITTEN = {
    "numpy": lambda values: numpy.array(values, "float32"),
    "ml_dtypes bfloat16": bfloat16,
    "array": lambda values: array.array("f", values),
    "ctypes": lambda values: (ctypes.c_float * len(values))(*values),
    "pyarrow.Tensor": arrow_tensor,
    "paddle": paddle,
    "paddle bfloat16": paddle_bfloat16,
}
READ = {
    "jax": lambda values: jax(values, "float32"),
    "jax bfloat16": lambda values: jax(values, "bfloat16"),
    "mlx": lambda values: mlx(values, "float32"),
    "mlx bfloat16": lambda values: mlx(values, "bfloat16"),
    "pyarrow.Array": arrow,
    "tinygrad": tinygrad,
}


def values_of(made):
    """As Python's numbers."""
    if hasattr(made, "to_numpy"):
        made = made.to_numpy()
    return [float(value) for value in getattr(made, "tolist", lambda: list(made))()]


def room(name):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if "bfloat16" in name else "float32"
    return numpy.zeros(len(VALUES), dtype)


@pytest.mark.parametrize("name", [*WRITTEN, *READ])
def test_sources(switch, job, name):
    make = {**WRITTEN, **READ}[name]
    make(VALUES)

    def work(comm):
        own = [value * (comm.rank + 1) for value in VALUES]
        source = make(own)
        total = comm.allreduce(source, out=room(name))
        return values_of(total), values_of(source) == own

    assert ranks(2, work, switch=switch, job=job) == [([3.0, 6.0, 9.0, 12.0], True)] * 2


@pytest.mark.parametrize("name", WRITTEN)
def test_sums_in_place(switch, job, name):
    WRITTEN[name](VALUES)

    def work(comm):
        made = WRITTEN[name]([value * (comm.rank + 1) for value in VALUES])
        comm.allreduce(made)
        return values_of(made)

    assert ranks(2, work, switch=switch, job=job) == [[3.0, 6.0, 9.0, 12.0]] * 2


@pytest.mark.parametrize("name", [name for name in READ if name != "tinygrad"])  # data() is a copy
def test_arrays_that_are_no_place_say_the_way(switch, job, name):
    READ[name](VALUES)

    def work(comm):
        made, source = READ[name](VALUES), room(name)
        for arguments in ({"tensor": made}, {"tensor": source, "out": made}):
            with pytest.raises(ValueError, match="out="):
                comm.allreduce(**arguments)
        return values_of(made)

    assert ranks(2, work, switch=switch, job=job) == [VALUES] * 2
