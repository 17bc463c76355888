#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words of README.md and of the guides in doc, and how many of 100 words of their prose are numbers.

    tools/words.py [--bounds]    a line a page, and all; --bounds: 1 if there are too many

A guide is a page of doc but testing.md, which is for contributors.  A word has a letter or a digit.  Prose is neither
code nor a table; a number is a word that begins with a digit.  A retired word has a successor, and stands in no source and no page.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS_MAX, NUMBERS_MAX = 23500, 3
NOT_GUIDES = ("testing.md",)
RETIRED = {
    "hatch": "ring pair",
    "hatches": "ring pairs",
    "estate": "-",
    "steward": "-",
    "roster": "registry",
    "keeper": "helper",
}
SOURCES = ("src", "include", "planner", "simulator", "doc", "test/unit")


def words(text):
    return [word for word in text.split() if re.search(r"\w", word)]


def prose(text):
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.M | re.S)
    lines = [line for line in text.splitlines() if not re.match(r"    |\||#", line)]
    text = re.sub(r"`[^`\n]*`", "x", "\n".join(lines))
    return re.sub(r"\]\([^)]*\)", "]", text)


def is_number(word):
    return re.match(r"[\[(\"'*]*[-+]?\d", word) and not re.match(r"\d+\.$", word)


def retired():
    """The places of retired words: "FILE: WORD: say SUCCESSOR"."""
    for folder in SOURCES:
        for page in sorted((ROOT / folder).rglob("*.*")):
            if page.suffix not in (".c", ".h", ".md", ".scd"):
                continue
            text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT)
            for word in re.findall(r"(?<![a-z])(?:%s)(?![a-z])" % "|".join(RETIRED), text, re.I):
                yield "%s: %s: say %s" % (name, word, RETIRED[word.lower()])


def main():
    pages = [ROOT / "README.md"] + sorted(
        p for p in (ROOT / "doc").glob("*.md") if p.name not in NOT_GUIDES
    )
    total = plain = numbers = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        of = words(prose(text))
        found = sum(1 for word in of if is_number(word))
        print(
            "%-20s %6d words, %5.1f numbers in 100 of prose"
            % (page.relative_to(ROOT), len(words(text)), 100 * found / max(len(of), 1))
        )
        total, plain, numbers = total + len(words(text)), plain + len(of), numbers + found
    share = 100 * numbers / plain
    print("%-20s %6d words, %5.1f numbers in 100 of prose" % ("all", total, share))
    places = list(retired())
    print("\n".join(["%d retired words" % len(places), *places]))
    return "--bounds" in sys.argv and (total > WORDS_MAX or share > NUMBERS_MAX or bool(places))


if __name__ == "__main__":
    sys.exit(main())
