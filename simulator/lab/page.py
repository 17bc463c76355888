# SPDX-License-Identifier: Apache-2.0
"""What the lab tells: a table on the standard output, and a page of its own."""

import report

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


SERIES = ("planned with results", "simulated", "measured")
KEYS = ("with_results_gbps", "simulated_gbps", "measured_gbps")


def about_network(result):
    """What its settings were; recorded results of old have none of that."""
    if "nodes" not in result:
        return None
    text = "%(worker)d workers, %(switch)d switches, %(server)d servers" % result["nodes"]
    text += "; all rates by %.4g; policy %s, seed %d" % (
        result["scale"], result["policy"], result["seed"])  # fmt: skip
    if result["kills"]:
        text += "; killed: " + ", ".join(result["kills"])
    return report.words(text + ". Rates in the topology's Gb/s.")


def blocks(result, title):
    """One topology: chart and table."""
    rows = result["rows"]
    bars = [
        {
            "name": row["algorithm"],
            "values": [row[k] for k in KEYS],
            "failed": row.get("error") or "",
        }
        for row in rows
    ]
    columns = ["algorithm"] + [(name, "Gb/s") for name in ("planned",) + SERIES]
    columns += ["by plan", "by simulation", "parts", ("longest gap", "s"), "restarts", "wrong sums",
                ("idle", "share"), "error"]  # fmt: skip
    lines = [
        [row["algorithm"], row["planned_gbps"]] + [row[k] for k in KEYS]
        + [share(row["measured_gbps"], row[k]) for k in KEYS[:2]]
        + [row["parts"], row.get("gap_s"), row.get("restarts"), row["wrong"], row.get("cpu_idle"),
           {"text": row["error"], "bad": True} if row.get("error") else ""]
        for row in rows
    ]  # fmt: skip
    return [
        report.bars(title, "Gb/s", [(None, bars)], SERIES),
        about_network(result),
        report.table(columns, lines, (4, "down")),
    ]


def finding(result):
    """The best that was measured, and how far measured rates are from planned ones."""
    rows = [r for r in result["rows"] if r["measured_gbps"] and r["with_results_gbps"]]
    failed = sum(bool(r.get("error") or r["wrong"]) for r in result["rows"])
    text = "nothing was measured"
    if rows:
        best = max(rows, key=lambda r: r["measured_gbps"])
        near = [100 * r["measured_gbps"] / r["with_results_gbps"] for r in rows]
        text = "%s gives %.4g Gb/s, measured; rates are %.0f to %.0f %% of planned ones" % (
            best["algorithm"], best["measured_gbps"], min(near), max(near))  # fmt: skip
    return text + ("; %d of %d failed" % (failed, len(result["rows"])) if failed else "")


def write(path, result):
    title = "%s: %s" % (result["topology"], finding(result))
    sub = "fanin lab, seed %d" % result["seed"]
    report.write(path, "fanin lab", title, sub, blocks(result, "Rates of each plan"))
