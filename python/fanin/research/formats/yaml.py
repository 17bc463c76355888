# SPDX-License-Identifier: Apache-2.0
"""YAML as people write networks in it, without a package.

Read are block and flow collections, plain and quoted scalars on one line, texts in lines (| and >)
and comments, in one document.  Anchors, aliases, tags and merges are refused: no alias can grow.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, Optional

from .network import FormatError

DEPTH_MAX, LINES_MAX = 32, 1 << 18

_INT = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_REAL = re.compile(r"[+-]?(\d{1,18}\.\d{0,18}|\.\d{1,18})([eE][+-]?\d{1,3})?", re.ASCII)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


def _scalar(text: str) -> Any:
    """What a scalar says."""
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        return json.loads(text)
    if text[:1] == text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else _WORDS.get(text.lower(), text)


def _code(line: str) -> str:
    """The line without a comment, and without blanks at its end."""
    quote = ""
    for i, c in enumerate(line) if "#" in line else ():
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'" and (i == 0 or line[i - 1] in " [{,"):
            quote = c
        elif c == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i].rstrip()
    return line.rstrip()


def _key(text: str) -> Optional[tuple[str, str]]:
    """Key and value of a line as "key: value"; None: it is no such line."""
    if text[0] in "\"'":
        end = text.find(text[0], 1) + 1
        rest = text[end:].lstrip() if end else ""
        return (text[:end], rest[1:].lstrip()) if rest[:2] in (":", ": ") else None
    key, colon, rest = (text + " ").partition(": ")
    if not colon or text[0] in "[]{},#&*!|>%@`":
        return None
    return key.rstrip(), rest.strip()


class _Flow:
    """A collection in brackets."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def _next(self) -> str:
        """The next character that is no blank."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _scalar(self, ends: str) -> Any:
        c, start = self._next(), self.at
        if c and c in "\"'":
            found = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^']|'')*'").match(self.text, start)
        else:
            found = re.compile(rf"(?![&*!])(?:[^{ends},:]|:(?=[^\s,\]}}]))*").match(
                self.text, start
            )
        if not found or not found[0]:
            raise ValueError(f"expected a value at {self.text[start:start + 20]!r}")
        self.at = found.end()
        return _scalar(found[0].strip())

    def value(self, depth: int) -> Any:
        """The value that begins here."""
        c = self._next()
        if depth > DEPTH_MAX:
            raise ValueError(f"more than {DEPTH_MAX} collections inside each other")
        if c not in ("[", "{"):
            return self._scalar(r"\[\]{}")
        self.at += 1
        items: list[Any] = []
        pairs: dict[Any, Any] = {}
        while self._next() != ("]" if c == "[" else "}"):
            one = self.value(depth + 1)
            if self._next() == ":":
                self.at += 1
                pairs[str(one)] = self.value(depth + 1) if self._next() not in (",", "}") else None
            items.append({str(one): pairs[str(one)]} if str(one) in pairs and c == "[" else one)
            if self._next() == ",":
                self.at += 1
            elif self._next() not in ("]", "}"):
                raise ValueError(f"expected a comma at {self.text[self.at:self.at + 20]!r}")
        self.at += 1
        return items if c == "[" else pairs


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.replace("\r\n", "\n").split("\n", LINES_MAX)
        if len(self.lines) > LINES_MAX:
            raise FormatError(f"more than {LINES_MAX} lines")
        self.at = 0

    def fail(self, cause: str) -> NoReturn:
        raise FormatError(f"line {self.at + 1}: {cause}")

    def peek(self) -> Optional[tuple[int, str]]:
        """Indent and text of the next line that has something; None: the end."""
        while self.at < len(self.lines):
            line = _code(self.lines[self.at])
            text = line.lstrip(" ")
            if text and not line.startswith(("---", "%")):
                if text[0] == "\t":
                    self.fail("a tab in the indent")
                return None if line == "..." else (len(line) - len(text), text)
            self.at += 1
        return None

    def node(self, indent: int, depth: int) -> Any:
        """The value whose first line is the next one, if that is indented so far."""
        head = self.peek()
        if head is None or head[0] < indent:
            return None
        if depth > DEPTH_MAX:
            self.fail(f"more than {DEPTH_MAX} collections inside each other")
        if head[1] == "-" or head[1].startswith("- "):
            return self._sequence(head[0], depth)
        if _key(head[1]):
            return self._mapping(head[0], depth)
        return self._value(head[0] - 1, head[1])

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            head = self.peek()
            if not head or head[0] != indent or not (head[1] == "-" or head[1].startswith("- ")):
                return found
            rest = head[1][1:].lstrip(" ")
            self.lines[self.at] = " " * (indent + len(head[1]) - len(rest)) + rest
            found.append(self.node(indent + 1, depth + 1))

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            head = self.peek()
            if not head or head[0] < indent:
                return found
            key = _key(head[1]) if head[0] == indent else None
            if not key:
                self.fail(f"not YAML as it is read here: {head[1][:20]!r}")
            name, rest = str(_scalar(key[0])), key[1]
            if name in found or name == "<<":
                self.fail("a merge: write it out" if name == "<<" else f'"{name[:40]}" twice')
            if rest:
                found[name] = self._value(indent, rest)
                continue
            self.at += 1
            below = self.peek()
            is_list = below and below[0] == indent and below[1].startswith("-")
            found[name] = self.node(indent if is_list else indent + 1, depth + 1)

    def _value(self, indent: int, text: str) -> Any:
        """A scalar or a flow collection; what goes on in the next lines is indented further."""
        if text[0] in "&*!`@":
            self.fail("an anchor, alias or tag: write out what it stands for")
        start = self.at
        self.at += 1
        more = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            code = line if text[0] in "|>" else _code(line)
            if code.strip() and len(code) - len(code.lstrip(" ")) <= indent:
                if text[0] not in "[{" or code.strip()[0] not in "]}":
                    break
            more.append(code.strip())
            self.at += 1
        if text[0] in "|>":
            return "\n".join(more)
        text = " ".join([text, *filter(None, more)])
        try:
            if text[0] not in "[{":
                return _scalar(text)
            flow = _Flow(text)
            found = flow.value(0)
            if text[flow.at :].strip():
                raise ValueError(f"unexpected {text[flow.at:].strip()[:20]!r}")
            return found
        except ValueError as error:
            raise FormatError(f"line {start + 1}: {error}") from None


def parse(text: str) -> Any:
    """The document's value.  FormatError: it is no YAML, or more of it than is read here."""
    reader = _Reader(text)
    found = reader.node(0, 0)
    head = reader.peek()
    if head:
        reader.fail(f"not YAML as it is read here: {head[1][:20]!r}")
    return found
