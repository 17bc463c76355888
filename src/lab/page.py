# SPDX-License-Identifier: Apache-2.0
"""What the lab tells: a table on the standard output, and a page of its own."""

import html
import os


def read_style():
    """share/report.css, which is beside this file where that is built or installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in ("report.css", "../../share/report.css"):
        path = os.path.join(here, path)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    return ""


# Of the chart, in pixels of its drawing.
WIDTH, NAMES, BARS, ROW, THICK = 960, 110, 700, 54, 13

COLUMNS = ("algorithm", "planned", "with results", "simulated", "measured", "by plan", "by sim",
           "parts", "gap s", "restarts", "wrong", "idle")  # fmt: skip
FORMAT = "%-9s %9s %13s %10s %9s %8s %7s %6s %7s %9s %6s %6s"


def number(value, digits=4):
    return "-" if value is None else "%.*g" % (digits, value)


def share(a, b):
    return "-" if not a or not b else "%+.1f %%" % (100 * (a / b - 1))


def cells(row):
    return (
        row["algorithm"],
        number(row["planned_gbps"]),
        number(row["with_results_gbps"]),
        number(row["simulated_gbps"]),
        number(row["measured_gbps"]),
        share(row["measured_gbps"], row["with_results_gbps"]),
        share(row["measured_gbps"], row["simulated_gbps"]),
        str(row["parts"]),
        number(row.get("gap_s"), 3),
        number(row.get("restarts")),
        str(row["wrong"]),
        "-" if row.get("cpu_idle") is None else "%d %%" % round(100 * row["cpu_idle"]),
    )


def about(made):
    count = {k: len(made.layout.of(k)) for k in ("worker", "switch", "server")}
    return "%d workers, %d switches, %d servers; 1 Gb/s of the topology is %.4g Mb/s here" % (
        count["worker"],
        count["switch"],
        count["server"],
        1000 * made.scale,
    )


def head(made):
    print("%s: %s" % (made.args.topology, about(made)))
    print(FORMAT % COLUMNS, flush=True)


def line(_, row):
    print(FORMAT % cells(row), flush=True)
    if row.get("error"):
        print("    %s" % row["error"], flush=True)


def chart(rows):
    most = max([r[k] or 0 for r in rows for k in ("with_results_gbps", "measured_gbps")] or [1])
    parts = []
    for i, row in enumerate(rows):
        top = i * ROW
        parts.append('<text x="0" y="%d">%s</text>' % (top + 26, html.escape(row["algorithm"])))
        for k, (key, kind) in enumerate(
            (("with_results_gbps", "plan"), ("simulated_gbps", "sim"), ("measured_gbps", "got"))
        ):
            wide = BARS * (row[key] or 0) / most
            parts.append(
                '<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>'
                '<text x="%.1f" y="%d">%s</text>'
                % (kind, NAMES, top + 4 + k * (THICK + 1), wide, THICK,
                   NAMES + wide + 6, top + 15 + k * (THICK + 1), number(row[key]))  # fmt: skip
            )
    return '<svg viewBox="0 0 %d %d">%s</svg>' % (WIDTH, ROW * len(rows), "".join(parts))


def section(result):
    """One topology: chart and table."""
    rows = result["rows"]
    nodes = result["nodes"]
    lines = [
        "<p>%d workers, %d switches, %d servers; all rates by %.4g; policy %s, seed %d%s. Rates "
        "in the topology's Gb/s. Bars: planned with results, simulated, measured.</p>"
        % (
            nodes["worker"],
            nodes["switch"],
            nodes["server"],
            result["scale"],
            result["policy"],
            result["seed"],
            "; killed: " + html.escape(", ".join(result["kills"])) if result["kills"] else "",
        ),  # fmt: skip
        chart(rows),
        "<table><tr>%s</tr>" % "".join("<th>%s</th>" % c for c in COLUMNS),
    ]
    for row in rows:
        lines.append("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(c) for c in cells(row)))
        if row.get("error"):
            lines.append(
                '<tr><td class="bad" colspan="%d">%s</td></tr>'
                % (len(COLUMNS), html.escape(row["error"]))
            )
    lines.append("</table>")
    return "\n".join(lines)


def write(path, result):
    title = "fanin lab: %s" % html.escape(result["topology"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>%s</title>"
            "<style>%s</style></head><body><main class=figures><h1>%s</h1>\n%s\n</main></body></html>\n"
            % (title, read_style(), title, section(result))
        )


def write_campaign(path, revision, figures, skipped, sections):
    """The page of experiments/lab: figures first, then each topology and drill."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>Plans, measured</title>"
            "<style>%s</style></head><body><main class=figures><h1>Plans, measured</h1><p>revision %s</p>\n"
            "<table><tr><th>figure</th><th>asked</th><th>obtained</th><th>unit</th><th></th></tr>\n"
            % (read_style(), html.escape(str(revision)))
        )
        for asked, obtained, f in figures:
            file.write(
                "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td class=%s>%s</td></tr>\n"
                % (
                    html.escape(f["name"]),
                    html.escape(asked),
                    obtained,
                    f["unit"],
                    "good" if f["holds"] else "bad",
                    "yes" if f["holds"] else "no",
                )
            )
        file.write("</table>\n")
        for text in skipped:
            file.write('<p class="bad">Skipped: %s</p>\n' % html.escape(text))
        for title, result in sections:
            file.write("<h2>%s</h2>\n%s\n" % (html.escape(title), section(result)))
        file.write("</main></body></html>\n")
