# SPDX-License-Identifier: Apache-2.0
"""Networks from numbers, JSON or GraphML: read, checked, and written in the one form that C reads.

`load` gives what the planner plans for, `load_network` what the simulator runs on.  Both raise
FormatError, whose text has the place in the source and the cause, and files.FileError.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Optional, Sequence

from .. import files
from .generate import Attach, is_made, make
from .graphml import is_graphml, parse
from .network import FormatError, Network, split
from .reader import read, read_network

__all__ = [
    "Attach",
    "FormatError",
    "Network",
    "decode",
    "is_graphml",
    "is_made",
    "load",
    "load_network",
    "read",
]


def decode(data: bytes) -> Any:
    """What a file has as JSON.  FormatError: line, column and cause."""
    try:
        text = data.decode("utf-8")
        if text.lstrip(" \t\r\n")[:1] in ("{", "["):
            return files.decode(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from None
    raise FormatError(
        "line 1, column 1: not JSON: '[' or '{' expected; networks are read as JSON or GraphML, "
        "nothing as YAML"
    )


def _parse(data: bytes) -> Any:
    """The JSON of a network in a text that is GraphML or JSON."""
    return parse(data) if is_graphml(data) else decode(data)


def _attached(root: Any, hosts: Attach) -> Network:
    network = read_network(root, hosts.link_gbps)
    hosts.add(network)
    return network


def load(source: str, hosts: Optional[Attach] = None) -> Network:
    """The network and its jobs, from numbers or a file; `hosts`: to add, with one job of all."""
    if is_made(source):
        if hosts:
            raise FormatError("--attach: it is made with hosts already")
        network = make(source, True)
    else:
        root = _parse(files.read(source))
        if not hosts:
            return read(root)
        if isinstance(root, dict) and "jobs" in root:
            raise FormatError("jobs: hosts are attached where no job names any")
        network = _attached(root, hosts)
    network.add_all()
    if not hosts:
        split(network)
    return network


def load_network(source: str, data: bytes, hosts: Optional[Attach] = None) -> Network:
    """Nodes and links alone, from numbers or, if `source` is a file's name, from its `data`.

    A network made from numbers has a server only if asked for."""
    if is_made(source):
        if hosts:
            raise FormatError("attach: it is made with hosts already")
        return make(source, False)
    root = _parse(data)
    return _attached(root, hosts) if hosts else read_network(root)


def main(argv: Sequence[str]) -> int:
    """Print the JSON of networks and their jobs, each a line.

    Each line of standard input is numbers or a file's name."""
    for line in sys.stdin:
        try:
            print(json.dumps(load(line.strip()).to_json()), flush=True)
        except (FormatError, files.FileError) as error:
            print(f"{line.strip()}: {error}", file=sys.stderr)
            return 2
    return 0
