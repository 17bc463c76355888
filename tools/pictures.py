#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of README.md and of the pages in doc, as SVG for light and dark.

    tools/pictures.py            doc/pictures/*.svg anew
    tools/pictures.py --check    1: one of them is not what the records and this file draw

Figures are the recorded ones: bench/results/*.csv and experiments/*/figures.csv.
"""

import math
import sys

from records import ROOT, figures

OUT = ROOT / "doc" / "pictures"

# Blue, orange, green, purple of Okabe and Ito, darker or lighter as the ground wants it.
STYLE = """
svg{font:14px system-ui,-apple-system,"Segoe UI",sans-serif;--ink:#1f2328;--soft:#57606a;--line:#d0d7de;
--fill:#f6f8fa;--c0:#0b62a4;--c1:#b35900;--c2:#00735c;--c3:#8a3f7a;--c4:#57606a;--ground:#fff}
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--fill:#161b22;
--c0:#58b1f5;--c1:#f0a04b;--c2:#3fcfa9;--c3:#d59bc9;--c4:#9da7b3;--ground:#0d1117}}
.ground{fill:var(--ground)}text{fill:var(--ink)}.soft{fill:var(--soft);font-size:12.5px}.b{font-weight:600}
.box{fill:var(--fill);stroke:var(--line);stroke-width:1.5}.grid{stroke:var(--line);fill:none}
"""
for _i in range(5):
    STYLE += (
        ".c%d{stroke:var(--c%d);fill:none;stroke-width:2.5}.t%d{fill:var(--c%d);font-weight:600}"
        % ((_i,) * 4)
    )
    STYLE += (
        ".f%d{fill:var(--c%d);stroke:none}.o%d{fill:var(--ground);stroke:var(--c%d);stroke-width:2}\n"
        % ((_i,) * 4)
    )


class Picture:
    """Shapes on a ground of its own; `title` is what is read to who does not see it."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def add(self, text, *values):
        self.parts.append(text % values if values else text)

    def text(self, x, y, text, style="", anchor="start"):
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        self.add(
            '<text x="%g" y="%g" class="%s" text-anchor="%s">%s</text>'
            % (x, y, style, anchor, text)
        )

    def box(self, x, y, width, height, lines, style="box"):
        """A box with lines of text in its middle, the first one bold if there are several."""
        self.add(
            '<rect x="%g" y="%g" width="%g" height="%g" rx="6" class="%s"/>',
            x,
            y,
            width,
            height,
            style,
        )
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for i, line in enumerate(lines):
            style = "b" if i == 0 else "soft"
            self.text(x + width / 2, top + 18 * i, line, style, "middle")

    def arrow(self, x1, y1, x2, y2, colour=4, label="", dash=False, both=False):
        more = ' stroke-dasharray="6 5"' if dash else ""
        self.add('<path d="M%g %gL%g %g" class="c%d"%s/>' % (x1, y1, x2, y2, colour, more))
        length = math.hypot(x2 - x1, y2 - y1) or 1
        ends = ((x2, y2, 1),) + (((x1, y1, -1),) if both else ())
        for x, y, sign in ends:
            dx, dy = sign * (x2 - x1) / length, sign * (y2 - y1) / length
            self.add(
                '<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ" class="f%d"/>'
                % (
                    x,
                    y,
                    x - 9 * dx + 4.5 * dy,
                    y - 9 * dy - 4.5 * dx,
                    x - 9 * dx - 4.5 * dy,
                    y - 9 * dy + 4.5 * dx,
                    colour,
                )
            )
        if label:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 7, label, "soft", "middle")

    def svg(self):
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">\n'
            "<title>%s</title>\n<style>%s</style>\n"
            '<rect width="100%%" height="100%%" rx="8" class="ground"/>\n%s\n</svg>\n'
            % (
                self.width,
                self.height,
                self.width,
                self.height,
                self.title.replace("&", "&amp;"),
                STYLE.strip(),
                "\n".join(self.parts),
            )
        )


