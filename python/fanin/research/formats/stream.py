# SPDX-License-Identifier: Apache-2.0
"""JSON of any length, value by value: a trace of 100 MB never is a tree in memory."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Iterator, NamedTuple

from .network import FormatError

CHUNK_BYTES = 1 << 20
VALUE_MAX = 8 << 20  # characters of a value that is an entry of the outermost list or object
BRACKETS_MAX = 1 << 17  # of a value that a chunk does not hold
ENTRIES_FREE, ENTRY_BYTES_MIN = (
    1 << 16,
    64,
)  # a list of more entries has no shorter ones, on average
_BLANK = " \t\r\n"
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*").match


class Item(NamedTuple):
    """An entry of the outermost object or of a list in it; `key` "": of a list, or one of several
    values behind each other.  An empty list is one item without a value."""

    key: str
    value: Any
    in_list: bool


class _Text:
    """The text of a file, a part of which is in memory."""

    def __init__(self, data: bytes) -> None:
        self._data, self._taken = memoryview(data), 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._json = json.JSONDecoder(strict=False)
        self._dropped = 0
        self.text, self.at = "", 0
        self.entries = 0  # of lists, so far

    @property
    def ended(self) -> bool:
        """Is all of the rest in memory?"""
        return self._taken == len(self._data)

    def more(self, size: int) -> None:
        """Take as many bytes more."""
        part = self._data[self._taken : self._taken + max(size, CHUNK_BYTES)]
        self._taken += len(part)
        self._dropped += self.at
        if self.entries > max(ENTRIES_FREE, self._taken // ENTRY_BYTES_MIN):
            raise self.fail("more and shorter entries than traces have", 0)
        self.text = self.text[self.at :] + self._decoder.decode(part, self.ended)
        self.at = 0

    def fail(self, cause: str, at: int) -> FormatError:
        """An error at this character."""
        return FormatError(f"not JSON: {cause} at character {self._dropped + at + 1}")

    def peek(self) -> str:
        """The next character that is not blank; "": there is none."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.more(CHUNK_BYTES)

    def take(self, wanted: str, named: str) -> str:
        """The next character, which must be one of these."""
        found = self.peek()
        if not found:
            raise FormatError("not JSON: it ends too early")
        if found not in wanted:
            raise self.fail(f"expected {named}", self.at)
        self.at += 1
        return found

    def entry(self) -> Any:
        """The next entry of a list, if it and the comma behind it are in memory; None: they are not."""
        try:
            value, end = self._json.raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            return None
        comma = _COMMA(self.text, end)
        if comma:
            self.at = comma.end()
        return value if comma else None

    def value(self) -> Any:
        """The next value."""
        if not self.peek():
            raise FormatError("not JSON: it ends too early")
        while True:
            try:
                value, end = self._json.raw_decode(self.text, self.at)
                if end < len(self.text) or self.ended:
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                end = len(self.text.rstrip(_BLANK)) if self.ended else len(self.text) - 16
                if error.pos < end and not error.msg.startswith("Unterminated"):
                    raise self.fail(error.msg, error.pos) from None
                if self.ended:
                    raise FormatError("not JSON: it ends too early") from None
            except RecursionError:
                raise self.fail("too deep a nesting", self.at) from None
            except ValueError:
                raise self.fail("too long a number", self.at) from None
            if self.text.count("[", self.at) + self.text.count("{", self.at) > BRACKETS_MAX:
                raise self.fail(f"a value of more than {BRACKETS_MAX} lists and objects", self.at)
            if len(self.text) - self.at > VALUE_MAX:
                raise self.fail(f"a value of more than {VALUE_MAX >> 20} MiB", self.at)
            self.more(len(self.text) - self.at)


def _list(text: _Text, key: str) -> Iterator[Item]:
    text.take("[", "'['")
    if text.peek() == "]":
        text.at += 1
        yield Item(key, None, True)
        return
    while True:
        text.peek()
        value = text.entry()
        while value is not None:
            yield Item(key, value, True)
            text.entries += 1
            value = text.entry()
        text.entries += 1
        yield Item(key, text.value(), True)
        if not text.peek() and not key:
            return  # Chrome's format has no need of the last bracket
        if text.take(",]", "',' or ']'") == "]":
            return


def _object(text: _Text) -> Iterator[Item]:
    text.take("{", "'{'")
    end = "}" if text.peek() == "}" else ""
    if end:
        text.at += 1
    while not end:
        key = text.value()
        if not isinstance(key, str):
            raise text.fail("expected a key", text.at)
        text.take(":", "':'")
        if text.peek() == "[":
            yield from _list(text, key)
        else:
            yield Item(key, text.value(), False)
        end = text.take(",}", "',' or '}'").strip(",")


def _are_several(text: _Text) -> bool:
    """Does a value follow the first one, within the first chunk?"""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text.text, text.at)
    except (ValueError, RecursionError):
        return False
    return bool(text.text[end:].strip(_BLANK + ","))


def items(data: bytes) -> Iterator[Item]:
    """The entries of a file's outermost list or object, or its values behind each other."""
    text = _Text(data)
    text.more(CHUNK_BYTES)
    if text.peek() == "[":
        yield from _list(text, "")
    elif not _are_several(text):
        yield from _object(text)
    else:
        while text.peek():
            yield Item("", text.value(), True)
            if text.peek() == ",":
                text.at += 1
        return
    if text.peek():
        raise text.fail("text behind its end", text.at)
