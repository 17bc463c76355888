# SPDX-License-Identifier: Apache-2.0
"""The page about a result of `fanin sim`: one run, or a sweep of them (sweep.py)."""

import picture
import report
import sweep

ROWS_MAX = 200  # of a table or a time line
SAMPLES_MAX = 256  # of a curve, about one for three pixels of a page
PLOTS_MAX = 6  # most switches whose slots, and jobs whose ranks, are drawn over time
LINK_ROWS = 24
RANK_LINES = 8
MAP_SIDE = 32  # most ranks on a side of the map
NODES_MAX = 160  # of a picture: more could not be told apart
LAG_FRAGS = 64  # FAN_LAG_FRAGS of src/core/base/limits.h

JOB_COLUMNS = (("name", "job"), ("model", "model"), ("at", "summed at"), ("workers", "workers"),
               ("iterations", "iterations"), ("jct_s", "completion", "s"), ("comm_s", "communication", "s"),
               ("wait_s", "of it waiting", "s"), ("throughput_gbps_per_worker", "a worker", "Gb/s"),
               ("retransmissions", "resent"), ("error", "error"))  # fmt: skip
SWITCH_COLUMNS = (("name", "name"), ("policy", "policy"), ("occupancy", "occupancy", "share"),
                  ("hit_rate", "hit rate", "share"), ("slots", "slots"), ("contributions", "contributions"),
                  ("results", "results"), ("collisions", "collisions"), ("preemptions", "preemptions"),
                  ("evictions", "evictions"), ("flushes", "flushes"), ("rx_bytes", "received", "bytes"),
                  ("tx_bytes", "sent", "bytes"))  # fmt: skip
SERVER_COLUMNS = SWITCH_COLUMNS[:7] + (("partials", "partial sums"), ("replays", "replays"),
                  ("needs", "asked for"), ("reminders", "reminders")) + SWITCH_COLUMNS[11:]  # fmt: skip
LINK_COLUMNS = (("from", "from"), ("to", "to"), ("use", "use", "share"), ("bytes", "carried", "bytes"),
                ("packets", "packets"), ("queue_max_bytes", "longest queue", "bytes"),
                ("overflows", "overflows"), ("lost", "lost"), ("ecn_marked", "ECN"))  # fmt: skip
RANK_COLUMNS = (("rank", "rank"), ("lag_mean", "behind, mean"), ("lag_max", "behind, most"),
                ("lent", "given to keep"), ("deferred", "late contributions"), ("cache_peak", "kept at most"),
                ("cache_parts", "contributions kept"), ("cache_done", "sums finished"),
                ("cache_early", "asked for"), ("cache_over", "no room"))  # fmt: skip


