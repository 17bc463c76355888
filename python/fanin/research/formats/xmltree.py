# SPDX-License-Identifier: Apache-2.0
"""XML as a tree of the elements that a reader asks for, within bounds and without entities.

Names lose their prefix: yEd writes <y:NodeLabel>, others <graphml:node>.
"""

from __future__ import annotations

from typing import Any, Iterator, NoReturn, Sequence
from xml.parsers import expat

from .network import FormatError

ELEMENTS_MAX = 1 << 19
DEPTH_MAX = 256
TEXT_MAX = 1024  # characters of an element's text; more is left out
CHUNK_BYTES, CHUNKS_MAX = 1 << 16, 16  # parsed at a time, and of one tag or comment


class Element:
    """An element, its attributes, its text, and the elements inside that are wanted."""

    __slots__ = ("tag", "of", "text", "inside", "line")

    def __init__(self, tag: str, of: dict[str, str], line: int) -> None:
        self.tag, self.of, self.line, self.text = tag, of, line, ""
        self.inside: list[Element] = []

    def all(self, tag: str) -> Iterator[Element]:
        """The children of a name."""
        return (one for one in self.inside if one.tag == tag)

    def text_of(self, tag: str) -> str:
        """The text of the first child of a name, without blanks around it; "": there is none."""
        return next((one.text.strip() for one in self.all(tag)), "")

    def walk(self) -> Iterator[Element]:
        """Itself and all below it, in the order of the text."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.inside))


class _Builder:
    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted, self.count, self.idle = frozenset(wanted), 0, 0
        self.root = Element("", {}, 0)
        self.stack = [self.root]  # kept elements that are open
        self.skipped: list[bool] = []  # by open element: it is not kept
        self.xml = expat.ParserCreate()
        self.xml.buffer_text = True
        self.xml.StartElementHandler = self.begin
        self.xml.EndElementHandler = self.end
        self.xml.CharacterDataHandler = self.characters
        self.xml.EntityDeclHandler = self.entity

    def fail(self, cause: str) -> NoReturn:
        raise FormatError(f"line {self.xml.CurrentLineNumber}: {cause}")

    def entity(self, *_: Any) -> None:
        self.fail("an entity, of which no network needs one")

    def begin(self, tag: str, of: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        skip = tag not in self.wanted
        self.skipped.append(skip)
        self.count += 1
        self.idle = 0
        if len(self.skipped) > DEPTH_MAX:
            self.fail(f"more than {DEPTH_MAX} elements inside each other")
        if self.count > ELEMENTS_MAX:
            self.fail(f"more than {ELEMENTS_MAX} elements")
        if skip:
            return
        one = Element(tag, of, self.xml.CurrentLineNumber)
        self.stack[-1].inside.append(one)
        self.stack.append(one)

    def characters(self, text: str) -> None:
        self.idle, one = 0, self.stack[-1]
        if not self.skipped[-1] and len(one.text) < TEXT_MAX:
            one.text += text[:TEXT_MAX]

    def end(self, _: str) -> None:
        if not self.skipped.pop():
            self.stack.pop()


def parse(data: bytes, wanted: Sequence[str]) -> Element:
    """A root above the first element.  Of others than `wanted`, what is inside counts for the
    nearest one above that is.  FormatError: not well-formed, an entity, or too much."""
    builder = _Builder(wanted)
    try:
        for start in range(0, len(data), CHUNK_BYTES):
            builder.idle += 1
            if builder.idle > CHUNKS_MAX:
                builder.fail(f"a tag or comment of more than {CHUNKS_MAX * CHUNK_BYTES >> 20} MiB")
            builder.xml.Parse(data[start : start + CHUNK_BYTES], False)
        builder.xml.Parse(b"", True)
    except expat.ExpatError as error:
        raise FormatError(f"line {error.lineno}: {expat.ErrorString(error.code)}") from None
    except LookupError as error:  # its encoding
        raise FormatError(f"line 1: {error}") from None
    return builder.root