class Plot:
    """Lines over x by powers of two, in a part of a picture; names stand at their ends."""

    def __init__(self, picture, area, xs, ys, names, log_y=False):
        self.p, self.area, self.log_y = picture, area, log_y
        self.low, self.high = xs[0], xs[-1]
        self.bottom, self.top = ys[0], ys[-1]
        left, up, right, down = area
        for y in ys:
            at = self.y(y)
            picture.add('<path d="M%g %.1fH%g" class="grid"/>' % (left, at, right))
            picture.text(left - 8, at + 4, "%g" % y, "soft", "end")
        for x in xs:
            picture.text(self.x(x), down + 20, "%g" % x, "soft", "middle")
        picture.text(left, up - 14, names[1], "soft")
        picture.text((left + right) / 2, down + 40, names[0], "soft", "middle")
        self.ends = []

    def x(self, value):
        left, _, right, _ = self.area
        return left + (right - left) * math.log(value / self.low) / math.log(self.high / self.low)

    def y(self, value):
        _, up, _, down = self.area
        share = (value - self.bottom) / (self.top - self.bottom)
        if self.log_y:
            share = math.log(value / self.bottom) / math.log(self.top / self.bottom)
        return down - (down - up) * share

    def line(self, points, colour, name, dash=""):
        points = [(self.x(x), self.y(y)) for x, y in points]
        way = "L".join("%.1f %.1f" % point for point in points)
        self.p.add(
            '<path d="M%s" class="c%d"%s/>'
            % (way, colour, ' stroke-dasharray="%s"' % dash if dash else "")
        )
        self.ends.append([points[-1][1], points[-1][0], name, colour])

    def mark(self, x, y, colour):
        self.p.add(
            '<circle cx="%.1f" cy="%.1f" r="5" class="o%d"/>' % (self.x(x), self.y(y), colour)
        )

    def names(self):
        """At the ends of the lines, moved apart."""
        self.ends.sort()
        for i, end in enumerate(self.ends):
            if i:
                end[0] = max(end[0], self.ends[i - 1][0] + 18)
        right, moved = self.area[2], 0
        if self.log_y:  # the lowest may be at the ground: half of what they moved down goes up
            moved = (self.ends[-1][0] - self.y(self.bottom) + 40) / 2
        for y, _, name, colour in self.ends:
            self.p.text(right + 10, y + 5 - max(moved, 0), name, "t%d" % colour)


# ---- records


def measured(where):
    """Gloo's time by fanin's, as bench/placement has recorded it: "1.77"."""
    return figures("bench/placement")["%s: Gloo's time by fanin's" % where]


# ---- pictures of results


def when():
    p = Picture(
        960, 400, "Time of an all-reduce by that of a ring, by hosts and by ranks of a host"
    )
    simulated = figures("experiments/placement")
    p.text(24, 30, "Time of an all-reduce by that of a ring: lower is better", "b")

    def share(hosts, ranks, where):
        return 1 / simulated["%d hosts x %d, %s: the ring's time by its" % (hosts, ranks, where)]

    wheres = (("a box with a link for each host", "a box in the middle", 0, ""),
              ("as many spare hosts as hosts", "as many spares", 2, "9 5"),
              ("one spare host", "one spare", 1, "3 4"),
              ("nothing named", "nothing named", 3, ""))  # fmt: skip
    hosts, ranks = (2, 4, 8, 16), (1, 2, 4, 8)
    ys = (0.4, 0.6, 0.8, 1, 1.2)
    left = Plot(p, (60, 80, 330, 310), hosts, ys, ("hosts, one rank each", "time, ring = 1"))
    right = Plot(p, (545, 80, 780, 310), ranks, ys, ("ranks a host, four hosts", "time, ring = 1"))
    for where, name, colour, dash in wheres:
        left.line([(n, share(n, 1, where)) for n in hosts], colour, name, dash)
        right.line([(n, share(4, n, where)) for n in ranks], colour, name, dash)
    for hosts, ranks, size, where, colour in (
        (4, 1, 8, "nothing named", 3), (8, 1, 8, "nothing named", 3),
        (8, 1, 8, "a box with a link for each host", 0), (4, 1, 8, "4 spare hosts", 2), (4, 1, 8, "a spare host", 1)):  # fmt: skip
        left.mark(hosts, 1 / measured("%d x %d, %d MiB, %s" % (hosts, ranks, size, where)), colour)
    for where, colour in (
        ("nothing named", 3),
        ("a box with a link for each host", 0),
        ("a spare host", 1),
    ):
        right.mark(4, 1 / measured("4 x 4, 4 MiB, " + where), colour)
    left.names()
    right.names()
    fast = figures("bench/fast")
    wide = [1 / fast["%s, 16 MiB, no shaper, MTU 1500, nothing named: Gloo's time by fanin's" % n]
            for n in ("4 x 1", "8 x 1", "2 x 2", "2 x 4", "4 x 4")]  # fmt: skip
    p.text(24, 384, "Lines: simulated. Marks: measured against Gloo's ring. Both where links are the limit; "
           "where the processor is, hosts alone take %.2f to %.2f." % (min(wide), max(wide)), "soft")  # fmt: skip
    return p


