# SPDX-License-Identifier: Apache-2.0
"""The page of a recorded experiment, made from what lies beside it: result.json (figures, tables, and
as "plots" blocks of the pages of `fanin sim`).  Nothing is run."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [
    os.path.join(HERE, "..", *names) for names in (("page",), ("simulator", "lab"), ("tools",))
]
import page as lab_page  # noqa: E402  pylint: disable=wrong-import-position
import report  # noqa: E402  pylint: disable=wrong-import-position

DRAWN = ("bars", "curves", "lanes", "map")
PUBLISHED = "published"


def relation(figure):
    return figure.get("relation") or ("<=" if figure.get("at_most") else ">=")


def asked_text(figure):
    if figure["asked"] is None:
        return "-"
    return ("%s %.6g %s" % (relation(figure), figure["asked"], figure.get("unit") or "")).strip()


def reached(figure):
    """How much of what was asked was obtained: 1 and more holds."""
    asked, got = figure["asked"], figure["obtained"]
    if not isinstance(got, (int, float)) or isinstance(got, bool):
        return None
    if relation(figure) == "<=":
        asked, got = got, asked
    if asked <= 0 or got < 0:  # "at most 0", or less than nothing
        return 1.0 if figure["holds"] else 0.0
    return min(got / asked, 2.0)


def asked_chart(figures, title="What was asked, and how much of it was obtained"):
    rows = []
    for figure in figures:
        if figure["asked"] is None:
            continue
        text = "not measured" if figure["obtained"] is None else "%.4g" % figure["obtained"]
        rows.append({"name": figure["name"], "values": [reached(figure)], "mark": 1,
                     "misses": figure["holds"] is False,
                     "text": "%s, asked %s" % (text, asked_text(figure))})  # fmt: skip
    note = "The line is what was asked; hatched bars miss it. Bars end at twice as much."
    return rows and report.bars(title, "x", [(None, rows)], sort=True, note=note)


def figure_table(figures):
    rows = []
    for f in figures:
        failed = f.get("failed_jobs")
        rows.append([f["name"], asked_text(f), f["obtained"], f.get("least"), f.get("most"),
                     f.get("unit") or "", {"text": "%d jobs" % failed, "bad": True} if failed else "",
                     "-" if f["holds"] is None else f["holds"]])  # fmt: skip
    order = {False: 0, True: 1, "-": 2}
    rows.sort(key=lambda row: order[row[-1]])
    columns = ["figure", "asked", "obtained", "least", "most", "unit", "failed", "holds"]
    return report.table(columns, rows)


# What an experiment has found, in a sentence, with the figures that it has recorded.
FINDINGS = {
    "all": (
        "With scarce memory ESA finishes jobs %.2g times sooner than a ring, with ample memory all that share or split slots %.2g times",
        lambda f: (
            f["memory scarce: ring, average completion time"]
            / f["memory scarce: esa, average completion time"],
            f["memory ample: ring, average completion time"]
            / f["memory ample: esa, average completion time"],
        ),
    ),
    "atp": (
        "With scarce memory ATP's shared slots have %.2g times the throughput of a static split",
        lambda f: (f["3 jobs, scarce memory (16): ATP's throughput by SwitchML's static split"],),
    ),
    "combine": (
        "On routes over two levels ESA and SA-ATP together are %.3g times as fast as the better alone with 96 slots, %.3g times with 512",
        lambda f: (
            f["96 slots: the better of ESA and SA-ATP alone by both"],
            f["512 slots: the better of ESA and SA-ATP alone by both"],
        ),
    ),
    "drops": (
        "Dropping what finds no slot halves ATP's time where one server is the limit (%.3g by %.3g ms with memory 16); ESA takes %.3g",
        lambda f: (
            f["10 Gb/s, one server, memory 16: grid"],
            f["10 Gb/s, one server, memory 16: atp"],
            f["10 Gb/s, one server, memory 16: esa"],
        ),
    ),
    "esa": (
        "With scarce memory ESA finishes jobs %.2g times sooner than ATP, and in plenty as soon",
        lambda f: (f["ATP by ESA, average completion time, at the best memory (16)"],),
    ),
    "grid": (
        "Many trees a server sum %.2g times as fast as ATP's rule on GRID's fat-tree with links as they are",
        lambda f: (f["links as they are: best against atp, nearest"],),
    ),
    "helpers": (
        "One setting of helpers takes %.2g of the best time without them in one job, and %.2g in four, in the mean",
        lambda f: tuple(
            next(value for figure, value in f.items() if figure.startswith(jobs + ": the helpers best for all"))
            for jobs in ("one job", "four jobs")
        ),
    ),
    "installs": (
        "Of 180 plans --install refuses %d",
        lambda f: (f["plans refused by --install, of 180"],),
    ),
    "lab": (
        "On emulated networks jobs get the planned rate to within %.2g %%, on every topology",
        lambda f: (max(v for k, v in f.items() if "measured against planned with results, the worst" in k),),
    ),
    "inart": (
        "On InArt's fat-tree its plans take %.0f %% less time than ATP's by one drawing, %.0f %% less by many trees",
        lambda f: (
            -f["fat-tree, communication time of inart, one drawing against atp, nearest"],
            -f["fat-tree, communication time of best against atp, nearest"],
        ),
    ),
    "placement": (
        "A box in the middle sums 8 hosts' tensors %.3g times as fast as a ring, four spares for 4 hosts %.3g times, hosts alone %.3g",
        lambda f: (
            f["8 x 1, a box with eight links: the ring's time by its"],
            f["4 x 1, four spare hosts: the ring's time by its"],
            f["4 x 1, nothing named: the ring's time by its"],
        ),
    ),
    "policies": (
        "Where a job's share of memory covers its round trip a static split is best; with a third of that ESA is %.2g times as fast",
        lambda f: (
            f["10 Gb/s, a server for each job, memory 32: static split"]
            / f["10 Gb/s, a server for each job, memory 32: esa"],
        ),
    ),
    "sa-atp": (
        "Running ahead takes %.2g of ATP's time where workers are slow in turns, and changes nothing where none is",
        lambda f: (f["rotating slow-downs: iteration time by ATP's"],),
    ),
    "simulated": (
        "Simulated, plans have at least %.2g of their rate, over %d plans",
        lambda f: (
            min(f["grid: simulated by planned, the least"], f["inart: simulated by planned, the least"]),
            f["grid: plans within 10 % of their rate, of 42"]
            + f["inart: plans within 10 % of their rate, of 99"],
        ),
    ),
    "switchml": (
        "A switch sums for 64 workers in the time of 2; a ring of 16 takes %.3g times as long",
        lambda f: (f["10 Gb/s: ring by switch, 16 workers, nothing to compute"],),
    ),
    "tree": (
        "512 workers in a tree with losses take %.2g %% longer a byte than 8 at one switch",
        lambda f: (f["by 8 workers, fragments of 8832 bytes, 40 MB: time per byte, mean of 3"],),
    ),
}  # fmt: skip


def found(name, result):
    """The sentence of FINDINGS, or what the experiment calls itself; no figure of it: the latter."""
    obtained = {f["name"]: f["obtained"] for f in result["figures"]}
    if name in FINDINGS and not result.get("settings", {}).get("quick"):
        text, values = FINDINGS[name]
        try:
            return text % values(obtained)
        except (KeyError, StopIteration, TypeError, ValueError):  # a part was left out
            pass
    return result.get("title", name)


def finding(figures):
    asked = [f for f in figures if f["holds"] is not None]
    missed = [f for f in asked if not f["holds"]]
    if not asked:
        return "%d figures, none of them asked" % len(figures)
    if not missed:
        return "all %d figures that were asked hold" % len(asked)
    return "%d of %d figures hold" % (len(asked) - len(missed), len(asked))


def recorded_table(t):
    """A chart of means where there are means, else a table."""
    columns = t["columns"]
    parts = [report.heading(t["title"]), report.words(t["text"]) if t.get("text") else None]
    if len(columns) == 5 and columns[1].startswith("mean, ") and columns[4] == PUBLISHED:
        rows = [
            {"name": name, "values": [middle], "low": low, "high": high, "published": mark,
             "text": "%.4g" % middle + ("" if mark is None else " (published: %g)" % mark)}
            for name, middle, low, high, mark in t["rows"]
        ]  # fmt: skip
        note = "Means; thin lines go from the least to the most; open circles are what the paper prints."
        return parts + [
            report.bars(t["title"], columns[1][6:], [(None, rows)], sort=True, note=note)
        ]
    return parts + [report.table(columns, t["rows"])]


def sections(result, drawn=()):
    """What result.json has beside figures and the tables `drawn` before: tables of plans, or rows of the lab."""
    found = []
    for t in result.get("tables", ()):
        if t in drawn:
            continue
        if "columns" in t:
            found += recorded_table(t)
        else:
            found += [report.heading(t["title"])] + lab_page.blocks(t, "Rates of each plan")
    return found


# ---- the paper's own figure, first on its page: ours as lines and bars, its points as open circles


OPEN = "Open circles: what the paper prints. "


def by_memory(result, ending):
    """A line of the figures "memory N: ENDING"."""
    begin, end = "memory ", ": " + ending
    found = sorted(
        (int(f["name"][len(begin) : -len(end)]), f["obtained"])
        for f in result["figures"]
        if f["name"].startswith(begin) and f["name"].endswith(end) and f["name"][len(begin) : -len(end)].isdigit()
    )  # fmt: skip
    return {"x": [x for x, _ in found], "y": [y for _, y in found]}


def over_memory(title, y_name, line, published, note):
    return {"kind": "curves", "title": title, "x_name": "memory of the switch, fragments", "y_name": y_name, "marks": True,
            "log_x": True, "lines": [line], "published": published, "note": OPEN + note}  # fmt: skip


def esa_figure(result):
    line = dict(by_memory(result, "ATP by ESA"), name="ours")
    return [over_memory("ATP's completion time by ESA's", "times ESA's", line, [{"name": "up to 1.35", "y": 1.35}],
                        "The paper names no size of memory, so its point stands on the axis.")]  # fmt: skip


def atp_figure(result):
    line = dict(by_memory(result, "ATP's throughput by SwitchML's"), name="ours")
    return [over_memory("ATP's throughput by that of a static split", "times the static split's", line,
                        [{"name": "1.38", "y": 1.38}, {"name": "1.66", "y": 1.66}],
                        "They are training throughput on the authors' testbed.")]  # fmt: skip


def switchml_figure(result):
    lines = []
    for who in ("switch", "ring", "server"):
        (plot,) = (
            p for p in result["plots"] if p["heading"].startswith(who + ": communication time")
        )
        # communication's curves are left out where those of completion say the same
        titles = {b["title"]: b for b in plot["blocks"]}
        block = titles.get("Mean communication time of a job", titles["Mean job completion time"])
        line = block["lines"][0]
        assert line["name"].endswith(("=10", " 10")), line["name"]
        lines.append({"name": who, "x": line["x"], "y": line["y"]})
    first = lines[0]["y"][0]
    lines = [dict(line, y=[y / first for y in line["y"]]) for line in lines]
    points = [{"name": "the switch, flat" if x == 4 else "", "x": x, "y": 1} for x in (4, 8, 16)]
    points.append({"name": "a ring, about 2", "x": 16, "y": 2})
    return [{"kind": "curves", "title": "Communication time by the number of workers, 10 Gb/s", "x_name": "workers",
             "y_name": "times the switch's with two workers", "marks": True, "log_x": True, "lines": lines,
             "published": points, "note": OPEN.strip()}]  # fmt: skip


def sa_atp_figure(result):
    obtained = {f["name"]: f["obtained"] for f in result["figures"]}
    rows = (("iteration time by ATP's, workers slow in turns", "rotating slow-downs: iteration time by ATP's", 0.43),
            ("training throughput by ATP's, the best case", "training throughput on a model trace, best case, SA-ATP by ATP", 1.8))  # fmt: skip
    rows = [{"name": name, "values": [obtained[key]], "published": published,
             "text": "%.3g (published: %g)" % (obtained[key], published)} for name, key, published in rows]  # fmt: skip
    return [report.bars("SA-ATP by ATP", "x", [(None, rows)], note=OPEN.strip())]


def inart_figure(result):
    """Rates by workers, of the tables that have the paper's."""
    lines, published = {}, []
    each = [t for t in result["tables"] if t["columns"][-1] == PUBLISHED]
    for t in each:
        workers = int(t["title"].split(", ")[2].split()[0])
        for name, middle, _, _, _ in t["rows"]:
            lines.setdefault(name, []).append((workers, middle))
        if workers == 20:
            published = [{"name": "%s, %g" % (name.split(",")[0], mark), "x": workers, "y": mark}
                         for name, _, _, _, mark in t["rows"] if mark is not None]  # fmt: skip
    shown = (
        "atp, nearest",
        "inart, one drawing",
        "inart, local search",
        "inart, columns",
        "best, one tree",
        "best",
    )
    lines = [
        {"name": n, "x": [x for x, _ in lines[n]], "y": [y for _, y in lines[n]]} for n in shown
    ]
    return [{"kind": "curves", "title": "Rate on a fat-tree with four servers, by the number of workers", "x_name": "workers",
             "y_name": "Mb/s of the emulation", "marks": True, "lines": lines, "published": published,
             "note": OPEN + "The paper does not say for how many workers: with 20 ATP has its rate here."},
            report.fold("Each number of workers, all algorithms", [b for t in each for b in recorded_table(t)])], each  # fmt: skip


