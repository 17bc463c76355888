# SPDX-License-Identifier: Apache-2.0
"""python/fanin/_buffers.py: what memory a tensor gives, and what is refused with which words."""

import array
import ctypes
import mmap

import numpy
import pytest
import torch
from conftest import ranks

from fanin import _buffers


@pytest.mark.parametrize(
    "name, code", [("float32", 0), ("float16", 1), ("bfloat16", 2), ("int32", 3), ("int64", 4)]
)
def test_torch_types(name, code):
    tensor = torch.zeros(3, 5, dtype=getattr(torch, name))
    memory = _buffers.memory(tensor)
    assert (memory.address, memory.elems, memory.dtype) == (tensor.data_ptr(), 15, code)
    assert memory.owner is tensor


@pytest.mark.parametrize(
    "name, code", [("float32", 0), ("float16", 1), ("int32", 3), ("int64", 4), ("uint8", 7)]
)
def test_numpy_types(name, code):
    values = numpy.zeros((2, 3), name)
    memory = _buffers.memory(values)
    assert (memory.address, memory.elems, memory.dtype) == (values.ctypes.data, 6, code)


@pytest.mark.parametrize("letter, code", [("f", 0), ("i", 3), ("q", 4), ("B", 7)])
def test_buffers(letter, code):
    values = array.array(letter, [1, 2, 3])
    memory = _buffers.memory(values)
    assert (memory.address, memory.elems, memory.dtype) == (values.buffer_info()[0], 3, code)


@pytest.mark.parametrize(
    "kind, code",
    [(ctypes.c_float, 0), (ctypes.c_double, 8), (ctypes.c_int32, 3), (ctypes.c_int64, 4)],
)
def test_arrays_of_ctypes(kind, code):
    values = (kind * 3)(1, 2, 3)
    memory = _buffers.memory(values)
    assert (memory.address, memory.elems, memory.dtype) == (ctypes.addressof(values), 3, code)


def test_a_view_of_a_tensor_is_the_same_memory():
    base = torch.zeros(10)
    assert _buffers.memory(base[4:8]).address == base.data_ptr() + 16


@pytest.mark.parametrize("empty", [torch.zeros(0), numpy.zeros(0, "float32"), array.array("f")])
def test_empty(empty):
    assert _buffers.memory(empty).elems == 0


@pytest.mark.parametrize(
    "tensor, error, words",
    [
        (torch.zeros(4, 4).t(), ValueError, "not contiguous"),
        (torch.zeros(10)[::2], ValueError, "not contiguous"),
        (torch._neg_view(torch.ones(4)), ValueError, "not contiguous"),
        (torch.zeros(3, dtype=torch.int16), TypeError, "int16: expected float64"),
        (torch.zeros(3, dtype=torch.bool), TypeError, "bool"),
        (torch.zeros(3, dtype=torch.complex64), TypeError, "complex64"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), TypeError, "qint8"),
        (torch.eye(3).to_sparse(), TypeError, "sparse_coo: expected a dense one"),
        (torch.eye(3).to_sparse_csr(), TypeError, "sparse_csr"),
        (torch.zeros(3, device="meta"), TypeError, "on meta: expected one on the CPU"),
        (numpy.zeros((4, 4), "float32").T, ValueError, "not contiguous"),
        (numpy.zeros(3, "int16"), TypeError, "int16"),
        (numpy.zeros(3, ">f4"), TypeError, "byte order"),
        (numpy.zeros(3, "O"), TypeError, "object"),
        (numpy.float32(1), (TypeError, ValueError), ""),
        (b"abcd", ValueError, "read-only"),
        (memoryview(bytearray(8))[::2], ValueError, "not contiguous"),
        ((ctypes.c_float.__ctype_be__ * 2)(), TypeError, "format '>f'"),
        (array.array("h", [1]), TypeError, "format 'h'"),
        ([1.0, 2.0], TypeError, "list: expected a PyTorch tensor"),
        (None, TypeError, "NoneType"),
        (3, TypeError, "int"),
        ("text", TypeError, "str"),
    ],
)
def test_refused(tensor, error, words):
    with pytest.raises(error, match=words):
        _buffers.memory(tensor)


def test_read_only_memory_may_be_a_source():
    values = numpy.zeros(3, "float32")
    values.flags.writeable = False
    assert _buffers.memory(values, writable=False).elems == 3
    with pytest.raises(ValueError, match="read-only"):
        _buffers.memory(values)


