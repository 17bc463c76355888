# SPDX-License-Identifier: Apache-2.0
"""Networks from numbers or files: read, checked, and written in the one form that C reads.

`load` gives what the planner plans for, `load_network` what the simulator runs on.  Both raise
FormatError, whose text has the place in the source and the cause.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Iterable, Optional, Sequence

from .. import files
from ..fields import NAME_MAX, nearest
from . import door, traces
from .door import is_network
from .generate import Attach, is_made, make
from .graph import Rate
from .network import FormatError, Network, split
from .reader import ROOT, read, read_network

KEYS_SHOWN = 3  # of JSON of another kind

__all__ = [
    "Attach",
    "FormatError",
    "Network",
    "Rate",
    "check_keys",
    "is_made",
    "is_network",
    "load",
    "load_network",
    "read",
    "trace_form",
]


def trace_form(data: bytes) -> str:
    """The form of the trace, workload or list of jobs that a file is; "": it is a network or JSON.

    FormatError: it is none of these, or a broken archive."""
    data = door.opened(data, traces.BYTES_MAX)
    form = traces.find(data)
    if form is None and door.is_unknown(data):
        raise FormatError(
            f"{door.near(data)}; networks are read as {door.NAMES}; traces as {traces.NAMES}"
        )
    return form.name if form else ""


def check_keys(root: Any, keys: Iterable[str]) -> None:
    """FormatError, which names the forms: it is an object with none of these keys, and none near."""
    if (
        not isinstance(root, dict)
        or not root
        or any(key in keys or nearest(key, keys) for key in root)
    ):
        return
    first = ", ".join(f'"{key[:NAME_MAX]}"' for key in list(root)[:KEYS_SHOWN])
    raise FormatError(
        f"JSON of another kind, with {first}; networks are read as {door.NAMES}; "
        f"traces as {traces.NAMES}"
    )


def _read(data: bytes, hosts: Optional[Attach], rate: Rate, has_jobs: bool) -> Network:
    """The network in a file, with hosts attached, and with its jobs if it is to have them."""
    root, form, notes = door.parse(data, rate)
    if not form:
        check_keys(root, ROOT)
    link_gbps = rate.gbps or (hosts.link_gbps if hosts else None)
    if hosts and has_jobs and isinstance(root, dict) and "jobs" in root:
        raise FormatError("jobs: hosts are attached where no job names any")
    needs_hosts = has_jobs and not hosts
    network = read(root, link_gbps) if needs_hosts else read_network(root, link_gbps)
    network.summary = door.summary(network, form, notes) if form else ""
    if hosts:
        hosts.add(network)
    return network


def _made_or_read(
    source: str, data: bytes, hosts: Optional[Attach], rate: Optional[Rate], has_jobs: bool
) -> Network:
    if not is_made(source):
        return _read(data, hosts, rate or Rate(), has_jobs)
    if hosts or rate:
        raise FormatError(f"{'attach' if hosts else 'rate'}: it is made with hosts already")
    return make(source, has_jobs)


def load(source: str, hosts: Optional[Attach] = None, rate: Optional[Rate] = None) -> Network:
    """The network and its jobs, from numbers or a file; `hosts`: to add, with one job of all."""
    data = b"" if is_made(source) else files.read(source, door.BYTES_MAX)
    with files.of(source):
        network = _made_or_read(source, data, hosts, rate, True)
        if hosts or is_made(source):
            network.add_all()
        if is_made(source):
            split(network)
        return network


def load_network(
    source: str, data: bytes, hosts: Optional[Attach] = None, rate: Optional[Rate] = None
) -> Network:
    """Nodes and links alone, from numbers or, if `source` is a file's name, from its `data`.

    A network made from numbers has a server only if asked for."""
    return _made_or_read(source, data, hosts, rate, False)


def main(argv: Sequence[str]) -> int:
    """Print the JSON of networks and their jobs, each a line.

    Each line of standard input is numbers or a file's name."""
    for line in sys.stdin:
        try:
            print(json.dumps(load(line.strip()).to_json()), flush=True)
        except FormatError as error:
            print(error, file=sys.stderr)
            return 2
    return 0
