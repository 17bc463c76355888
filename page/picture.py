# SPDX-License-Identifier: Apache-2.0
"""Pictures of networks: the places of nodes and links, and a plan as a page or for graphviz."""

import collections

import report

WIDE, EDGE, ROW = 1180, 40, 130  # pixels
LEVELS_MAX = 8
LINK_WIDEST, LINK_WIDTHS = (1.8, 5.0), 500.0  # pixels: a full link, least and most; all links
LETTER = 6.0
FEW_HOSTS = 0.8  # share of the mean: the least room, in hosts, of a switch
NEXT_TO = 1.5  # of a node's room: a link between ends farther apart bends around nodes
STEMS_MAX = 16  # most kinds of switch names


def levels_of(kinds, links):
    """The row of each node: its distance in links from the nearest host.  Switches with names of
    one kind share a row, if there are a few kinds, so a rack without hosts is among the racks."""
    level = {name: LEVELS_MAX if kind == "switch" else 0 for name, kind in kinds.items()}
    for _ in range(LEVELS_MAX):
        for ends in links:
            for here, there in (ends, ends[::-1]):
                level[there] = min(level[there], level[here] + 1)
    stems = {}
    for name, kind in kinds.items():
        if kind == "switch":
            stems.setdefault(name.rstrip("0123456789"), []).append(name)
    for names in stems.values() if 2 <= len(stems) <= STEMS_MAX else ():
        level.update(dict.fromkeys(names, min(level[name] for name in names)))
    return level


def across(level, links):
    """Each node's place in its row, from 0 to 1, and how many hosts fit side by side.  Hosts are
    below their switch, which is above their middle."""
    rows = {}
    for name, row in level.items():
        rows.setdefault(row, []).append(name)
    at = {name: (i + 0.5) / len(row) for number, row in rows.items() if number > 1 for i, name in enumerate(row)}  # fmt: skip
    near = {name: [] for name in rows.get(1, ())}
    for ends in links:
        for here, there in (ends, ends[::-1]):
            if here in near and level[there] == 0:
                near[here].append(there)
    lowest, used, least = {}, 0.0, max(FEW_HOSTS * len(rows.get(0, ())) / max(len(near), 1), 1)
    for switch, beside in near.items():
        hosts = [name for name in dict.fromkeys(beside) if name not in lowest]
        room = max(len(hosts), least)
        first = used + (room - len(hosts)) / 2
        lowest.update({name: first + i + 0.5 for i, name in enumerate(hosts)})
        lowest[switch] = used + room / 2
        used += room
    for name in rows.get(0, ()):  # hosts without a switch
        if name not in lowest:
            lowest[name], used = used + 0.5, used + 1
    return dict(at, **{name: x / used for name, x in lowest.items()}), max(used, 1)


def block(title, nodes, links, **more):
    """The block that draws a network.  `nodes`: {name: {kind, full, gbps, sums, passes}}; `links`:
    {(name, name): [share of the rate and Gb/s there, share and Gb/s back]}."""
    level = levels_of({name: node["kind"] for name, node in nodes.items()}, list(links))
    place, hosts = across(level, list(links))
    count, top = collections.Counter(level.values()), max(level.values())
    room = {row: (WIDE - 2 * EDGE) / (count[row] if row else hosts) for row in count}
    longest = max([len(name) for name in nodes if level[name] == 0], default=0)
    bows = any(level[a] == level[b] == top for a, b in links)  # links bow above the top row
    above = EDGE * (2.5 if bows else 1)
    x = {name: EDGE + place[name] * (WIDE - 2 * EDGE) for name in nodes}
    drawn, number = [], {name: i for i, name in enumerate(nodes)}
    for name, node in nodes.items():
        size = min(max(room[level[name]] * 0.42, 2), 15)
        named = {"switch": 2 * size > LETTER * len(name), "worker": room[level[name]] > LETTER * longest}  # fmt: skip
        drawn.append(dict(node, name=name, x=x[name], y=above + (top - level[name]) * ROW, named=named.get(node["kind"], True),
                          size=max(size, 6) if node["kind"] == "server" else size))  # fmt: skip
    lines = []
    for (a, b), loads in links.items():
        apart = abs(x[a] - x[b])
        bends = level[a] == level[b] and apart > NEXT_TO * (WIDE - 2 * EDGE) / count[level[a]]
        lines.append([number[a], number[b], min(apart * 0.1, EDGE) if bends else 0, *loads])
    wide = min(max(LINK_WIDTHS / (len(links) + 1), LINK_WIDEST[0]), LINK_WIDEST[1])
    return dict(more, kind="network", title=title, width=WIDE, height=above + EDGE + top * ROW,
                wide=wide, nodes=drawn, links=lines)  # fmt: skip


# ---- a plan


def loads_of(given):
    """Nodes and links of a topology with their loads under the plan, as block() takes them."""
    topology, plan = given["topology"], given["plan"]
    load = {(row["from"], row["to"]): row["gbps"] for row in plan["loads"]["links"]}
    load.update(
        {
            row["name"]: row["gbps"]
            for kind in ("switches", "servers")
            for row in plan["loads"][kind]
        }
    )
    rate = {job["name"]: job["gbps"] for job in plan["jobs"]}
    for one in plan["assignments"]:
        load[one["worker"]] = load.get(one["worker"], 0) + one["share"] * rate[one["job"]]
    sums = {one["switch"] for tree in plan["trees"] for one in tree["sums"]}

    def full(key, of):
        used = load.get(key, 0) + of.get("background_gbps", 0)
        return min(used / of["gbps"], 1) if of.get("gbps") else 0

    nodes = {n["name"]: {"kind": n["kind"], "full": full(n["name"], n), "gbps": load.get(n["name"], 0), "sums": n["name"] in sums,
                         "passes": n["kind"] == "switch" and not n.get("gbps")} for n in topology["nodes"]}  # fmt: skip
    links = {}
    for one in topology["links"]:
        there, back = (one["a"], one["b"]), (one["b"], one["a"])
        links[there] = [full(there, one), load.get(there, 0), full(back, one), load.get(back, 0)]
    return nodes, links


def page(given):
    """The page about a plan: {"sub", "topology", "plan"}, where `fanin plan --topology` and
    `--json` write the latter two."""
    plan = given["plan"]
    title = "%s: %.4g Gb/s for every worker" % (plan["algorithm"], plan["feasible_gbps"])
    if plan["bound_gbps"] > 0:
        title += ", %.3g %% of the bound" % (100 * (1 - plan["gap"])) if plan["gap"] > 0 else ", and no plan gives more"  # fmt: skip
    drawn = block("What the plan loads, and where it sums", *loads_of(given))
    return report.page("fanin plan", title, given["sub"], [drawn])