def samples(values, scale=1):
    """Up to SAMPLES_MAX numbers for a list, each the mean of neighbours, and how many these are."""
    each = -(-len(values) // SAMPLES_MAX)
    out = []
    for i in range(0, len(values), each or 1):
        counted = [v for v in values[i : i + each] if v is not None]
        out.append(sum(counted) / len(counted) * scale if counted else None)
    return out, each


def table(rows, columns, by):
    """A table with a row for each of `rows`, sorted by column `by`, the largest first."""
    cells = [[row.get(c[0]) for c in columns] for row in rows[:ROWS_MAX]]
    return {"kind": "table", "columns": [report.column(*c[1:]) for c in columns], "rows": cells,
            "sort": [by, "down"]}  # fmt: skip


def first_by(rows, key, most):
    """The rows with the largest values of `key`."""
    return sorted(rows, key=lambda row: -report.real(row, key))[:most]


def text(words):
    return {"kind": "text", "text": words}


# ---- jobs


def time_line(run):
    lanes = []
    for job in run["jobs"][:ROWS_MAX]:
        begun = report.real(job, "arrival_s")
        lanes.append({"name": job.get("name"), "arrival": begun, "ready": job.get("ready_s"),
                      "ends": job.get("iteration_ends_s"), "done": begun + report.real(job, "jct_s"),
                      "error": job.get("error")})  # fmt: skip
    return {"kind": "lanes", "title": "Jobs over time, iteration by iteration", "lanes": lanes}


def cards(run):
    def card(name, key):
        return {"name": name, "value": run.get(key), "unit": "s"}

    hops = report.real(run, "fragment_hops")
    hops = "%.4g M" % (hops * 1e-6) if hops >= 1e6 else "{:,.0f}".format(hops)
    items = [card("mean job completion", "avg_jct_s"), card("median", "p50_jct_s"),
             card("99th percentile", "p99_jct_s"), card("virtual time", "end_s"),
             {"name": "fragment-hops", "value": hops}]  # fmt: skip
    return {"kind": "cards", "items": items}


# ---- switches, servers, links


def series_plot(at, title, y_name, lines, scale=1, y_max=None):
    """A plot of series of `at` over time, each times `scale`; None if it has none."""
    series = at.get("series") or {}
    if len(series.get(lines[0][0]) or ()) < 2:
        return None
    interval, drawn = report.real(series, "interval_s"), []
    for key, name, area in lines:
        y, each = samples(series.get(key) or [], scale)
        drawn.append({"name": name, "area": area, "x0": report.real(series, "start_s") + interval,
                      "dx": interval * each, "y": y})  # fmt: skip
    plot = {"kind": "curves", "title": title, "x_name": "seconds", "y_name": y_name, "lines": drawn}
    return dict(plot, y_max=y_max) if y_max else plot


def slot_plots(switch):
    title = "%s: share of its %.0f slots, and of contributions" % (
        switch["name"],
        report.real(switch, "slots"),
    )
    use = (("lent", "held by jobs", True), ("occupancy", "summing", False),
           ("hit_rate", "contributions added", False))  # fmt: skip
    contest = [(what + "_per_s", what, False) for what in ("collisions", "preemptions", "evictions", "flushes")]  # fmt: skip
    yield series_plot(switch, title, "share", use, y_max=1.05)
    yield series_plot(
        switch, "%s: contests for its slots" % switch["name"], "a millisecond", contest, 1e-3
    )


def switches(rows):
    if not rows:
        return
    yield report.heading("Switches")
    drawn = [b for switch in first_by(rows, "contributions", PLOTS_MAX) for b in slot_plots(switch)]
    yield from report.different([b for b in drawn if b])
    if len(rows) > PLOTS_MAX:
        yield text("Drawn are the %d of %d switches with the most contributions." % (PLOTS_MAX, len(rows)))  # fmt: skip
    yield table(rows, SWITCH_COLUMNS, 5)


def servers(rows):
    if not rows:
        return
    yield report.heading("Servers")
    drawn = [series_plot(server, "%s: what it receives" % server["name"], "Gb/s",
                         (("rx_bytes_per_s", "received", False),), 8e-9)
             for server in first_by(rows, "rx_bytes", PLOTS_MAX)]  # fmt: skip
    yield from report.different([b for b in drawn if b])
    yield table(rows, SERVER_COLUMNS, 11)


def links(run):
    rows = run.get("links") or []
    busiest = first_by(rows, "use", LINK_ROWS)
    yield report.heading("Links: the %d busiest of %d directions" % (len(busiest), len(rows)))
    yield from network(run)
    made = table(busiest, LINK_COLUMNS, 2)
    made["columns"][2]["bar"] = True
    yield made


# ---- the network


def network(run):
    """A picture of how full a run's links were, each way; none if the network is too large."""
    links, end = run.get("links") or [], report.real(run, "end_s")
    names = dict.fromkeys(name for row in links for name in (row["from"], row["to"]))
    if not names or len(names) > NODES_MAX or not end > 0:
        return
    special = {row["name"]: kind for key, kind in (("switches", "switch"), ("servers", "server")) for row in run.get(key) or []}  # fmt: skip
    sums = {row["name"] for row in run.get("switches") or [] if row.get("contributions")}
    ends = [row["from"] for row in links]
    nodes = {}
    for name in names:
        kind = special.get(name, "worker" if ends.count(name) == 1 else "switch")
        nodes[name] = {"kind": kind, "full": 0, "gbps": 0, "sums": name in sums,
                       "passes": name not in sums and kind == "switch"}  # fmt: skip
    drawn, fullest = {}, max(report.real(row, "use") for row in links) or 1
    for row in links:
        ways = (row["from"], row["to"]), (row["to"], row["from"])
        pair, first = (ways[1], 2) if ways[1] in drawn else (ways[0], 0)
        loads = drawn.setdefault(pair, [0, 0, 0, 0])
        loads[first : first + 2] = report.real(row, "use") / fullest, report.real(row, "bytes") * 8e-9 / end  # fmt: skip
    yield picture.block("How full links were, of the whole time: the darkest is the fullest", nodes, drawn,
                        alone=True, fullest=fullest)  # fmt: skip


# ---- ranks that run ahead of each other: which were behind when, and which kept how much for which


def choose(amounts, most, zeros=False):
    """The ranks with the `most` largest amounts, ascending; amounts of 0 count only if `zeros`."""
    ranks = sorted(range(len(amounts)), key=lambda rank: -amounts[rank])[:most]
    return sorted(rank for rank in ranks if zeros or amounts[rank] > 0)


def rank_plot(series, key, title, y_name):
    """A plot over time with a line for each of the ranks with the largest sums of `key`."""
    values = series.get(key) or []
    sums = [sum(v for v in one if v is not None) for one in values]
    chosen = choose(sums, RANK_LINES, zeros=True)
    if not any(sums[rank] > 0 for rank in chosen) or len(values[chosen[0]]) < 2:
        return None
    lines = []
    for rank in chosen:
        y, each = samples(values[rank])
        lines.append({"name": "rank %d" % rank, "x0": report.real(series, "start_s"),
                      "dx": report.real(series, "interval_s") * each, "y": y})  # fmt: skip
    title += ": the ranks with the most" if len(chosen) < len(values) else ""
    return {"kind": "curves", "title": title, "x_name": "seconds", "y_name": y_name, "lines": lines}


def help_map(ranks):
    """A map of which ranks help which."""

    def parts(helper, helped):
        return (ranks[helper].get("helps") or {}).get(str(helped), 0)

    everyone = range(len(ranks))
    helped = choose([rank.get("deferred") or 0 for rank in ranks], MAP_SIDE)
    helpers = choose([sum(parts(r, k) for k in everyone) for r in everyone], MAP_SIDE)
    if not helped:
        yield text("Nobody was so far behind that others had to keep a sum.")
        return
    yield text(
        "Parts are late that find no slot while their rank is %d fragments or more behind the furthest.  "
        "Whoever keeps the sum of the others gets them." % LAG_FRAGS
    )  # fmt: skip
    rows = [{"name": "rank %d" % r, "cells": [parts(r, k) for k in helped]} for r in helpers]
    rest = [max(ranks[k].get("deferred", 0) - sum(parts(r, k) for r in everyone), 0) for k in helped]  # fmt: skip
    rows.append({"name": "the server", "apart": True, "cells": rest})
    title = "Who helps whom: late contributions, by rank and by who got them"
    if len(helped) == MAP_SIDE or len(helpers) == MAP_SIDE:
        title += " (the ranks with the most)"
    what = "late contributions of rank"
    yield {"kind": "map", "title": title, "x_name": what, "what": what,
           "columns": [str(k) for k in helped], "rows": rows}  # fmt: skip


def run_ahead(job):
    ahead = job.get("ahead")
    if not ahead:
        return
    series, cache_frags = ahead.get("series") or {}, report.real(ahead, "cache_frags")
    yield report.heading("Ranks of %s" % (job.get("name") or ""))
    yield rank_plot(series, "behind", "Fragments behind the furthest rank", "fragments")
    if cache_frags > 0:
        yield rank_plot(series, "cache_open", "Sums kept for others", "sums")
    yield from help_map(ahead["ranks"])
    yield text(
        "They may run %.0f fragments ahead of the slowest, and each keeps at most %.0f sums for others."
        % (report.real(ahead, "window"), cache_frags)
    )  # fmt: skip
    yield table(ahead["ranks"], RANK_COLUMNS, 1)


# ---- the page


def one_run(run, name):
    jobs, failed = run["jobs"], report.real(run, "failed_jobs")
    mean = report.seconds(report.real(run, "avg_jct_s"))
    if failed > 0:
        title = "%s: %.0f of %d jobs failed" % (name, failed, len(jobs))
    elif len(jobs) == 1:
        title = "%s: the job completes in %s" % (name, mean)
    else:
        title = "%s: %d jobs complete in %s on average" % (name, len(jobs), mean)
    blocks = [time_line(run), cards(run), table(jobs, JOB_COLUMNS, 5)]
    for job in jobs[:PLOTS_MAX]:
        blocks += run_ahead(job)
    blocks += switches(run.get("switches") or [])
    blocks += servers(run.get("servers") or [])
    blocks += links(run)
    sub = "fanin sim, seed %.0f, virtual time" % report.real(run, "seed")
    return report.page("fanin sim", title, sub, blocks)


def page(result):
    """The description of the page about a result."""
    runs = result.get("runs")
    name = (runs[0] if runs else result).get("name") or "simulation"
    return sweep.page(result, name) if runs else one_run(result, name)
