# SPDX-License-Identifier: Apache-2.0
"""Files as the commands read and write them, and JSON that has one meaning."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

BYTES_MAX = 256 << 20  # of a file that is read
INT_MAX = (1 << 63) - 1


class FileError(ValueError):
    """A file that cannot be read or written, or makes no sense; the text names it and the cause."""


@contextmanager
def of(name: str) -> Iterator[None]:
    """FileError: one about what is in the file `name`, which it begins with then."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{name}: {error}") from None


def plain(text: str) -> str:
    """The text with a question mark for each character that a terminal might obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)


# ---- reading and writing ----


def _open(path: str, flags: int, pipes: bool = True) -> int:
    """Open a regular file, a pipe or a device, without waiting for a pipe's other end."""
    more = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(path, flags | more, 0o666)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or pipes and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))):
        os.close(fd)
        raise FileError(f"{path}: expected a regular file")
    os.set_blocking(fd, True)
    return fd


def read(path: str, bytes_max: int = BYTES_MAX) -> bytes:
    """All of a file, which has at most so many bytes."""
    try:
        with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if len(data) > bytes_max:
        raise FileError(f"{path}: more than {bytes_max >> 20} MiB")
    return data


def can_write(path: str) -> None:
    """Check that `path` can be written, before work is done whose result would be lost."""
    if path == "-":
        return
    try:
        new = not os.path.exists(path)
        if not new and stat.S_ISFIFO(os.stat(path).st_mode):
            return  # closing would end its reader's input
        os.close(_open(path, os.O_WRONLY | (os.O_CREAT if new else 0)))
        if new:
            os.unlink(path)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def write(path: str, text: str) -> None:
    """Write a text to `path`, or to standard output for "-"."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with os.fdopen(_open(path, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            file.write(text)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def renew(path: str, text: str) -> None:
    """Write PATH.new, and make it the file, so that a reader finds a whole one.  What stands at `path` has to be a regular file, or
    nothing; links are followed at neither name.  OSError: the file is as it was."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(0, "expected a regular file, or none")
    except FileNotFoundError:
        pass
    new = path + ".new"
    try:
        os.unlink(new)  # of a program that was killed, or laid there by somebody
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(new, flags, 0o666)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(new, path)
    except OSError:
        os.unlink(new)
        raise


# ---- JSON ----


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'duplicate object key "{twice}"')
    return found


def _whole(text: str) -> int:
    value = int(text) if len(text) < 21 else INT_MAX + 1
    if not -INT_MAX - 1 <= value <= INT_MAX:
        raise ValueError(f"{text[:24]}: too big a number")
    return value


def _constant(text: str) -> Any:
    raise ValueError(f"{text}: no number of JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant, strict=True
)


def decode(text: str) -> Any:
    """What the text says as JSON.  ValueError, RecursionError: it is none."""
    return _DECODER.decode(text)


def value_of(text: str) -> Any:
    """What the text says as JSON or, if it is none, the text."""
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return text


def parse(data: bytes) -> Any:
    """The array or object that a file has as JSON.  FileError: line, column and cause."""
    try:
        text = data.decode("utf-8")
        if text.lstrip(" \t\r\n")[:1] in ("{", "["):
            return decode(text)
        cause = "line 1, column 1: not JSON: '[' or '{' expected"
    except json.JSONDecodeError as error:
        cause = f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
    except (ValueError, RecursionError) as error:
        cause = f"not JSON: {error}"
    raise FileError(plain(cause))


def load(path: str) -> Any:
    """The array or object in a file."""
    data = read(path)
    with of(path):
        return parse(data)


def real(value: float, digits: int = 15) -> str:
    """The number as the engine writes it."""
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    if e:
        return f"{mantissa}e{int(exponent)}"
    return mantissa if "." in mantissa else mantissa + ".0"


def dump(
    value: Any, indent: int = 0, step: int = 1, digits: int = 15, ascii_only: bool = True
) -> str:
    """The value as JSON, laid out as jansson does; `indent`: what stands before its last line.

    `step` 0: all on one line."""

    def text(one: Any) -> str:
        return json.dumps(one, ensure_ascii=ascii_only)

    def laid_out(one: Any, indent: int) -> str:
        inner, after = ("\n" + " " * (indent + step), "\n" + " " * indent) if step else ("", "")
        if isinstance(one, float):
            return real(one, digits)
        if isinstance(one, dict) and one:
            rows = [text(key) + colon + laid_out(v, indent + step) for key, v in one.items()]
            return "{" + inner + ("," + inner).join(rows) + after + "}"
        if isinstance(one, list) and one:
            rows = [laid_out(v, indent + step) for v in one]
            return "[" + inner + ("," + inner).join(rows) + after + "]"
        return text(one)

    colon = ": " if step else ":"
    return laid_out(value, indent)
