# SPDX-License-Identifier: Apache-2.0
"""libfanin by ctypes: where it is, its structures and its functions (include/fanin.h)."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from .errors import LibraryError

VERSION = "0.2"  # major and minor of the header that this file follows
SONAME = "libfanin.so.0"
_HERE = Path(__file__).resolve().parent


LATER = ("join_ms", "reserved_end")  # options of which 0 means "not given"


class Options(ctypes.Structure):
    """struct fanin_options.  Fields start as FANIN_OPTIONS_INIT sets them."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("switch_addr", ctypes.c_char_p),
        ("job", ctypes.c_char_p),
        *[
            (name, ctypes.c_int)
            for name in (
                "rank ranks mtu window timeout_ms alive_ms mode wire multicast checksum narrow plain_udp"
                " priority"
            ).split()
        ],
        ("server_addr", ctypes.c_char_p),
        *[(name, ctypes.c_int) for name in "ahead cache".split()],
        ("controller_addr", ctypes.c_char_p),
        ("pace", ctypes.c_int),
        ("waiting", ctypes.c_void_p),
        ("waiting_arg", ctypes.c_void_p),
        ("rto_min_ms", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("key_file", ctypes.c_char_p),
        ("controller_key_file", ctypes.c_char_p),
        *[(name, ctypes.c_int) for name in LATER],
        ("run", ctypes.c_char_p),
    ]

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(Options))
        for name, kind in self._fields_[1:]:
            setattr(self, name, -1 if kind is ctypes.c_int else None)
        for name in ("reserved", *LATER):
            setattr(self, name, 0)


class RawStats(ctypes.Structure):
    """struct fanin_stats."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        *[
            (name, ctypes.c_uint64)
            for name in "ops bytes fragments sent retransmits probes replays drops srtt_ns".split()
        ],
        *[(name, ctypes.c_uint32) for name in "window_frags packet_bytes shards".split()],
        *[(name, ctypes.c_int) for name in "multicast segment_offload receive_offload".split()],
        ("cwnd_frags", ctypes.c_uint32),
        *[(name, ctypes.c_uint64) for name in "marks collisions moves".split()],
        ("server", ctypes.c_int),
        *[
            (name, ctypes.c_uint32)
            for name in "ahead_asked ahead_frags ahead_now_frags cache_frags cache_open cache_peak".split()
        ],
        *[
            (name, ctypes.c_uint64)
            for name in "cache_parts cache_done cache_early cache_over".split()
        ],
        ("parts", ctypes.c_uint32),
        *[(name, ctypes.c_uint64) for name in "result_ns gap_ns".split()],
        *[(name, ctypes.c_uint32) for name in "hosts host_ranks".split()],
        *[(name, ctypes.c_uint64) for name in "sealed forged".split()],
        *[(name, ctypes.c_uint32) for name in "idle_hosts idle_rank".split()],
        ("idle_misses", ctypes.c_uint64),
    ]

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(RawStats))


class RawPart(ctypes.Structure):
    """struct fanin_part."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("aggregator", ctypes.c_char * 64),
        ("rank", ctypes.c_int),
        ("share_ppm", ctypes.c_uint32),
        ("rtt_ns", ctypes.c_uint64),
        *[(name, ctypes.c_uint32) for name in "settled lost".split()],
    ]

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(RawPart))


_POINTER = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_COUNT = ctypes.c_size_t
_INT = ctypes.c_int

