#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of all *.md files lead to a file, and to a heading where they have a #fragment.
On doc/tour.md each `name()` is a function of a source file that its paragraph has a link to, and the
unit tests of its commands exist.

    tools/doc-links.py
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```.*?^```|    .*?$)|`[^`\n]*`", re.M | re.S)


def anchors(page):
    """The fragments that GitHub makes of a page's headings."""
    for heading in re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.M):
        text = re.sub(r"[^\w\- ]", "", LINK.sub("", heading).lower().strip())
        yield text.replace(" ", "-")


def problems(page):
    text = CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text(encoding="utf-8"))
    for found in LINK.finditer(text):
        where = f"{page}:{text.count(chr(10), 0, found.start()) + 1}: {found.group(1)}"
        name, _, fragment = found.group(1).partition("#")
        if re.match(r"[a-z]+:", name):
            continue
        target = page.parent / name if name else page
        if not target.exists():
            yield f"{where}: no such file"
        elif fragment and fragment not in anchors(target):
            yield f"{where}: no such heading"


FUNCTION = re.compile(r"\]\(([^)\s]+\.[ch])\)|`(\w+)\(\)`")

UNITS = {
    "_".join(path.relative_to("test/unit").with_suffix("").parts)
    for path in Path("test/unit").rglob("*.c")
}


def absent(page):
    """Functions that are in no source file of their paragraph, and tests that are not there."""
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        files = [link for link, _ in FUNCTION.findall(paragraph) if link]
        texts = [
            (page.parent / link).read_text(encoding="utf-8")
            for link in files
            if (page.parent / link).exists()
        ]
        for _, name in FUNCTION.findall(paragraph):
            begin = re.compile(rf"^[a-z#][\w *]*\b{name}\(", re.M)  # of a definition: in column 1
            if name and not any(begin.search(text) for text in texts):
                yield f"{page}: {name}(): not in {' or '.join(files) or 'any file'}"
        for line in re.findall(r"meson test -C build ([\w ]+)", paragraph):
            for name in set(line.split()) - UNITS:
                yield f"{page}: {name}: no unit program"


def main():
    pages = [
        page
        for page in sorted(Path(".").rglob("*.md"))
        if not page.parts[0].startswith(("build", ".venv"))
    ]
    bad = [problem for page in pages for problem in problems(page)]
    bad += absent(Path("doc/tour.md"))
    print("\n".join(bad) or f"{len(pages)} pages")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