def policies():
    p = Picture(860, 400, "Completion time of four jobs by the switch's memory, under each policy")
    found = figures("experiments/policies")
    p.text(
        24, 30, "Scarce memory is where shared slots pay; in plenty the static split is best", "b"
    )
    plot = Plot(p, (70, 80, 640, 310), (16, 32, 64, 128, 256, 512, 1024, 2048), (10, 20, 40, 80, 160),
                ("fragments of memory in the switch", "ms until four jobs are over, 10 Gb/s"), log_y=True)  # fmt: skip
    memory = (16, 24, 32, 48, 64, 96, 128, 256, 512, 2048)
    server = "10 Gb/s, one server, four times as fast"
    for policy, name, colour, dash in (("static split", "switchml: own slots", 0, ""), ("atp", "atp", 1, "3 4"),
                                       ("atp, slots freed early", "atp --free-early", 2, "9 5"), ("esa", "esa", 3, "")):  # fmt: skip
        plot.line(
            [(m, found["%s, memory %d: %s" % (server, m, policy)]) for m in memory],
            colour,
            name,
            dash,
        )
    plot.names()
    p.text(24, 384, "Simulated (experiments/policies): two jobs like VGG16, two like ResNet50; one server, "
           "four times as fast as a worker.", "soft")  # fmt: skip
    return p


def fidelity():
    p = Picture(760, 320, "How far simulated all-reduces are from measured ones")
    found = figures("bench/fidelity")
    p.text(24, 30, "Simulated and measured: how far apart, in per cent", "b")
    row = 0
    scale = 360 / max(found.values())
    for name, value in found.items():
        y = 52 + 20 * row
        p.text(236, y + 11, name.split(": off by")[0], "soft", "end")
        p.add(
            '<rect x="246" y="%d" width="%.1f" height="13" rx="2" class="f%d"/>'
            % (y, value * scale, 1 if value > 10 else 0)
        )
        p.text(254 + value * scale, y + 11, "%.1f" % value, "soft")
        row += 1
    p.text(
        24,
        306,
        "bench/fidelity: 16 MiB through a switch, in namespaces and in virtual time. Above ten: asked and missed.",
        "soft",
    )
    return p


# ---- pictures of how it works


def choice():
    p = Picture(900, 446, "Which switch to name: three questions")
    p.text(24, 30, "A switch or not?", "b")
    p.box(24, 52, 270, 62, ["Tensors on GPUs, NCCL works", "between the machines?"])
    p.box(24, 152, 270, 62, ["All ranks on one machine?", "memory between them, no link"])
    p.box(24, 252, 270, 62, ["A box with a port for each host?", "or one port as fast as all"])
    p.box(24, 352, 270, 62, ["Spare machines?", "each with a link as a worker's"])
    for y in (114, 214, 314):
        p.arrow(149, y, 149, y + 38, 4)
        p.text(160, y + 24, "no", "soft")
    several = "%.3g to %.3g" % (
        measured("4 x 4, 4 MiB, nothing named"),
        measured("2 x 8, 4 MiB, nothing named"),
    )
    answers = (
        (52, 4, ["Keep NCCL", "fanin copies through the host's memory"]),
        (152, 3, ["Name nothing", "ranks sum in memory that they share"]),
        (252, 0, ["FANIN_SWITCH=BOX:5000", "%.3g times the ring: 8 hosts, one rank each" % measured("8 x 1, 8 MiB, a box with a link for each host")]),
        (352, 2, ["FANIN_SWITCH=A:5000,B:5000,...", "%.3g times the ring with one, %.2f with four: 4 hosts" % (
            measured("4 x 1, 8 MiB, a spare host"), measured("4 x 1, 8 MiB, 4 spare hosts"))]),
    )  # fmt: skip
    for y, colour, lines in answers:
        p.arrow(294, y + 31, 340, y + 31, colour)
        p.text(315, y + 23, "yes", "soft", "middle")
        p.box(340, y, 346, 62, lines)
    p.box(
        706,
        252,
        176,
        162,
        [
            "Name nothing",
            "as long as a ring",
            "with a rank a host;",
            "mostly faster where",
            "the processor limits",
        ],
    )
    p.add('<path d="M149 414V432H794V414" class="c4"/>')
    p.text(160, 424, "no", "soft")
    for i, line in enumerate(
        (
            "Several ranks a host",
            "sum in its memory:",
            several + " times the ring",
            "with nothing named",
        )
    ):
        p.text(706, 170 + 18 * i, line, "b" if i == 0 else "soft")
    return p