# name -> (result, arguments)
_PROTOTYPES: dict[str, tuple[type | None, list[type]]] = {
    "fanin_version": (ctypes.c_char_p, []),
    "fanin_strerror": (ctypes.c_char_p, [_INT]),
    "fanin_comm_create": (_INT, [ctypes.POINTER(Options), _OUT]),
    "fanin_comm_group_within": (
        _INT,
        [_POINTER, ctypes.c_char_p, ctypes.POINTER(_INT), _INT, _INT, _INT, _OUT],
    ),
    "fanin_comm_shrink": (_INT, [_POINTER, _INT, _OUT]),
    "fanin_comm_destroy": (None, [_POINTER]),
    "fanin_file_error": (ctypes.c_char_p, []),
    "fanin_on_wait": (None, [_POINTER, _POINTER]),
    "fanin_comm_rank": (_INT, [_POINTER]),
    "fanin_comm_size": (_INT, [_POINTER]),
    "fanin_comm_error": (ctypes.c_char_p, [_POINTER]),
    "fanin_comm_switch": (ctypes.c_char_p, [_POINTER]),
    "fanin_comm_stats": (_INT, [_POINTER, ctypes.POINTER(RawStats)]),
    "fanin_comm_part": (_INT, [_POINTER, ctypes.c_uint32, ctypes.POINTER(RawPart)]),
    "fanin_comm_mark": (_INT, [_POINTER, _INT]),
    "fanin_allreduce_start": (_INT, [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _OUT]),
    "fanin_allreduce_lossy_start": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _OUT],
    ),
    "fanin_broadcast_start": (_INT, [_POINTER, _POINTER, _COUNT, _INT, _INT, _OUT]),
    "fanin_reduce_start": (_INT, [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _INT, _OUT]),
    "fanin_barrier_start": (_INT, [_POINTER, _OUT]),
    "fanin_reduce_scatter_start": (_INT, [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _OUT]),
    "fanin_allgather_start": (_INT, [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _OUT]),
    "fanin_allreduce_within": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _INT, _OUT],
    ),
    "fanin_broadcast_within": (_INT, [_POINTER, _POINTER, _COUNT, _INT, _INT, _INT, _OUT]),
    "fanin_reduce_within": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _COUNT, _INT, _INT, _INT, _INT, _OUT],
    ),
    "fanin_barrier_within": (_INT, [_POINTER, _INT, _OUT]),
    "fanin_op_test": (_INT, [_POINTER]),
    "fanin_op_wait": (_INT, [_POINTER, _INT]),
    "fanin_op_free": (None, [_POINTER]),
}


def candidates() -> list[str]:
    """Where libfanin is looked for, in this order: FANIN_LIBRARY alone if set; otherwise beside
    this package (put there when a wheel is built), the build/src/ of the checkout that this package
    lies in, the system's libraries."""
    named = os.environ.get("FANIN_LIBRARY")
    if named:
        return [named]
    found = [str(_HERE / SONAME)]
    root = _HERE.parent.parent
    if (root / "include" / "fanin.h").exists():
        found.append(str(root / "build" / "src" / SONAME))
    found.append(SONAME)
    return found


def _open() -> tuple[ctypes.CDLL, str]:
    tried = []
    for path in candidates():
        if os.sep in path and not Path(path).exists():
            tried.append(f"{path}: no such file")
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            tried.append(str(error) if path in str(error) else f"{path}: {error}")
    raise LibraryError(
        "libfanin was not found; build it (meson setup build && ninja -C build), install it, or "
        "name the file in FANIN_LIBRARY.  Tried: " + "; ".join(tried)
    )


def _bind(library: ctypes.CDLL, path: str) -> None:
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{path}: has no {name}: expected libfanin {VERSION}") from None
        function.restype = result
        function.argtypes = arguments
    version = library.fanin_version().decode()
    if version.split(".")[:2] != VERSION.split("."):
        raise LibraryError(f"{path}: is libfanin {version}: expected {VERSION}")


_lock = threading.Lock()
_loaded: tuple[ctypes.CDLL, str] | None = None


def load() -> ctypes.CDLL:
    """libfanin, loaded once.  LibraryError: not found, or another version."""
    global _loaded
    with _lock:
        if _loaded is None:
            library, path = _open()
            _bind(library, path)
            _loaded = library, path
        return _loaded[0]


class _Where(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def path() -> str:
    """The file that `load` loaded, also where the system's loader has looked for it."""
    library = load()
    assert _loaded is not None
    where = _Where()
    try:
        dladdr = ctypes.CDLL(None).dladdr
    except AttributeError:  # a C library without it
        return _loaded[1]
    found = dladdr(ctypes.cast(library.fanin_version, ctypes.c_void_p), ctypes.byref(where))
    return os.fsdecode(where.file) if found and where.file else _loaded[1]