class Immutable:
    """As JAX's of bfloat16: no buffer, and numpy gets one that is read-only."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        view = self._values[:]
        view.flags.writeable = False
        return view


class Shared(Immutable):
    """As mlx's."""

    __module__ = "mlx.core"


@pytest.mark.parametrize("kind, words", [(Immutable, "read-only.*out="), (Shared, "out=")])
def test_arrays_that_are_values_are_sources_alone(kind, words):
    values = numpy.ones(3, "float32")
    assert _buffers.memory(kind(values), writable=False).address == values.ctypes.data
    with pytest.raises(ValueError, match=words):
        _buffers.memory(kind(values))


@pytest.mark.parametrize("source", [bytes(8), memoryview(bytearray(8)).toreadonly()])
def test_a_read_only_buffer_is_held(source, monkeypatch):
    # what another package sets for itself is the whole process's
    monkeypatch.setattr(ctypes.pythonapi.PyObject_GetBuffer, "argtypes", [ctypes.c_char_p] * 3)
    memory = _buffers.memory(memoryview(source).cast("f"), writable=False)
    assert (memory.elems, memory.dtype) == (2, 0)
    assert memory.address == numpy.frombuffer(source, "uint8").ctypes.data


class Interface:
    """An array by numpy's dictionary alone."""

    def __init__(self, values):
        self.__array_interface__ = values.__array_interface__
        self.values = values


class Exported:
    """An array by DLPack alone."""

    def __init__(self, values, device=(1, 0)):
        self.values, self.device = values, device

    def __dlpack__(self, **more):
        return self.values.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("kind", [Interface, Exported])
def test_arrays_of_others_are_taken_where_they_are(kind):
    values = numpy.arange(6, dtype=numpy.float32)
    source = _buffers.memory(kind(values), writable=False)
    assert (source.address, source.elems, source.dtype) == (values.ctypes.data, 6, 0)
    values.setflags(write=False)
    if kind is Interface:
        with pytest.raises(ValueError, match="read-only"):
            _buffers.memory(kind(values))


def test_a_target_by_the_array_interface_is_written_where_it_is():
    values = numpy.zeros(6, numpy.float32)
    assert _buffers.memory(Interface(values)).address == values.ctypes.data


@pytest.mark.parametrize("other", [Exported(numpy.zeros(2, numpy.float32), (2, 0)), Exported(None),
                                   Interface(numpy.zeros(2, "S4"))])  # fmt: skip
def test_arrays_of_others_that_cannot_be_used_are_refused(other):
    with pytest.raises(TypeError, match="expected"):
        _buffers.memory(other, writable=False)


def test_sums_of_bytes_are_refused_and_copies_are_not():
    values = numpy.ones(4, "uint8")
    assert _buffers.shares(values[:2], values, 2, True)[0].dtype == _buffers.UINT8
    with pytest.raises(TypeError, match="uint8: sums of them would wrap"):
        _buffers.pair(values, values)


@pytest.mark.parametrize("local", ["0", "1"])
@pytest.mark.parametrize("options", [{}, {"mode": "fixed"}, {"wire": "int8"}])
def test_sources_may_be_memory_that_nobody_can_write(switch, job, monkeypatch, local, options):
    """A write would end the process."""
    monkeypatch.setenv("FANIN_LOCAL", local)
    monkeypatch.setenv("FANIN_HOSTS", "0")
    elems = 4 * mmap.PAGESIZE

    def work(comm):
        source = memoryview(mmap.mmap(-1, 4 * elems, prot=mmap.PROT_READ)).cast("f")
        assert source.readonly
        whole, half = numpy.ones(2 * elems, "float32"), numpy.ones(elems // 2, "float32")
        summed, root = whole[:elems].copy(), whole[:elems].copy()
        for result in (
            comm.allreduce(source, out=summed),
            comm.reduce(source, out=root),
            comm.reduce_scatter(source, half),
            comm.allgather(source, whole),
            comm.broadcast(source if comm.rank == 1 else summed, root=1),
        ):
            assert result is root and comm.rank or not numpy.any(result)
        return True

    assert ranks(2, work, switch=switch, job=job, **options) == [True, True]


def test_torch_problem_says_what_cannot_be_summed():
    assert _buffers.torch_problem(torch.zeros(3)) == ""
    assert _buffers.torch_problem(torch.zeros(3, dtype=torch.float64)) == ""
    assert "int16" in _buffers.torch_problem(torch.zeros(3, dtype=torch.int16))
    assert "wrap" in _buffers.torch_problem(torch.zeros(3, dtype=torch.uint8))
