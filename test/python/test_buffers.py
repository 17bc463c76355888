# SPDX-License-Identifier: Apache-2.0
"""python/fanin/_buffers.py: what memory a tensor gives, and what is refused with which words."""

import array

import numpy
import pytest
import torch

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


def test_torch_problem_says_what_cannot_be_summed():
    assert _buffers.torch_problem(torch.zeros(3)) == ""
    assert _buffers.torch_problem(torch.zeros(3, dtype=torch.float64)) == ""
    assert "int16" in _buffers.torch_problem(torch.zeros(3, dtype=torch.int16))
    assert "wrap" in _buffers.torch_problem(torch.zeros(3, dtype=torch.uint8))