def fragment():
    p = Picture(940, 300, "The way of a fragment from a tensor through a switch and back")
    p.text(24, 30, "A fragment's way: one packet up, one sum down", "b")
    steps = (("gradient", "cut into fragments", "worker/transfer.c"), ("DATA", "window, timer", "worker/stream.c"),
             ("a shard", "one socket, one thread", "net/shard.c"), ("its slot", "adds, counts ranks", "sum/round_add.c"))  # fmt: skip
    for i, (head, line, place) in enumerate(steps):
        x = 24 + 232 * i
        p.box(x, 60, 168, 70, [head, line, place])
        if i < 3:
            p.arrow(x + 168, 95, x + 232, 95, 0)
    back = (("gradient", "the sum in its place", "worker/worker_recv.c"), ("RESULT", "acknowledges all before", "wire/wire.h"),
            ("all ranks", "unicast or a group", "net/udp_send.c"), ("full", "the last rank has come", "aggregator.c"))  # fmt: skip
    for i, (head, line, place) in enumerate(back):
        x = 24 + 232 * i
        p.box(x, 190, 168, 70, [head, line, place])
        if i < 3:
            p.arrow(x + 232, 225, x + 168, 225, 2)
    p.arrow(804, 130, 804, 190, 1)
    p.text(814, 164, "every rank added", "soft")
    p.text(
        24,
        286,
        "Lost on the way up or down: the rank asks again; the slot keeps two rounds, so nothing is added twice.",
        "soft",
    )
    return p


def host(p, x, y, name, colour=4):
    p.add('<circle cx="%g" cy="%g" r="15" class="o%d"/>' % (x, y, colour))
    p.text(x, y + 5, name, "b", "middle")


def who_sums():
    p = Picture(940, 330, "Who sums where: a ring, every host, a box, spare machines")
    p.text(
        24,
        30,
        "Who sums, and what the busiest link carries of a tensor of size S, four hosts of one rank",
        "b",
    )
    places = [(60, 110), (180, 110), (180, 220), (60, 220)]

    def title(x, head, line):
        p.text(x + 4, 66, head, "t0")
        p.text(x + 4, 290, line, "soft")

    for i in range(4):  # ring
        (x1, y1), (x2, y2) = places[i], places[(i + 1) % 4]
        dx, dy = (x2 - x1) / 120, (y2 - y1) / 110
        p.arrow(x1 + 20 * dx, y1 + 20 * dy, x2 - 20 * dx, y2 - 20 * dy, 4)
    for i, (x, y) in enumerate(places):
        host(p, x, y, str(i))
    title(24, "a ring", "2(n-1)/n S = 1.5 S")
    x0 = 245  # every host
    for i, (x, y) in enumerate(places):
        for x2, y2 in places[i + 1 :]:
            length = math.hypot(x2 - x, y2 - y)
            ux, uy = 20 * (x2 - x) / length, 20 * (y2 - y) / length
            p.arrow(x0 + x + ux, y + uy, x0 + x2 - ux, y2 - uy, 3, both=True)
    for i, (x, y) in enumerate(places):
        host(p, x0 + x, y, str(i), 3)
    title(x0 + 24, "every host a quarter", "1.5 S; nothing named")
    x0 = 490  # a box
    p.box(x0 + 85, 145, 70, 40, ["+"], "box")
    for i, (x, y) in enumerate(places):
        toward = (x0 + (95 if x < 100 else 145), 145 if y < 160 else 185)
        p.arrow(
            x0 + x + (14 if x < 100 else -14),
            y + (12 if y < 160 else -12),
            toward[0],
            toward[1],
            0,
            both=True,
        )
        host(p, x0 + x, y, str(i))
    title(x0 + 24, "a box, a port each", "S, however many hosts")
    x0 = 735  # spares
    for i in range(4):
        host(p, x0 + 40, 100 + 45 * i, str(i))
        p.box(x0 + 140, 84 + 45 * i, 44, 32, ["+"])
        for k in range(4):
            p.add(
                '<path d="M%g %gL%g %g" class="c2" style="stroke-width:1.2"/>'
                % (x0 + 56, 100 + 45 * i, x0 + 140, 100 + 45 * k)
            )
    title(x0 + 14, "as many spares", "S; with fewer in between")
    return p


