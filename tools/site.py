#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The site of all pages: README, guides, protocol, decisions, recorded results, as files that load nothing from elsewhere.

    tools/site.py [DIR]      into DIR (build/site); DIR/index.html is README.md

Of Markdown it knows what these pages use: headings, paragraphs, lists, code, tables, pictures, links, bold.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "doc/*.md", "doc/adr/*.md", "doc/protocol/*.md", "bench/README.md", "experiments/*.md",
         "experiments/xdp-switch/README.md", "examples/README.md")  # fmt: skip
PATHS = (("fanin", "index.html"), ("Begin", "doc/README.html"), ("Train", "doc/pytorch.html"), ("Operate", "doc/deploy.html"),
         ("Research", "doc/sim.html"), ("Extend", "doc/extend.html"), ("Papers", "experiments/README.html"),
         ("Results", "results.html"))  # fmt: skip
STYLE = """
:root{--bg:#fff;--ink:#1f2328;--soft:#57606a;--line:#d0d7de;--fill:#f6f8fa;--link:#0b62a4}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--fill:#161b22;--link:#58b1f5}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
nav{border-bottom:1px solid var(--line);padding:10px 20px;display:flex;flex-wrap:wrap;gap:6px 18px}
main{max-width:880px;margin:0 auto;padding:8px 20px 60px;overflow-wrap:break-word}
a{color:var(--link)}nav a{text-decoration:none}nav a.here{font-weight:600;color:var(--ink)}
h1{font-size:1.9em;line-height:1.25}h2{margin-top:2em;padding-bottom:.2em;border-bottom:1px solid var(--line)}
img{max-width:100%;height:auto}pre,code{font:13.5px/1.5 ui-monospace,monospace;background:var(--fill);border-radius:5px}
pre{padding:10px 12px;overflow-x:auto}code{padding:.1em .3em}pre code{padding:0}
.wide{overflow-x:auto}table{border-collapse:collapse}td,th{border:1px solid var(--line);padding:5px 9px;vertical-align:top;text-align:left}
th{background:var(--fill)}
@media(max-width:640px){p:has(img){overflow-x:auto}p img{max-width:none;width:720px}}
"""


