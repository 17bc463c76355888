# SPDX-License-Identifier: Apache-2.0
"""What link one core fills: processor time by bench/fast's record, instructions and memory by cachegrind.

Cachegrind runs a rank, and then a switch, of a job of two and counts what user space executes and
what misses the caches of a core; two lengths of a run differ by all-reduces alone.  The kernel's part,
most of the time, is in the record: medians of all rounds.

Then two hosts, each with its rank's thread and its aggregator's, run on one core together and on two."""

import os
import re
import shutil
import statistics

import benchlib
from netlib import PORT, Bridge, NetBench

MIB = 1 << 20
BYTES = 4 * MIB
ITERS = (2, 8)
CACHES = ["--D1=49152,12,64", "--LL=2097152,16,64"]  # of one core
LINE = 64
RATES = (25, 100)  # Gb/s
TIMEOUT_S = 280
TURNS = 7  # of one core and of two
MTUS = (1500, 9000)
ROW = "4 x 1, 16 MiB, no shaper, MTU %d, %s: fanin"


class Counted(NetBench):
    """Runs of which one process is under cachegrind."""

    def count(self, net, who, mtu, iters):
        """Instructions, and bytes of memory, of user space."""
        path = self.procs.path("%s.%d.%d" % (who, mtu, iters))
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=" + path]
        tool += CACHES
        fanin, address = self.programs["fanin"], "10.77.0.254:%d" % PORT
        switch = self.procs.start(
            net.inside(
                "sw",
                (tool if who == "switch" else [])
                + [fanin, "switch", "--listen", address, "--mtu", str(mtu)],
            )
        )
        benchlib.wait_listening(switch, PORT)
        ranks = [
            self.procs.start(
                net.inside(
                    "w%d" % rank,
                    (tool if who == "rank" and not rank else [])
                    + [
                        fanin,
                        "bench",
                        "--switch",
                        address,
                        "--rank",
                        str(rank),
                        "--ranks",
                        "2",
                        "-b",
                        str(BYTES),
                        "-n",
                        str(iters),
                        "-w",
                        "1",
                        "-c",
                        "0",
                        "--mtu",
                        str(mtu),
                    ],
                ),
                env={"FANIN_HOSTS": "0"},
            )
            for rank in range(2)
        ]
        self.procs.wait(ranks, TIMEOUT_S, servers=[switch])
        self.procs.stop([switch])
        with open(path) as file:
            found = re.search(r"^events: (.*)$(?:.|\n)*^summary: (.*)$", file.read(), re.M)
        events = dict(zip(found.group(1).split(), map(int, found.group(2).split())))
        return events["Ir"], LINE * (events["DLmr"] + events["DLmw"])

    def a_byte(self, net, who, mtu):
        """Of a contribution: at the switch there are two of each fragment."""
        few, many = [self.count(net, who, mtu, iters) for iters in ITERS]
        done = (ITERS[1] - ITERS[0]) * BYTES * (2 if who == "switch" else 1)
        return [max(0, b - a) / done for a, b in zip(few, many)]


def record():
    results = benchlib.recorded("bench/fast")["results"]

    def median(system, key):
        values = [one[key] for one in results if one["system"] == system]
        return statistics.median(values) if values else None

    return median


def roles(median, mtu, rank, switch):
    """(name, nanoseconds, instructions and bytes of memory for a byte of the link in each direction)
    of four hosts: a host's link carries 3/2 of the tensor, a box's four of them."""
    hosts, box = ROW % (mtu, "nothing named"), ROW % (mtu, "a box")
    tensor = 16 * MIB
    both, own = median(hosts, "cpu_us"), median(hosts, "aggregators_us")
    if both is not None:
        link = 4 * 1.5 * tensor / 1e3
        all_of = [(a + b) / 1.5 for a, b in zip(rank, switch)]
        yield "host that sums: one core", both / link, all_of
        yield "  two: the rank's", (both - own) / link, [value / 1.5 for value in rank]
        yield "  and the aggregator's", own / link, [value / 1.5 for value in switch]
    if median(box, "cpu_us") is not None:
        yield "rank, a box sums", median(box, "cpu_us") / (4 * tensor / 1e3), rank
        yield "box, each thread", median(box, "switch_us") / (4 * tensor / 1e3), switch


def spread(procs, programs):
    """All threads of two hosts on one core, and on two, in turns: Gb/s of a host's link, in each
    direction, in the best turn of each: others' work is none of theirs."""
    bench = NetBench(procs, programs, 5, 2)
    mine = os.sched_getaffinity(0)
    times = {1: [], 2: []}
    with Bridge(2, 0, MTUS[0]) as net:
        for turn in range(TURNS * len(times)):
            cores = 1 + turn % 2
            os.sched_setaffinity(0, sorted(mine)[:cores])  # programs that are started have it, too
            try:
                result = bench.fanin(net, [], switches=())
            finally:
                os.sched_setaffinity(0, mine)
            times[cores].append(result["time_us_p50"])
    one, two = [min(times[cores]) for cores in (1, 2)]
    print(
        "two hosts, MTU %d, on one core: %.1f Gb/s each; on two: %.1f; by %.2f"
        % (MTUS[0], bench.size * 8e-3 / one, bench.size * 8e-3 / two, one / two)
    )


def run(procs, programs):
    """Prints the table.  Returns the command's exit code."""
    if not shutil.which("valgrind"):
        print("SKIPPED: needs valgrind")
        return benchlib.SKIP
    median = record()
    print(
        "%-26s %5s %13s %8s %8s %9s %s"
        % (
            "one byte of the link",
            "MTU",
            "instructions",
            "memory",
            "ns",
            "fills",
            "cores at " + ", ".join("%d Gb/s" % rate for rate in RATES),
        )
    )
    for mtu in MTUS:
        with Bridge(2, 0, mtu) as net:
            counted = Counted(procs, programs, 1, 1)
            rank, switch = [counted.a_byte(net, who, mtu) for who in ("rank", "switch")]
        for name, ns, (instructions, memory) in roles(median, mtu, rank, switch):
            print(
                "%-26s %5d %13.2f %6.2f B %8.3f %4.1f Gb/s %s"
                % (
                    name,
                    mtu,
                    instructions,
                    memory,
                    ns,
                    8 / ns,
                    ", ".join("%.1f" % (rate * ns / 8) for rate in RATES),
                ),
                flush=True,
            )
    if len(os.sched_getaffinity(0)) > 1:
        spread(procs, programs)
    return 0