def failover():
    p = Picture(940, 290, "What ranks do when their switch falls silent")
    p.text(24, 30, "A switch dies: the ranks go on, or say who it was", "b")
    p.add('<path d="M40 150H900" class="c4"/>')
    for x, head, line in ((120, "the switch dies", "sums under way stop"), (300, "half of alive_ms", "ranks ask: are you there?"),
                          (480, "alive_ms", "10 s of silence"), (660, "all ranks again", "what is missing is sent"),
                          (840, "it is back", "they return to it")):  # fmt: skip
        p.add('<circle cx="%d" cy="150" r="7" class="f%d"/>' % (x, 1 if x < 200 else 0))
        p.text(x, 120, head, "b", "middle")
        p.text(x, 176, line, "soft", "middle")
    p.box(370, 214, 250, 62, ["another sums", "server, hosts, switches, a route"])
    p.arrow(480, 184, 480, 214, 2)
    p.arrow(620, 236, 664, 184, 2)
    p.box(60, 214, 250, 62, ["nothing else can", "FANIN_E_UNREACHABLE names it"])
    p.arrow(450, 184, 312, 230, 1)
    p.text(660, 244, "A switch that is told to stop says so:", "soft")
    p.text(660, 262, "they go on at once.", "soft")
    return p


def sealing():
    p = Picture(940, 300, "What of a packet is encrypted and authenticated, and between whom")
    p.text(
        24, 30, "A sealed packet: each hop opens and seals it; who is between sees no numbers", "b"
    )
    for i, (name, line) in enumerate(
        (("rank", "key file"), ("switch", "key file"), ("server", "key file"))
    ):
        p.box(40 + 380 * i, 60, 120, 56, [name, line])
    p.arrow(160, 88, 420, 88, 0, "AES-128-OCB", both=True)
    p.arrow(540, 88, 800, 88, 0, "the same", both=True)
    x = 40
    for width, head, line, style in ((150, "header", "clear, under the tag", "box"), (110, "number", "never used twice", "box"),
                                     (400, "gradient", "encrypted, under the tag", "box"), (120, "tag", "16 bytes", "box")):  # fmt: skip
        p.box(x, 160, width, 60, [head, line], style)
        x += width + 4
    p.text(
        40,
        250,
        "A wrong tag, an old number or an unknown hop: dropped and counted. Only who has the key can join, end or change a job.",
        "soft",
    )
    p.text(40, 272, "A switch has the key, for it adds: it is trusted with the sums.", "soft")
    return p


def taken():
    p = Picture(
        940, 300, "What a switch does with a fragment whose slot another one holds, by policy"
    )
    p.text(24, 30, "A fragment finds its slot taken by another one", "b")
    rows = (("switchml", 0, "cannot be: each job has slots of its own", "stands empty while the job computes"),
            ("atp", 1, "goes on to the server, unsummed", "the server adds what the switch could not"),
            ("esa", 3, "the higher priority has the slot", "the other sum goes to the server, half done"),
            ("grid", 2, "is dropped, its rank is told", "the rank halves its window, and sends again"))  # fmt: skip
    for i, (name, colour, what, then) in enumerate(rows):
        y = 56 + 58 * i
        p.box(24, y, 110, 44, [name])
        p.arrow(134, y + 22, 190, y + 22, colour)
        p.box(190, y, 320, 44, [what])
        p.arrow(510, y + 22, 566, y + 22, colour)
        p.text(578, y + 27, then, "soft")
    return p


