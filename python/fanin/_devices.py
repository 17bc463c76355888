# SPDX-License-Identifier: Apache-2.0
"""What PyTorch 2 asks a process group about itself: its name, the devices that it has, and for each of
them a backend.

Python cannot subclass torch.distributed's Backend before PyTorch 2.13, so fanin's is the group itself.
PyTorch takes that in place of the group with all the backends that a program named, as in
"cpu:fanin,cuda:nccl", and makes none that comes after it.  Therefore the group makes them, and hands
them what has their tensors.
"""

import datetime
import functools
import inspect
import os
import sys
import threading
from typing import Any, Callable, Iterator, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from . import _elastic
from ._compiled import skipped, untraced
from ._completion import called_by_python, native
from ._level import Level, set_timeout

c10d: Any = torch._C._distributed_c10d  # PyTorch's stubs lack half of it
FRAMES_MAX = 4  # between PyTorch's function that makes a group and ours
OWN = "fanin"
KNOWS = "_fanin_knows"  # attribute of what `know` has put in the place of PyTorch's
HOLDS_WORKS: bool = torch.__version__ >= (2, 7)  # type: ignore[operator]  # C++ code keeps a work's object

Call = TypeVar("Call", bound=Callable[..., Any])


def named_devices() -> dict[str, str]:
    """Backends by type of device, of the group that PyTorch makes further up the stack; {}: it has no
    such types."""
    frame: Any = sys._getframe(1)
    for _ in range(FRAMES_MAX):
        if frame is None:
            break
        config = frame.f_locals.get("backend_config")
        if config is not None and hasattr(config, "get_device_backend_map"):
            found = config.get_device_backend_map()
            return {str(device): str(name).lower() for device, name in found.items()}
        frame = frame.f_back
    return {}


def _plugin(name: str) -> Any:
    plugins: dict[str, Any] = getattr(dist.Backend, "_plugins", {})
    return plugins.get(name.upper())


def refuse(devices: dict[str, str]) -> None:
    """An error if a backend of these cannot be had.  Before ranks meet, so that each finds out by
    itself."""
    available = {"gloo": dist.is_gloo_available, "nccl": dist.is_nccl_available}
    for device, name in devices.items():
        if name in available and not available[name]():
            raise RuntimeError(f"{device}:{name}: this PyTorch was built without it")
        # MPI's ranks are mpirun's; where they are not this group's, MPI ends the process
        if name == "mpi" or not (name == OWN or name in _MAKERS or _plugin(name)):
            raise RuntimeError(f"{device}:{name}: not to be had beside {OWN} in this PyTorch")


def backend_for(device: str, name: str, given: Any, store: Any, options: Any = None) -> Any:
    """A backend that PyTorch or another package brings, for tensors of a type of device, as PyTorch
    would have made it; an error if it cannot be had.  `store`: the group's."""
    own: Any = c10d._DistributedBackendOptions()
    for field in ("group_rank", "group_size", "timeout", "group_id", "global_ranks_in_group"):
        setattr(own, field, getattr(given, field))
    own.store = c10d.PrefixStore(f"{device}/{OWN}", store)
    plugin = _plugin(name)
    if plugin is not None:
        if plugin.extended_api:
            backend = plugin.creator_fn(own, options)
        else:
            backend = plugin.creator_fn(own.store, own.group_rank, own.group_size, own.timeout)
    else:
        backend = _MAKERS[name](own, options)
    if backend is None:
        raise RuntimeError(f"{device}:{name}: made no backend for this rank")
    if isinstance(backend, ProcessGroup):
        raise RuntimeError(f"{device}:{name}: replaces the whole group, as {OWN} does")
    if name in _MAKERS:
        backend._set_sequence_number_for_group()
    return backend


def beside(devices: dict[str, str], given: Any, store: Any) -> dict[str, Any]:
    """The backends that are not fanin's, by type of device."""
    named = {device: name for device, name in devices.items() if name != OWN}
    return {device: backend_for(device, name, given, store) for device, name in named.items()}


def _gloo(own: Any, options: Any) -> Any:
    del options
    return c10d.ProcessGroupGloo(own.store, own.group_rank, own.group_size, timeout=own.timeout)


def _nccl(own: Any, options: Any) -> Any:
    options = options or c10d.ProcessGroupNCCL.Options()
    options._timeout = own.timeout
    options.global_ranks_in_group = own.global_ranks_in_group
    options.group_name = own.group_id
    return c10d.ProcessGroupNCCL(own.store, own.group_rank, own.group_size, options)


_MAKERS: dict[str, Callable[[Any, Any], Any]] = {"gloo": _gloo, "nccl": _nccl}


def _tensors(arguments: Any) -> Iterator[torch.Tensor]:
    for one in arguments:
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from _tensors(one)