def anchor(text):
    """As GitHub makes it of a heading, and tools/doc-links.py expects it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", "", text.lower().strip())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Page:
    """A page of Markdown that becomes one of HTML."""

    def __init__(self, path, pages):
        self.path, self.pages = path, pages
        self.text = re.sub(
            r"<!--.*?-->\n?", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.S
        )
        self.out = "index.html" if path == "README.md" else path[:-3] + ".html"

    def href(self, link):
        """Where a link leads on the site; None: to what is no part of it."""
        if re.match(r"[a-z]+:", link):
            return link
        name, _, fragment = link.partition("#")
        if not name:
            return link
        target = os.path.normpath(os.path.join(os.path.dirname(self.path), name))
        if target in self.pages or target.endswith(".svg"):
            to = self.pages[target].out if target in self.pages else target
            return os.path.relpath(to, os.path.dirname(self.out) or ".") + (
                "#" + fragment if fragment else ""
            )
        return None

    def inline(self, text):
        codes = []

        def keep(match):
            codes.append("<code>%s</code>" % html.escape(match.group(1), quote=False))
            return "\0%d\0" % (len(codes) - 1)

        def link(match):
            to = self.href(match.group(2))
            return '<a href="%s">%s</a>' % (to, match.group(1)) if to else match.group(1)

        text = html.escape(re.sub(r"`([^`]+)`", keep, text), quote=False)
        text = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)\)", lambda m: '<img alt="%s" src="%s">' % (
            m.group(1).replace('"', "&quot;"), self.href(m.group(2))), text)  # fmt: skip
        text = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, text)
        text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
        text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<i>\1</i>", text)
        text = re.sub(r"\\([\\*_|<>])", r"\1", text)
        return re.sub("\0(\\d+)\0", lambda m: codes[int(m.group(1))], text)

    def table(self, lines):
        def cells(line):
            found = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            return [self.inline(cell.strip().replace("\\|", "|")) for cell in found]

        head = "".join("<th>%s" % cell for cell in cells(lines[0]))
        rows = ("".join("<td>%s" % cell for cell in cells(line)) for line in lines[2:])
        return "<div class=wide tabindex=0><table><tr>%s<tr>%s</table></div>" % (
            head,
            "<tr>".join(rows),
        )

    def items(self, lines):
        """A list; lines that are indented belong to the item above."""
        ordered = bool(re.match(r"\d+\. ", lines[0]))
        found = []
        for line in lines:
            match = re.match(r"(?:[*-]|\d+\.) +(.*)", line)
            if match:
                found.append([match.group(1)])
            else:
                found[-1].append(re.sub(r"^ {1,3}", "", line))
        parts = []
        for item in found:
            rest = "\n".join(item)
            inner = self.blocks(rest.split("\n"))
            parts.append(
                "<li>%s" % (re.sub(r"^<p>|</p>$", "", inner) if inner.count("<p>") == 1 else inner)
            )
        return "<%s>%s</%s>" % (
            ("ol" if ordered else "ul"),
            "".join(parts),
            "ol" if ordered else "ul",
        )

    def blocks(self, lines):
        out, i = [], 0

        def take(test):
            nonlocal i
            begin = i
            while i < len(lines) and test(lines[i]):
                i += 1
            return lines[begin:i]

        while i < len(lines):
            line = lines[i]
            if not line.strip():
                i += 1
            elif line.startswith("```"):
                i += 1
                code = take(lambda text: not text.startswith("```"))
                i += 1
                out.append("<pre><code>%s</code></pre>" % html.escape("\n".join(code), quote=False))
            elif line.startswith("    "):
                code = take(lambda text: text.startswith("    ") or not text.strip())
                text = "\n".join(part[4:] for part in code).rstrip()
                out.append("<pre><code>%s</code></pre>" % html.escape(text, quote=False))
            elif line.startswith("#"):
                level, text = len(line) - len(line.lstrip("#")), line.lstrip("#").strip()
                out.append(
                    '<h%d id="%s">%s</h%d>' % (level, anchor(text), self.inline(text), level)
                )
                i += 1
            elif line.startswith("|"):
                out.append(self.table(take(lambda text: text.startswith("|"))))
            elif re.match(r"([*-]|\d+\.) ", line):
                out.append(self.items(take(lambda text: re.match(r"([*-]|\d+\.) |  |\s*$", text))))
            else:
                part = take(
                    lambda text: text.strip()
                    and not re.match(r"#|\||```|([*-]|1\.) ", text)
                    or text is line
                )
                out.append("<p>%s</p>" % self.inline("\n".join(part)))
        return "\n".join(out)

    def html(self):
        title = re.search(r"^# +(.*)$", self.text, re.M)
        here = os.path.dirname(self.out) or "."
        nav = " ".join('<a href="%s"%s>%s</a>' % (
            os.path.relpath(to, here), " class=here" if to == self.out else "", name) for name, to in PATHS)  # fmt: skip
        return (
            '<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">\n'
            "<title>%s</title><style>%s</style></head>\n<body><nav>%s</nav>\n<main>\n%s\n</main></body></html>\n"
            % (
                html.escape(title.group(1) if title else self.path),
                STYLE.strip(),
                nav,
                self.blocks(self.text.split("\n")),
            )
        )


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    pages = {}
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            pages[name] = Page(name, pages)
    for page in pages.values():
        to = out / page.out
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(page.html(), encoding="utf-8")
    shutil.copytree(ROOT / "doc" / "pictures", out / "doc" / "pictures", dirs_exist_ok=True)
    subprocess.run(
        [sys.executable, ROOT / "tools" / "results-page.py", out / "results.html"], check=True
    )
    print("%s: %d pages" % (out / "index.html", len(pages)))


if __name__ == "__main__":
    main()
