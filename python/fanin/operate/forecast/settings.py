# SPDX-License-Identifier: Apache-2.0
"""`fanin info`, which is `fanin doctor --settings`: this build, what the kernel gives it, the
options of a rank as they are read here, and what would sum its tensors."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

from ...research.files import plain
from ..shape import Bad
from . import probe
from .findings import write_json

FILES = ("FANIN_METRICS", "FANIN_TRACE")  # the library is silent about one that it cannot write


def _local(of: Dict[str, Any]) -> List[str]:
    """Whether ranks of a host share memory."""
    if of["switch"] and not (of["asked"] or of["server"] or of["hosts"]):
        return [
            "Each rank sends a stream of its own, because FANIN_HOSTS=0 (FANIN_LOCAL=1: ranks of "
            "one host sum in shared memory first)."
        ]
    if of["wanted"]:
        who = "Ranks of one host"
        if of["switch"] and not of["asked"]:
            who = "Where ranks are on several hosts, those of each host"
        return [f"{who} sum in shared memory first (FANIN_LOCAL=0: they do not)."]
    if not of["local"]:
        return ["Each rank sends a stream of its own, because FANIN_LOCAL=0."]
    return []


def _seal(of: Dict[str, Any]) -> str:
    if of["key"]:
        return (
            f"Packets are sealed with the key in {of['key']}; named switches need the fabric's.  "
            "What ranks share in a host's memory is not encrypted."
        )
    return (
        "The job is open: anybody on the path can read and change its packets (FANIN_KEY_FILE "
        "seals it)."
    )


def _named(of: Dict[str, Any]) -> List[str]:
    """At named switches."""
    switches = of["switch"].count(",") + 1
    if switches == 1:
        text = [f"The switch {of['switch']}, because it is named."]
    else:
        text = [
            f"{switches} switches, each a share of every tensor, because they are named: "
            f"{of['switch']}."
        ]
    if of["server"]:
        text.append(
            f"If the switch falls silent, ranks continue through the server {of['server']}."
        )
    elif of["ahead"]:
        text.append("Hosts sum nothing, because ranks run ahead of each other.")
    elif not of["hosts"]:
        text.append("Hosts sum nothing, because FANIN_HOSTS=0.")
    else:
        text.append(
            "Where ranks are on several hosts, the first rank of each host sums a share as well; "
            "shares follow what is measured (FANIN_HOSTS=0: named switches sum everything)."
        )
    return text


def sums(of: Dict[str, Any]) -> Tuple[List[str], bool]:
    """What would sum, in sentences, by what src/lib/comm/comm.c chooses; False: nothing can."""
    if of["wrong"]:
        return [f"Nothing: {of['wrong']}"], False
    if of["controller"]:
        return [
            f"What the controller {of['controller']} assigns: parts, servers and routes of its plan."
        ], True
    if of["switch"]:
        text = _named(of)
    elif not of["is_rank"]:
        return ["Nothing: the environment starts no rank here."], True
    elif of["nowhere"]:
        return [f"Nothing: {of['nowhere']}"], False
    elif of["one_host"]:
        text = [
            f"An embedded switch in rank 0 at {of['meeting']}, because none is named and all ranks "
            "are on one host."
        ]
    else:
        text = [
            "An aggregator in the first rank of each host, each an even share of every tensor, "
            f"because no switch is named; ranks meet at {of['meeting']}."
        ]
    return [*text, *_local(of), _seal(of)], True


def _unwritable() -> Dict[str, str]:
    """The variables whose files cannot be written, and why."""
    found = {}
    for variable in FILES:
        file = os.environ.get(variable, "")
        folder = file[: file.rfind("/") + 1] or "."
        if not file or os.access(folder, os.W_OK):
            continue
        try:
            os.stat(folder)
            why = "Permission denied"
        except OSError as error:
            why = error.strerror
        found[variable] = f"{plain(folder)}: {why}"
    return found


def _head(said: Dict[str, Any]) -> List[str]:
    library, socket = said["library"], said["socket"]
    kernel = f"kernel    Linux {os.uname().release}"
    lines = [
        f"fanin     {said['version']}, protocol {said['protocol']}",
        f"built     {said['built']}",
        f"program   {library['program']}, with libfanin inside",
        f"library   {library['path']}, {library['version']}, which others load"
        if library["version"]
        else f"library   none for others: {library['why']}",
    ]
    if socket["error"]:
        return [*lines, f"{kernel}; no UDP socket: {os.strerror(socket['error'])}"]
    has = ["yes" if socket[key] else "no" for key in ("segment", "gro")]
    sizes = [socket[f"{key}_bytes"] // 1024 for key in ("receive", "send", "wanted")]
    return [
        *lines,
        f"{kernel}, UDP_SEGMENT {has[0]}, UDP_GRO {has[1]}",
        f"buffers   {sizes[0]} KiB to receive, {sizes[1]} KiB to send, of {sizes[2]} KiB wanted",
    ]


def text(said: Dict[str, Any], every: bool) -> Tuple[List[str], bool]:
    """The lines, with options at their defaults or without; False: a rank would fail."""
    lines = [*_head(said), "", "options of a rank, other than defaults:"]
    for of in said["options"]:
        if of["from"] or every:
            source = f"   from {of['from']}" if of["from"] else ""
            lines.append(f"  {of['name']:<11} {of['value'] or '-'}{source}")
    for of in said["unknown"]:
        near = f"; did you mean {of['near']}?" if of["near"] else ""
        lines.append(f"  {of['name']} is no variable of fanin{near}")
    unwritable = _unwritable()
    lines += [f"  wrong: {variable}: {why}" for variable, why in unwritable.items()]
    lines += [f"  wrong: {said['error']}"] if said["error"] else []
    sentences, good = sums(said["sums"])
    lines += ["", "what would sum:", *(f"  {sentence}" for sentence in sentences)]
    return lines, good and not (unwritable or said["error"] or said["socket"]["error"])


def _json(said: Dict[str, Any], good: bool) -> Dict[str, Any]:
    library, socket = said["library"], said["socket"]
    kernel: Dict[str, Any] = {"release": os.uname().release}
    if socket["error"]:
        kernel["error"] = os.strerror(socket["error"])
    else:
        kernel.update((key, value) for key, value in socket.items() if key != "error")
    root = {
        "build": {key: said[key] for key in ("version", "built", "protocol")},
        "program": library["program"],
        "library": {key: library[key] for key in ("path", "version")}
        if library["version"]
        else None,
        "kernel": kernel,
        "unknown": [of["name"] for of in said["unknown"]],
        "sums": sums(said["sums"])[0],
        "options": {of["name"]: {k: of[k] for k in ("value", "from")} for of in said["options"]},
        "good": good,
    }
    root.update({"unwritable": variable for variable in _unwritable()})
    root.update({"error": said["error"]} if said["error"] else {})
    return root


def show(file: str, every: bool) -> int:
    """Print it, or write it to this file as JSON as well; the exit status."""
    said = dict(probe.lines(["--settings"])).get("settings")
    if not said:
        raise Bad("expected settings")
    lines, good = text(said, every)
    if file != "-":
        print("\n".join(lines), flush=True)
    is_lost = bool(file) and not write_json("info", file, _json(said, good))
    return int(is_lost or not good)