def grid_figure(result):
    (table,) = (t for t in result["tables"] if "no link limits, as papers count" in t["title"])
    return recorded_table(table)[1:], [table]


PAPERS = {"atp": atp_figure, "esa": esa_figure, "grid": grid_figure, "inart": inart_figure, "sa-atp": sa_atp_figure,
          "switchml": switchml_figure}  # fmt: skip


def paper_figure(name, result):
    """Its blocks, and the tables that they have drawn; none of an experiment without a paper, or of a quick run."""
    if name not in PAPERS or result.get("settings", {}).get("quick"):
        return [], []
    made = PAPERS[name](result)
    blocks, tables = made if isinstance(made, tuple) else (made, [])
    return [report.heading("The paper's figure")] + [b for b in blocks if b], tables


def plots_of(page, heading):
    """What is drawn on a page of `fanin sim`, to be kept under a heading."""
    return {"heading": heading, "blocks": [b for b in page["blocks"] if b["kind"] in DRAWN]}


def write_result(folder, result, plots=()):
    """result.json; with plots, a line each."""
    text = json.dumps(result, indent=1)
    if plots:
        lines = (json.dumps(report.rounded(p), separators=(",", ":")) for p in plots)
        text = '%s,\n "plots": [\n%s\n ]\n}' % (text[: text.rindex("\n")], ",\n".join(lines))
    with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
        file.write(text + "\n")


def render(folder, path=None):
    """Write the page of result.json, report.html beside it or `path`; its path."""
    with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
        result = json.load(file)
    plots = result.get("plots", [])
    name = result.get("name", os.path.basename(os.path.abspath(folder)))
    figures, path = result["figures"], path or os.path.join(folder, "report.html")
    blocks = [report.words("Skipped: " + text, bad=True) for text in result.get("skipped", ())]
    paper, tables = paper_figure(name, result)
    blocks += paper
    for plot in plots:
        drawn = report.different(plot["blocks"])
        blocks += [report.heading(plot["heading"])] + drawn if drawn else []
    blocks += sections(result, tables)
    blocks += [report.heading("Figures"), figure_table(figures)]
    if any(f["asked"] is not None for f in figures):
        asked = [asked_chart(figures)]
        blocks.append(
            report.fold("For developers: what was asked, %s" % finding(figures), asked, "asked")
        )
    title = found(name, result)
    sub = "%s; experiments/%s, revision %s, seed %s%s" % (
        result.get("title", name), name, str(result.get("revision"))[:12], result.get("seed"),
        ", quick" if result.get("settings", {}).get("quick") else "")  # fmt: skip
    report.write(path, "fanin", title, sub, blocks)
    return path
