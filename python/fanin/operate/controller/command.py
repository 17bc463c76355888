# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: reads its options, and asks or serves.

Options are flags, variables FANIN_CONTROLLER_NAME, and the section [controller] of an INI file, the
weakest last.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from .lines import resolve
from .model import Wrong

ALGORITHMS = ("geryon", "lbmm", "switchml", "atp", "grid", "inart", "exact", "best")
READINGS = ("nearest", "rack", "two-level")
SECTIONS = "switch server controller bench top doctor info plan key sim worker".split()
TEXT_BYTES = 255
TREES_MAX = 1024


def _number(low: int, high: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise Wrong(f'expected a number from {low} to {high}, got "{text}"')
        return value

    return check


def _word(words: Tuple[str, ...]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            raise Wrong(f'expected {", ".join(words[:-1])} or {words[-1]}, got "{text}"')
        return text

    return check


def _text(text: str) -> str:
    if not 1 <= len(text.encode(errors="surrogateescape")) <= TEXT_BYTES:
        raise Wrong(f"expected 1 to {TEXT_BYTES} characters, got {len(text)}")
    return text


def _flag(text: str) -> bool:
    if text not in ("yes", "true", "on", "1", "no", "false", "off", "0"):
        raise Wrong(f'expected yes or no, got "{text}"')
    return text in ("yes", "true", "on", "1")


@dataclass(frozen=True)
class Option:
    """A row: its name, letter, kind, default, what stands behind it, and the help."""

    name: str
    letter: str
    kind: Callable[[str], Any]
    default: Any
    what: str
    help: str
    words: Tuple[str, ...] = ()


ROWS = (
    Option("listen", "l", resolve, None, "ADDR:PORT",
           "where daemons and workers find it: a TCP port of a management network"),
    Option("algorithm", "a", _word(ALGORITHMS), "best", "NAME",
           "geryon, lbmm, switchml, atp, grid, inart, exact or best (the default)", ALGORITHMS),
    Option("seed", "", _number(0, 2**31 - 1), 1, "N", "of all that is random (1)"),
    Option("trees", "", _number(1, TREES_MAX), 4, "N",
           "trees of a job on one server that best may use (4); each is a part of its own"),
    Option("sums-at", "", _word(READINGS), "nearest", "READING",
           "which switch sums for a host under switchml and atp: nearest (the default), rack or "
           "two-level, by which all plans may sum twice", READINGS),
    Option("plan", "", _text, "", "PLAN.json",
           "begin with this plan, as fanin plan --json writes it, instead of making one"),
    Option("wait", "", _number(0, 3600), 5, "SECONDS",
           "for all daemons, before it plans with those that are there (5)"),
    Option("socket", "", _text, "", "PATH",
           "a Unix socket that answers: status, status json, plan json, why JOB, replan, admit "
           "JSON, end JOB, load JSON, install PLAN.json"),
    Option("ask", "", _text, "", "LINE",
           "ask the controller of --socket, and print its answer"),
    Option("state", "", _text, "", "FILE",
           "keep there what the next controller must know so that running jobs stay in its care, "
           "and read it at the start"),
    Option("key", "k", _text, "", "FILE",
           "the key that lines of daemons and workers are signed with (none: they are not)"),
    Option("metrics", "", resolve, None, "ADDR:PORT",
           "serve metrics there by HTTP, for Prometheus; a management network (nowhere)"),
    Option("json", "", _text, "", "FILE",
           "write its status there when something has happened, four times a second at most"),
    Option("quiet", "q", _flag, False, "", "do not log what happens"),
)  # fmt: skip
BY_NAME = {row.name: row for row in ROWS}
CONFIG_HELP = "INI file; otherwise the one that FANIN_CONFIG names"
ABOUT = (
    "Plan jobs on the switches and servers of TOPOLOGY.json that are there, install the routes on "
    "them, assign parts to workers, and mend plans after failures."
)
MORE = (
    "Daemons: fanin switch --controller ADDR:PORT --name NODE, and fanin server likewise.  "
    "Workers: FANIN_CONTROLLER=ADDR:PORT.  SIGINT, SIGTERM: stop; daemons and jobs go on."
)


def wrong(text: str) -> NoReturn:
    """End the program: an option makes no sense."""
    print(f"{text}\nTry `fanin controller --help`.", file=sys.stderr)
    sys.exit(2)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong(f"fanin controller: {message}")


def _parser() -> _Parser:
    parser = _Parser("fanin controller", description=ABOUT, epilog=MORE)
    parser.add_argument("topology", nargs="?", metavar="TOPOLOGY.json")
    for row in ROWS:
        flags = [f"--{row.name}"] + ([f"-{row.letter}"] if row.letter else [])
        if row.what:
            parser.add_argument(*flags, metavar=row.what, help=row.help.replace("%", "%%"))
        else:
            parser.add_argument(*flags, action="store_const", const="yes", help=row.help)
    parser.add_argument("--config", metavar="FILE", help=CONFIG_HELP)
    return parser


def _list_options() -> None:
    """The table as lines that a shell's completion reads."""
    for row in ROWS:
        letter = f"-{row.letter}" if row.letter else "-"
        fields = (f"--{row.name}", letter, row.what or "-", ",".join(row.words) or "-", row.help)
        print("\t".join(fields))
    print(f"--config\t-\tFILE\t-\t{CONFIG_HELP}")
    print("--help\t-?\t-\t-\tlist the options")


def _near(word: str, words: Any) -> str:
    found = difflib.get_close_matches(word, list(words), 1)
    return f'; did you mean "{found[0]}"?' if found else ""


def _read_config(path: str) -> Dict[str, Any]:
    """The section [controller] of an INI file."""
    found: Dict[str, Any] = {}
    section = ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()
    except OSError as error:
        wrong(f"{path}: {error.strerror}")
    for number, line in enumerate(lines, 1):
        line = line.split(" ;")[0].strip()
        if not line or line[0] in ";#":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
            if section not in SECTIONS:
                wrong(f'{path}:{number}: unknown section "{section}"{_near(section, SECTIONS)}')
            continue
        key, equals, value = (word.strip() for word in line.partition("="))
        if not section or not equals:
            wrong(f"{path}:{number}: expected a [section] before the first key, and KEY = VALUE")
        if section != "controller":
            continue
        if key not in BY_NAME:
            wrong(f'{path}:{number}: unknown key of [controller] "{key}"{_near(key, BY_NAME)}')
        found[key] = _checked(f"{path}:{number}: {key}", BY_NAME[key], value)
    return found


def _checked(where: str, row: Option, text: str) -> Any:
    try:
        return row.kind(text)
    except Wrong as error:
        wrong(f"{where}: {error}")


def _refuse_unknown(arguments: List[str]) -> None:
    """A flag that there is not: name the nearest one."""
    names = [*BY_NAME, "config", "help"]
    for word in arguments:
        if word == "--":
            return
        name = word[2:].split("=")[0]
        if word.startswith("--") and not any(one.startswith(name) for one in names):
            found = difflib.get_close_matches(name, names, 1)
            nearest = f"; nearest: --{found[0]}" if found else ""
            wrong(f"fanin controller: unknown option --{name}{nearest}")


def read(arguments: List[str]) -> Dict[str, Any]:
    """The options' values by name, and "topology"; ends the program where they make no sense."""
    if arguments == ["--list-options"]:
        _list_options()
        sys.exit(0)
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest:
        _refuse_unknown(rest)
        wrong(f'fanin controller: unexpected argument "{rest[0]}"')
    values: Dict[str, Any] = {row.name: row.default for row in ROWS}
    config: Optional[str] = given.config or os.environ.get("FANIN_CONFIG")
    if config:
        values.update(_read_config(config))
    for row in ROWS:
        variable = "FANIN_CONTROLLER_" + row.name.upper().replace("-", "_")
        if variable in os.environ:
            values[row.name] = _checked(variable, row, os.environ[variable])
    for row in ROWS:
        text = getattr(given, row.name.replace("-", "_"))
        if text is not None:
            values[row.name] = _checked(f"fanin controller: --{row.name}", row, text)
    values["topology"] = given.topology
    return values


# ---- asking ----

PATIENCE_S = 30  # a controller that plans answers afterwards
ANSWER_BYTES_MAX = 256 << 20


def _answer(path: str, line: str) -> str:
    """The answer of the controller there; OSError: there is none."""
    by_s = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE_S)
        s.connect(path)
        s.sendall(line.encode(errors="surrogateescape") + b"\n")
        found = bytearray()
        while part := s.recv(65536):
            found += part
            if len(found) > ANSWER_BYTES_MAX or time.monotonic() > by_s:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    if not found:
        raise OSError(0, "no answer")
    if not found.endswith(b"\n"):  # a part of an answer
        raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return found.decode(errors="replace")


def _ask(path: str, line: str) -> int:
    """Print the answer; the exit status."""
    try:
        text = _answer(path, line)
    except OSError as error:
        print(
            f"fanin controller: --socket: {path}: {error.strerror or error}; does a controller run "
            "there with that --socket?",
            file=sys.stderr,
        )
        return 1
    is_wrong = text.startswith("error:")
    to = sys.stderr if is_wrong else sys.stdout
    try:
        to.write(text)
        to.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())
        print(f"fanin: standard output: {error.strerror}", file=sys.stderr)
        return 1
    return 2 if is_wrong else 0


def main(arguments: List[str]) -> int:
    """Run it; the exit status: 0 after SIGINT or SIGTERM, 1 when it could not start, or nobody
    answered, 2 when an option, the topology or a plan made no sense."""
    values = read(arguments)
    if values["ask"] and values["socket"]:
        return _ask(values["socket"], values["ask"])
    if values["ask"]:
        wrong("fanin controller: --ask: expected with --socket PATH")
    if not values["topology"]:
        wrong("fanin controller: expected TOPOLOGY.json, or a topology to make")
    if not values["listen"]:
        wrong("fanin controller: --listen: expected ADDR:PORT, for instance --listen 10.8.0.1:7700")
    if not values["key"] and os.environ.get("FANIN_CONTROLLER_KEY_FILE"):
        print(
            "fanin controller: FANIN_CONTROLLER_KEY_FILE is set, which only ranks read, so no job "
            "may be open; expected --key FILE, or FANIN_CONTROLLER_KEY_FILE unset",
            file=sys.stderr,
        )
        return 2
    from .serve import serve  # what --ask does not need takes a while

    return serve(values)
