# SPDX-License-Identifier: Apache-2.0
"""Pages of results: descriptions, which share/report.js draws (doc/reports.md).  Used by fanin lab,
experiments, tools/results-page.py and, through __main__.py, by fanin sim and fanin plan."""

import html
import json
import math
import os

DIGITS = 6  # significant digits of numbers
# Relative: two curves say the same if they differ by less, apart from a constant factor or summand.
SAME = 0.05
TIMES = {"seconds", "Gb/s"}  # units of a sweep's curves that may say the same


def part(name):
    """The text of share/report.css or .js, which is beside this file once built or installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in ("report." + name, "../share/report." + name):
        path = os.path.join(here, path)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise FileNotFoundError("report.%s: neither beside %s nor in share" % (name, __file__))


def rounded(value):
    """Numbers rounded to DIGITS; None for those that JSON cannot express."""
    if isinstance(value, float):
        return float("%.*g" % (DIGITS, value)) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return value


def page(by, title, sub, blocks):
    """The description of a page.  `title` states the finding in a sentence, `sub` how it was
    obtained; blocks that are None are left out."""
    return {"by": by, "title": title, "sub": sub, "blocks": [b for b in blocks if b]}


def whole(described):
    """The page as HTML, which loads nothing."""
    text = json.dumps(rounded(described), separators=(",", ":"), ensure_ascii=False)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width">\n<title>%s – %s</title>\n<style>\n%s'
        "</style></head><body><main><p>JavaScript draws this page.</p></main>\n"
        '<script type="application/json" id=page>%s</script>\n<script>\n%s</script></body></html>\n'
        % (html.escape(described["title"]), html.escape(described["by"]), part("css"),
           text.replace("<", "\\u003c"), part("js"))
    )  # fmt: skip


def write(path, *described):
    """Write a page; `described`: the arguments of page()."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(whole(page(*described)))


def read(path):
    """The description that a page holds."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return json.loads(text.split("id=page>", 1)[1].split("</script>", 1)[0])


def real(row, key):
    """The number at `key` in `row`; NaN if there is none."""
    value = row.get(key)
    return value if isinstance(value, (int, float)) else math.nan


# Words for keys of scenarios.
KEYS = {"memory_frags": "memory, fragments", "slots": "slots", "window": "window, fragments", "gbps": "link rate, Gb/s",
        "sums_gbps": "what switches sum, Gb/s", "delay_us": "delay of a link, µs", "loss": "loss on every link",
        "ecn_bytes": "marks from, bytes", "queue_bytes": "queue, bytes", "workers": "workers", "count": "workers", "ahead": "run-ahead, fragments",
        "cache_frags": "sums kept for slow ranks", "bucket_bytes": "bucket, bytes", "speed": "speed of slow workers",
        "chance": "chance to be slow", "ranks": "ranks that may be slow", "interval_ms": "slow for, ms", "policy": "policy",
        "quota": "quota, slots", "limit_s": "limit, s", "copies": "copies of the job", "model": "model"}  # fmt: skip


def key_words(key):
    """ "topology.nodes.s0.memory_frags" becomes "memory, fragments"; other text stays."""
    last = key.split(".")[-1]
    return KEYS.get(last, last.replace("_", " ") if "." in key else key)


def grows_by_factors(values):
    """Is the largest number eight times the smallest or more, so that a logarithmic axis fits?"""
    low, high = min(values), max(values)
    return low > 0 and high / low >= 8


def _points(block):
    """The points of curves: {(name of the line, x or index): y}."""
    return {(line["name"], at): y for line in block["lines"]
            for at, y in zip(line.get("x") or range(len(line["y"])), line["y"])
            if isinstance(y, (int, float))}  # fmt: skip


def says_the_same(block, other):
    """Do two blocks of curves say the same?  Of sweeps: curves differ by a factor or a summand, or
    have a constant product, as a rate and a time have.  Of curves over time: they are equal."""
    if block["kind"] != "curves" or other["kind"] != "curves" or bool(block.get("marks")) != bool(other.get("marks")):  # fmt: skip
        return False
    swept, of = block.get("marks"), [b["title"].partition(": ")[2] for b in (block, other)]
    if not {block["y_name"], other["y_name"]} <= TIMES if swept else of[0] != of[1] or not of[0]:
        return False
    one, two = _points(block), _points(other)
    if not one or one.keys() != two.keys():
        return False
    apart, most = [one[k] - two[k] for k in one], max(one.values())
    if not swept:
        return max(abs(a) for a in apart) <= SAME * most
    if max(apart) - min(apart) <= SAME * (most - min(one.values())):
        return True
    if min(min(one.values()), min(two.values())) <= 0:
        return False
    ratios, products = [one[k] / two[k] for k in one], [one[k] * two[k] for k in one]
    return any(max(values) <= (1 + SAME) * min(values) for values in (ratios, products))


def different(blocks):
    """The blocks without empty curves and without curves that say the same as earlier ones.  Of
    curves over time ("h0: what it receives"), a note on the earlier ones names the other hosts."""
    kept, before = [], []
    for block in blocks:
        if block["kind"] == "curves" and not any(line["y"] for line in block["lines"]):
            continue
        same = next((at for at, other in before if says_the_same(block, other)), None)
        before.append((len(kept) if same is None else same, block))
        if same is None:
            kept.append(block)
        elif not block.get("marks"):
            who = block["title"].partition(": ")[0]
            note = kept[same].get("note")
            kept[same] = dict(kept[same], note="%s, %s" % (note, who) if note else "So it is with " + who)  # fmt: skip
    return kept


def seconds(value):
    """A time with its unit: "3.2 ms"."""
    units = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    unit, name = next((u for u in units if not value < u[0]), units[-1])
    return "%.4g %s" % (value / unit, name)


def column(name, unit=None):
    return {"name": name, "unit": unit} if unit else {"name": name}


def heading(text):
    return {"kind": "heading", "text": text}


def words(text, bad=False):
    return {"kind": "text", "text": text, "bad": bad}


def fold(title, blocks, name=None, opened=False):
    return {
        "kind": "fold",
        "title": title,
        "blocks": [b for b in blocks if b],
        "id": name,
        "open": opened,
    }


def table(columns, rows, sort=None, **more):
    """`columns`: names, or (name, unit); `sort`: (column, "up" or "down")."""
    columns = [
        {"name": c} if isinstance(c, str) else dict(zip(("name", "unit"), c)) for c in columns
    ]
    return dict({"kind": "table", "columns": columns, "rows": rows, "sort": sort}, **more)


def bars(title, unit, panels, series=None, sort=False, note=None):
    """`panels`: (title or None, rows); a row has name, values (one for each of `series`), and may have low,
    high, mark, failed, misses and text."""
    return {"kind": "bars", "title": title, "unit": unit, "series": series, "sort": sort, "note": note,
            "panels": [{"title": t, "rows": rows} for t, rows in panels]}  # fmt: skip
