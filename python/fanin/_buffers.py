# SPDX-License-Identifier: Apache-2.0
"""Memory that the library may read and write: address, elements and type of a tensor, without a copy.

PyTorch tensors, numpy arrays and everything with a buffer are taken, and where numpy is loaded what has
__array_interface__ or DLPack on the CPU; read-only ones where nothing is written.  Neither PyTorch nor numpy is imported here: whoever passes a tensor has done so.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, UINT8, FLOAT64 = 0, 1, 2, 3, 4, 7, 8  # enum fanin_dtype

_NAMES = {
    "float32": FLOAT32,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
    "int32": INT32,
    "int64": INT64,
    "float64": FLOAT64,
    "uint8": UINT8,
}

NAME_OF = {code: name for name, code in _NAMES.items()}
SIZES = {FLOAT64: 8, FLOAT32: 4, FLOAT16: 2, BFLOAT16: 2, INT32: 4, INT64: 8, UINT8: 1}  # bytes

# Format characters of the buffer protocol, with sizes since those of C differ between machines.
_FORMATS = {
    ("d", 8): FLOAT64,
    ("f", 4): FLOAT32,
    ("e", 2): FLOAT16,
    ("i", 4): INT32,
    ("l", 4): INT32,
    ("l", 8): INT64,
    ("q", 8): INT64,
    ("B", 1): UINT8,
    ("bfloat16", 2): BFLOAT16,  # mlx's
}
_DLPACK_CPU = 1  # DLDeviceType
_NATIVE = "@=<" if sys.byteorder == "little" else "@=>"  # marks of this machine's byte order

EXPECTED = "float64, float32, float16, bfloat16, int32 or int64 (and uint8 for broadcasts)"
_NO_PLACE = "{} is read-only: the result needs a writable one, such as a numpy array (out=)"


class Memory(NamedTuple):
    """A tensor's memory; `owner` is kept while the library uses it."""

    address: int
    elems: int
    dtype: int
    owner: Any


_codes: dict[Any, int] = {}  # by types of PyTorch that have been seen
_NOT_SUMMED = (-1, UINT8)
_NOT_AVERAGED = (-1, UINT8, INT32, INT64)


def _code_of(dtype: Any) -> int:
    """Of a type of PyTorch; -1: the library has none."""
    code = _codes.get(dtype)
    if code is None:
        code = _codes[dtype] = _NAMES.get(str(dtype).partition(".")[2], -1)
    return code


def _torch_problem(tensor: Any, torch: Any) -> Exception | None:
    """Why the library cannot use a PyTorch tensor."""
    if tensor.layout != torch.strided:
        return TypeError(f"tensor of layout {tensor.layout}: expected a dense one; use to_dense()")
    if not tensor.is_cpu:
        return TypeError(f"tensor on {tensor.device}: expected one on the CPU; use cpu()")
    if _code_of(tensor.dtype) < 0:
        return TypeError(f"tensor of {tensor.dtype}: expected {EXPECTED}")
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
        return ValueError(
            f"tensor of shape {tuple(tensor.shape)} is not contiguous: use contiguous()"
        )
    return None


def _of_torch(tensor: Any, torch: Any) -> Memory:
    problem = _torch_problem(tensor, torch)
    if problem is not None:
        raise problem
    dtype = _code_of(tensor.dtype)
    count = int(tensor.numel())
    try:
        address = int(tensor.data_ptr())
    except RuntimeError as error:
        raise TypeError(f"tensor without memory of its own: {error}") from None
    if count and not address:
        raise TypeError("tensor without memory: expected one on the CPU")
    return Memory(address, count, dtype, tensor)


def summed_in_place(tensor: Any, average: bool) -> Memory | None:
    """The memory of a PyTorch tensor that the library can sum, or average, where it is, without a look at
    why not."""
    code = _code_of(tensor.dtype)
    if code in (_NOT_AVERAGED if average else _NOT_SUMMED) or not tensor.is_cpu:
        return None
    if tensor.layout != sys.modules["torch"].strided or not tensor.is_contiguous():
        return None
    try:
        address = 0 if tensor.is_neg() else tensor.data_ptr()
    except RuntimeError:  # without memory of its own
        return None
    return Memory(address, tensor.numel(), code, tensor) if address else None


def _of_numpy(array: Any, writable: bool) -> Memory:
    if array.dtype.name not in _NAMES:
        raise TypeError(f"array of {array.dtype}: expected {EXPECTED}")
    if not array.dtype.isnative:
        raise TypeError(f"array of {array.dtype.str}: expected this machine's byte order")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(
            f"array of shape {array.shape} is not contiguous: use numpy.ascontiguousarray()"
        )
    if writable and not array.flags.writeable:
        raise ValueError(_NO_PLACE.format("array"))
    return Memory(int(array.ctypes.data), int(array.size), _NAMES[array.dtype.name], array)


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's C API."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        *[(name, ctypes.c_ssize_t) for name in ("len", "itemsize")],
        *[(name, ctypes.c_int) for name in ("readonly", "ndim")],
        *[(name, ctypes.c_void_p) for name in "format shape strides suboffsets internal".split()],
    ]


