#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One page over all recorded results: what was asked, what was obtained, what misses.

    tools/results-page.py [OUT.html]      from bench/results and experiments (build/results.html)

Nothing is measured here: the figures are those of the JSON files, and their links lead to the pages
beside these.
"""

import html
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(os.path.join(ROOT, "share", "report.css"), encoding="utf-8") as css:
    STYLE = css.read()
ROW, THICK, NAMES, BARS, WIDTH = 24, 14, 190, 620, 960


def sources():
    """(name, JSON file, page or None), by name."""
    found = []
    folder = os.path.join(ROOT, "bench", "results")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            found.append(("bench/" + name[:-5], os.path.join(folder, name), None))
    folder = os.path.join(ROOT, "experiments")
    for name in sorted(os.listdir(folder)):
        result = os.path.join(folder, name, "result.json")
        page = os.path.join(folder, name, "report.html")
        if os.path.exists(result):
            found.append(("experiments/" + name, result, page if os.path.exists(page) else None))
    return found


def number(value):
    if value is None:
        return "not measured"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return "%.4g" % value if abs(value) < 1e5 else "%.0f" % value


def asked_text(figure):
    if figure["asked"] is None:
        return "-"
    relation = figure.get("relation") or ("<=" if figure.get("at_most") else ">=")
    return "%s %s" % (relation, number(figure["asked"]))


def shortfall(figure):
    """By what factor a figure misses; at least 1."""
    asked, got = figure["asked"], figure["obtained"]
    if not isinstance(asked, (int, float)) or not isinstance(got, (int, float)):
        return 1.0
    low, high = sorted((abs(asked), abs(got)))
    return high / low if low else float("inf")


def cells(figure):
    holds = figure["holds"]
    word = {True: "yes", False: "no", None: "-"}[holds]
    failed = figure.get("failed_jobs")
    note = " (%d runs failed)" % failed if failed else ""
    return "<td>%s%s<td class=n>%s<td class=n>%s %s<td%s>%s" % (
        html.escape(figure["name"]), note, html.escape(asked_text(figure)),
        number(figure["obtained"]), html.escape(figure.get("unit") or ""),
        " class=no" if holds is False else "", word,
    )  # fmt: skip


def chart(groups):
    """For each source, how many of the figures that were asked hold, and how many miss."""
    rows = [
        (name, [sum(f["holds"] is v for f in figures) for v in (True, False)], len(figures))
        for name, figures, _, _ in groups
    ]
    most = max(sum(counts) for _, counts, _ in rows) or 1
    lines = [
        '<svg viewBox="0 0 %d %d" role="img" aria-label="Figures of each command that hold and '
        'that miss">' % (WIDTH, ROW * len(rows) + 28),
        '<defs><pattern id="h" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="5" height="5" class="misses"/>'
        '<rect width="1.6" height="5" fill="var(--bg)"/></pattern></defs>',
    ]
    for row, (name, counts, all_of_them) in enumerate(rows):
        x, y = NAMES, row * ROW + 4
        lines.append(
            '<text x="%d" y="%d" text-anchor="end">%s</text>'
            % (NAMES - 8, y + 12, html.escape(name))
        )
        for count, fill in zip(counts, ('class="holds"', 'fill="url(#h)"')):
            width = BARS * count / most
            lines.append(
                '<rect x="%.1f" y="%d" width="%.1f" height="%d" %s/>' % (x, y, width, THICK, fill)
            )
            x += width
        text = (
            "%d of %d hold" % (counts[0], sum(counts))
            if sum(counts)
            else "%d figures, for information" % all_of_them
        )
        lines.append('<text x="%.1f" y="%d" class="soft">%s</text>' % (x + 6, y + 12, text))
    lines.append(
        '<text x="%d" y="%d" class="soft">figures that were asked: plain holds, hatched misses'
        "</text></svg>" % (NAMES, ROW * len(rows) + 18)
    )
    return "\n".join(lines)


HEAD = "<tr><th>figure<th class=n>asked<th class=n>obtained<th>holds</tr>"


def section(name, figures, revision, link):
    order = {False: 0, True: 1, None: 2}
    figures = sorted(figures, key=lambda f: order[f["holds"]])
    missed = sum(f["holds"] is False for f in figures)
    word = "%d of %d miss" % (missed, len(figures)) if missed else "%d figures" % len(figures)
    rows = "\n".join("<tr>%s" % cells(f) for f in figures)
    page = ' <a href="%s">its page</a>' % html.escape(link) if link else ""
    return (
        "<details%s><summary><b>%s</b>: %s</summary><p>Revision %s.%s</p>"
        '<div class="scroll"><table>%s\n%s</table></div></details>'
        % (" id=%s" % html.escape(name.replace("/", "-")), html.escape(name), word,
           html.escape(str(revision)[:12]), page, HEAD, rows)
    )  # fmt: skip


def page(groups):
    everything = [(name, f) for name, figures, _, _ in groups for f in figures]
    asked = [(name, f) for name, f in everything if f["holds"] is not None]
    missed = sorted((x for x in asked if x[1]["holds"] is False), key=lambda x: -shortfall(x[1]))
    title = "fanin: %d of %d figures hold" % (len(asked) - len(missed), len(asked))
    rows = "\n".join("<tr><td>%s%s" % (html.escape(name), cells(f)) for name, f in missed)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>\n<title>%s</title>\n<style>%s</style>"
        "</head><body><main><h1>%s</h1>\n<p>As recorded; %d further figures are for information.</p>"
        '\n%s\n<h2>What misses, the farthest first</h2>\n<div class="scroll"><table><tr><th>from%s\n'
        "%s</table></div>\n<h2>All</h2>\n%s\n</main></body></html>\n"
        % (title, STYLE, title, len(everything) - len(asked), chart(groups), HEAD[4:], rows,
           "\n".join(section(*g) for g in groups))
    )  # fmt: skip


def main():
    out = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT + "/build/results.html")
    groups = []
    for name, path, report in sources():
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        link = os.path.relpath(report, os.path.dirname(out)) if report else None
        groups.append((name, result["figures"], result.get("revision"), link))
    with open(out, "w", encoding="utf-8") as file:
        file.write(page(groups))
    figures = [f for _, one, _, _ in groups for f in one]
    print("%s: %d results, %d figures, %d of them asked, %d miss" % (
        out, len(groups), len(figures), sum(f["holds"] is not None for f in figures),
        sum(f["holds"] is False for f in figures)))  # fmt: skip


if __name__ == "__main__":
    main()
