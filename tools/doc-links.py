#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of all *.md files lead to a file, and to a heading where they have a #fragment.

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


def main():
    pages = [
        page
        for page in sorted(Path(".").rglob("*.md"))
        if not page.parts[0].startswith(("build", ".venv"))
    ]
    bad = [problem for page in pages for problem in problems(page)]
    print("\n".join(bad) or f"{len(pages)} pages")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