class _ReadOnly:
    """A buffer that is held and read; ctypes' from_buffer takes writable ones alone."""

    def __init__(self, view: memoryview) -> None:
        self._held = _PyBuffer()
        # prototypes of its own: those of ctypes.pythonapi are the whole process's, and may be set
        python = ctypes.pythonapi
        get = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
            ("PyObject_GetBuffer", python)
        )
        self._release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyBuffer_Release", python))
        get(view, ctypes.addressof(self._held), 0)

    @property
    def address(self) -> int:
        return int(self._held.buf)

    def __del__(self) -> None:
        self._release(ctypes.addressof(self._held))


def _shared_array(buffer: Any, numpy: Any) -> Any:
    """A numpy array in the memory of what has __array_interface__ or DLPack on the CPU; else None."""
    try:
        if hasattr(buffer, "__array_interface__"):
            return numpy.asarray(buffer)
        if hasattr(buffer, "__dlpack__") and int(buffer.__dlpack_device__()[0]) == _DLPACK_CPU:
            return numpy.from_dlpack(buffer)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        pass  # such as a type that numpy has not
    return None


def _of_buffer(buffer: Any, writable: bool) -> Memory:
    kind = type(buffer)
    numpy = sys.modules.get("numpy")
    if writable and kind.__module__.partition(".")[0] == "mlx":
        raise ValueError(
            "mlx arrays share memory with others made of them, which would change as well: "
            "give an out= that is none, such as a numpy array"
        )
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError) as error:
        array = _shared_array(buffer, numpy) if numpy is not None else None
        if array is not None:
            return _of_numpy(array, writable)
        if numpy is not None and hasattr(kind, "__array__"):  # such as JAX's of bfloat16
            if not writable:
                return _of_numpy(numpy.asarray(buffer), False)
            raise ValueError(_NO_PLACE.format(kind.__name__)) from None
        raise TypeError(
            f"{kind.__name__}: expected a PyTorch tensor, a numpy array or a writable buffer ({error})"
        ) from None
    dtype = _FORMATS.get((view.format.lstrip(_NATIVE), view.itemsize))
    if dtype is None:
        raise TypeError(f"buffer of format {view.format!r}: expected {EXPECTED}")
    if not view.c_contiguous:
        raise ValueError("buffer is not contiguous")
    if view.readonly and writable:
        raise ValueError(_NO_PLACE.format(kind.__name__))
    count = view.nbytes // view.itemsize
    if not count:
        return Memory(0, 0, dtype, view)
    if view.readonly:
        held = _ReadOnly(view)
        return Memory(held.address, count, dtype, held)
    first = ctypes.c_char.from_buffer(view)
    return Memory(ctypes.addressof(first), count, dtype, first)


def memory(buffer: Any, writable: bool = True) -> Memory:
    """The memory of `buffer`, which is kept alive by the answer.  `buffer` may be one already.

    TypeError: not a tensor, or of a type, device or layout that the library cannot use.
    ValueError: not contiguous, or read-only although `writable` is asked for.
    """
    if type(buffer) is Memory:
        return buffer
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(buffer, getattr(torch, "Tensor", ())):
        return _of_torch(buffer, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(buffer, getattr(numpy, "ndarray", ())):
        return _of_numpy(buffer, writable)
    return _of_buffer(buffer, writable)


def torch_problem(tensor: Any) -> str:
    """Why the library cannot sum a PyTorch tensor; "" if it can."""
    problem = _torch_problem(tensor, sys.modules["torch"])
    if problem is not None:
        return str(problem)
    if tensor.dtype == sys.modules["torch"].uint8:
        return "tensor of torch.uint8: sums of it would wrap"
    return ""


def shares(tensor: Any, out: Any, size: int, gathers: bool) -> tuple[Memory, Memory]:
    """The memory of a source and a target, of which one has as many elements for each of `size` ranks."""
    source, target = memory(tensor, writable=False), memory(out)
    whole, share = (target, source) if gathers else (source, target)
    if (whole.elems, whole.dtype) != (share.elems * size, share.dtype):
        raise ValueError(
            f"{whole.elems} elements of {NAME_OF[whole.dtype]} and {share.elems} "
            f"of {NAME_OF[share.dtype]}: expected {size} times as many of one type"
        )
    return source, target


def summed(source: Memory) -> Memory:
    """TypeError: of a type that is only copied."""
    if source.dtype == UINT8:
        raise TypeError("elements of uint8: sums of them would wrap; expected int32, say")
    return source


def pair(tensor: Any, into: Any) -> tuple[Memory, Memory]:
    """The memory of both, which must agree and not overlap in part."""
    source = summed(memory(tensor, writable=tensor is into))
    if tensor is into:
        return source, source
    target = memory(into)
    if (source.elems, source.dtype) != (target.elems, target.dtype):
        raise ValueError(
            f"out: has {target.elems} elements of {NAME_OF[target.dtype]}, the tensor "
            f"{source.elems} of {NAME_OF[source.dtype]}: expected the same"
        )
    apart = abs(source.address - target.address)
    if 0 < apart < source.elems * SIZES[source.dtype]:
        raise ValueError("out: overlaps the tensor in part: expected the same memory, or other")
    return source, target