def _refuse_nan(name: str, rank: int, arguments: Any, source: int) -> None:
    """As PyTorch's NanCheckHook does, which sees no group that is written in Python."""
    root = arguments[1].rootRank if name == "broadcast" and len(arguments) > 1 else rank
    if root == rank and not name.startswith("recv"):
        for tensor in _tensors(arguments[source : source + 1]):
            if tensor.layout == torch.strided:
                whole = tensor.contiguous()  # it reads memory without strides
                torch.ops.c10d.check_for_nan(whole)  # type: ignore[attr-defined]


def collective(method: Call) -> Call:
    """An operation: of the backend that has its tensors' device."""
    name, whole = method.__name__, untraced(method)
    first = list(inspect.signature(method).parameters)[1]
    source = 1 if first.startswith("output") else 0  # the argument that is read

    @functools.wraps(method)
    def call(self: "DevicesGroup", *arguments: Any, **named: Any) -> Any:
        if self.others:
            tensor = next(_tensors(arguments), None)
            other = self.others.get(tensor.device.type) if tensor is not None else None
            if other is not None:
                return getattr(other, name)(*arguments, **named)
        if self._refuses_nan:
            _refuse_nan(name, self.rank(), arguments, source)
        work = whole(self, *arguments, **named)
        if self._coalesced:
            self._coalesced.get(threading.get_ident(), []).append(work)
        return work if HOLDS_WORKS or called_by_python(name) else native(work)

    return skipped(call)  # type: ignore[return-value]


class DevicesGroup(ProcessGroup):
    """A group of PyTorch with a name, and a backend for each type of device.

    devices
        Names of backends by type of device.
    """

    supports_splitting = False
    supports_coalescing = False
    supports_shrinking = False
    supports_tensor_alloc = False
    supports_time_estimate = False
    supports_abort_hooks = False

    def __init__(self, rank: int, size: int, devices: dict[str, str]) -> None:
        super().__init__(rank, size)  # type: ignore
        self.devices = devices
        self.others: dict[str, Any] = {}  #: those of them that are not fanin
        self._name = self._desc = ""
        self._coalesced: dict[int, list[Any]] = {}  # works by thread, between start and end
        self.timeout: datetime.timedelta | None = None  #: of an operation
        self._levels: dict[int, Level] = {}
        asked = os.environ.get("TORCH_DIST_NAN_CHECK") == "1"
        self._refuses_nan = asked and hasattr(c10d, "NanCheckHook")  # PyTorch 2.15

    @property
    def error(self) -> Any:
        """What ended the group; None: it goes on."""
        raise NotImplementedError

    def get_error(self) -> Any:
        """The same in the words of PyTorch from 2.7 on.  torchft asks at each step."""
        kinds = torch._C._distributed_c10d.ErrorType  # type: ignore[attr-defined]
        return kinds.SUCCESS if self.error is None else kinds.COMM_ERROR

    def register_pre_hook(self, hook_id: int, hook: Any) -> None:
        """In PyTorch 2.15, which calls hooks between a group and its backends: here never."""
        raise NotImplementedError("hooks: expected a group of PyTorch's own backends alone")

    register_post_hook = register_pre_hook

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For operations to come, as torch.distributed.set_timeout of PyTorch 2.15 asks."""
        self.timeout = timeout
        for level in list(self._levels.values()):
            level.set_timeout(timeout)
        for other in self.others.values():
            set_timeout(other, timeout)

    def split(
        self, parts: Any, timeout: Any, options: Any, description: str | None, backend: Any
    ) -> Any:
        """As dist.split_group: a group of those of `parts`, lists of this group's ranks, that has this rank,
        with ranks in the order of the list."""
        own: int = self.rank()
        make: Any = dist.new_group
        if not parts or any(not part or len(set(part)) != len(part) for part in parts):
            raise ValueError(f"split_ranks: {parts}: expected lists of different ranks")
        if any(rank not in range(self.size()) for part in parts for rank in part):
            raise ValueError(f"split_ranks: {parts}: expected ranks of 0 to {self.size() - 1}")
        part = next((part for part in parts if own in part), None)
        if part is None:
            return dist.GroupMember.NON_GROUP_MEMBER
        ranks = [dist.get_global_rank(self, rank) for rank in part]
        named = {} if ranks == sorted(ranks) else {"sort_ranks": False}
        if named and "sort_ranks" not in inspect.signature(make).parameters:
            raise ValueError(f"split_ranks: {parts}: this PyTorch sorts the ranks of a group")
        return make(
            ranks, timeout, backend, options, True, description or f"{self._desc}:split", **named
        )

    def getBackendName(self) -> str:
        return OWN

    def _get_backend_name(self) -> str:
        return OWN

    # Names, for callers in Python and in C++.

    @property
    def group_name(self) -> str:
        """As torch.distributed has it."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What the program calls it."""
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def getGroupName(self) -> str:
        return self._name

    def getGroupDesc(self) -> str:
        return self._desc

    setGroupName = _set_group_name
    setGroupDesc = _set_group_desc

    # Devices.

    @property
    def _device_types(self) -> list[torch.device]:
        """None while PyTorch still makes the group: from 2.15 on it attaches a recorder to groups that
        have any, and that looks for backends of C++ code."""
        world: Any = dist.distributed_c10d
        if self not in world._world.pg_map:
            return []
        return [torch.device(name) for name in self.devices]

    def _get_backend(self, device: torch.device) -> Any:
        kind = torch.device(device).type
        if kind not in self.devices:
            raise RuntimeError(
                f"no backend for tensors on {kind}: the group has {self._named_devices()}"
            )
        return self.others.get(kind, self)

    def _named_devices(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.devices.items())

    # Several operations as one.

    def _start_coalescing(self, device: torch.device) -> None:
        backend = self._get_backend(device)
        if backend is not self:
            backend._start_coalescing()
            return
        self._coalesced[threading.get_ident()] = []

    def _end_coalescing(self, device: torch.device) -> Any:
        backend = self._get_backend(device)
        if backend is not self:
            return backend._end_coalescing()
        return self._all_of(self._coalesced.pop(threading.get_ident(), []))

    def _is_coalescing(self) -> bool:
        """Whether this thread is: other threads of other ranks may be elsewhere."""
        return threading.get_ident() in self._coalesced

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    def _all_of(self, works: list[Any]) -> Any:
        """A work that ends when all of these have ended."""
        raise NotImplementedError