def controller():
    p = Picture(940, 320, "A controller plans, installs routes, and moves jobs")
    p.text(24, 30, "The controller plans; gradients never pass it", "b")
    p.box(360, 50, 220, 62, ["fanin controller", "topology.json, jobs, plan"])
    for i, (name, line) in enumerate(
        (("S1", "routes, sums"), ("S2", "routes"), ("S3", "routes, sums"))
    ):
        x = 130 + 250 * i
        p.box(x, 165, 180, 50, [name, line])
        p.arrow(470, 112, x + 90, 165, 4, dash=True)
    p.arrow(310, 190, 380, 190, 0)
    p.arrow(560, 190, 630, 190, 0)
    for i in range(4):
        host(p, 150 + 60 * i, 272, "W%d" % i)
        p.arrow(150 + 60 * i, 256, 190 + 12 * i, 216, 0)
    p.box(720, 250, 120, 44, ["server"])
    p.arrow(740, 216, 770, 250, 0)
    p.text(400, 256, "Solid: gradients, by UDP.", "soft")
    p.text(400, 276, "Dashed: lines of text, by TCP.", "soft")
    p.text(400, 296, "A switch fails: parts take other routes.", "soft")
    return p


PICTURES = {"when": when, "choice": choice, "fragment": fragment, "who-sums": who_sums, "failover": failover,
            "sealing": sealing, "policies": policies, "taken": taken, "controller": controller, "fidelity": fidelity}  # fmt: skip


# ---- figures of README.md, between its two comments

START, END = "<!-- figures: tools/pictures.py writes them -->\n", "<!-- end of figures -->\n"


def table():
    """What the records of bench/placement and bench/onehost say against Gloo's ring."""
    one = figures("bench/onehost")
    box, nothing = "a box with a link for each host", "nothing named"
    ring = measured
    rows = (
        ("a machine in the middle, a port for each host: 8 hosts of 1 rank; 4 of 4 ranks",
         ring("8 x 1, 8 MiB, " + box), ring("4 x 4, 4 MiB, " + box)),
        ("4 hosts of 1 rank and spare machines: one; four",
         ring("4 x 1, 8 MiB, a spare host"), ring("4 x 1, 8 MiB, 4 spare hosts")),
        ("no switch named, several ranks a host: 4 hosts of 4; 2 of 8",
         ring("4 x 4, 4 MiB, " + nothing), ring("2 x 8, 4 MiB, " + nothing)),
        ("no switch named, one rank a host: 4 hosts; 8",
         ring("4 x 1, 8 MiB, " + nothing), ring("8 x 1, 8 MiB, " + nothing)),
        ("8 ranks on one machine of 2 cores: each in a login session of its own; all in one",
         one["8 ranks, 16 MiB, gloo ring by fanin, a session each"], one["8 ranks, 16 MiB, gloo ring"]),
    )  # fmt: skip
    text = "| where | time of Gloo's ring / fanin's; above 1 fanin is faster |\n|---|---|\n"
    return text + "".join("| %s | %.3g; %.3g |\n" % row for row in rows)


def readme(check):
    """1: README.md has other figures than the records."""
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(START)
    fresh = before + START + table() + END + rest.split(END)[1]
    if check and fresh != text:
        print("README.md: its figures are not those of the records: tools/pictures.py")
        return 1
    if not check:
        path.write_text(fresh, encoding="utf-8")
    return 0


def main():
    check, bad = sys.argv[1:] == ["--check"], 0
    for name, draw in PICTURES.items():
        path, text = OUT / (name + ".svg"), draw().svg()
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            print("%s: not what tools/pictures.py draws from the records" % path.relative_to(ROOT))
            bad = 1
        elif not check:
            path.write_text(text, encoding="utf-8")
    bad |= readme(check)
    print("%d pictures" % len(PICTURES))
    return bad


if __name__ == "__main__":
    sys.exit(main())