def know() -> None:
    """Make PyTorch's functions know such groups."""
    modules: list[Any] = [dist, dist.distributed_c10d]
    for module in modules:
        if not hasattr(module.monitored_barrier, KNOWS):
            module.monitored_barrier = _monitored(module.monitored_barrier)
        original = getattr(module, "shrink_group", None)
        if original is not None and not hasattr(original, KNOWS):
            module.shrink_group = _shrinking(original)
        original = getattr(module, "split_group", None)
        if original is not None and not hasattr(original, KNOWS):
            module.split_group = _splitting(original)
        original = getattr(module, "_set_pg_timeout", None)  # PyTorch 2.1 to 2.14
        if original is not None and not hasattr(module, "set_timeout"):
            module._set_pg_timeout = _timed(original)


def _timed(original: Callable[..., None]) -> Callable[..., None]:
    """It sets the timeouts of Gloo and NCCL alone."""

    @functools.wraps(original)
    def set_pg_timeout(timeout: Any, group: Any = None) -> None:
        found: Any = group if group is not None else dist.group.WORLD
        if not isinstance(found, DevicesGroup):
            return original(timeout, group)
        found.set_timeout(timeout)

    return set_pg_timeout


def _shrinking(original: Callable[..., Any]) -> Callable[..., Any]:
    """dist.shrink_group, which makes a group of C++ code of what is left."""

    @functools.wraps(original)
    def shrink_group(
        ranks_to_exclude: Any, group: Any = None, shrink_flags: int = 0, pg_options: Any = None
    ) -> Any:
        found: Any = group if group is not None else dist.group.WORLD
        if not isinstance(found, DevicesGroup):
            return original(ranks_to_exclude, group, shrink_flags, pg_options)
        return _elastic.shrink(found, ranks_to_exclude, pg_options)

    setattr(shrink_group, KNOWS, True)
    return shrink_group


def _splitting(original: Callable[..., Any]) -> Callable[..., Any]:
    """dist.split_group, which has a backend of C++ code make the parts."""

    @functools.wraps(original)
    def split_group(
        parent_pg: Any = None,
        split_ranks: Any = None,
        timeout: Any = None,
        pg_options: Any = None,
        group_desc: str | None = None,
        backend: Any = None,
    ) -> Any:
        parent: Any = parent_pg if parent_pg is not None else dist.group.WORLD
        if not isinstance(parent, DevicesGroup):
            named = {} if backend is None else {"backend": backend}
            return original(parent_pg, split_ranks, timeout, pg_options, group_desc, **named)
        return parent.split(split_ranks, timeout, pg_options, group_desc, backend)

    setattr(split_group, KNOWS, True)
    return split_group


def _monitored(original: Callable[..., None]) -> Callable[..., None]:
    """dist.monitored_barrier, which refuses groups that are not named "gloo" before PyTorch 2.13."""

    @functools.wraps(original)
    def monitored_barrier(
        group: Any = None, timeout: Any = None, wait_all_ranks: Any = False
    ) -> None:
        found: Any = group if group is not None else dist.group.WORLD
        if not isinstance(found, DevicesGroup):
            return original(group, timeout, wait_all_ranks)
        found.monitored_barrier(timeout, wait_all_ranks)  # type: ignore[attr-defined]

    setattr(monitored_barrier, KNOWS, True)
    return monitored_barrier
