#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random whole-job scenarios: all jobs must end with exact sums, in time, twice the same.

Each seed stands for a topology, jobs, and what goes wrong: loss, duplicates, reordering,
corruption, slow workers, background traffic, links that go down or change their rate,
switches that restart.  A failure prints its seed, and is shrunk to a smaller scenario
that still fails, with a trace of its packets.

    whole_jobs.py FANIN [--trees | --shared | --combined] [--seeds N] [--seed S] [--keep DIR] [--find KEY]
"""

import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

TIMEOUT_S = 600
SHARING = ("atp", "esa", "grid")  # policies of switches whose slots all jobs share
TRACE_LINES = 40  # of a failure's end


# ---------------------------------------------------------------- a scenario from a seed

def link_of(rng, a, b):
    link = {"a": a, "b": b, "gbps": rng.choice([1, 10, 25, 100]), "delay_us": rng.choice([0, 1, 20])}
    for fault, most in (("loss", 0.05), ("duplicate", 0.05), ("reorder", 0.05), ("corrupt", 0.02)):
        if rng.random() < 0.3:
            link[fault] = round(rng.random() * most, 4)
    if "duplicate" in link or "reorder" in link:
        link["reorder_us"] = rng.choice([1, 50, 2000])
    if rng.random() < 0.2:
        link["jitter_us"] = rng.choice([1, 10])
    if rng.random() < 0.3:
        link["queue_bytes"] = rng.choice([20000, 200000])
    if "loss" in link and rng.random() < 0.2:
        link["loss_burst"], link["loss_burst_us"] = 0.3, 100
    return link


def topology_of(rng):
    """One or two racks, each a switch with workers; a server; maybe a router between."""
    racks = rng.randint(1, 2)
    nodes, links, switches = [], [], []
    for i in range(racks):
        window = rng.choice([4, 16, 64, 256])
        switch = {"name": "s%d" % i, "kind": "switch", "window": window,
                  "slots": window * rng.choice([3, 8])}
        if rng.random() < 0.3:
            switch["multicast"] = True
        if rng.random() < 0.2:
            switch["gbps"] = rng.choice([5, 50])
        nodes.append(switch)
        switches.append(switch["name"])
        nodes.append({"name": "w%d-" % i, "kind": "worker", "count": rng.randint(2, 6)})
        links.append(link_of(rng, "w%d-*" % i, "s%d" % i))
    if rng.random() < 0.5:
        nodes.append({"name": "ps", "kind": "server"})
        links.append(link_of(rng, "ps", "s0"))
        switches.append("ps")
    if racks == 2:
        nodes.append({"name": "r", "kind": "router"})
        links += [link_of(rng, "s0", "r"), link_of(rng, "s1", "r")]
    return {"nodes": nodes, "links": links}, switches


def tree_of(rng):
    """Two or three levels of switches, each the aggregator of those below; workers at the leaves."""
    nodes, links, switches = [], [], []

    def add_switch(name, parent):
        window = rng.choice([4, 16, 64, 256])
        switch = {"name": name, "kind": "switch", "window": window,
                  "slots": window * rng.choice([3, 8])}
        if rng.random() < 0.2:
            switch["multicast"] = True
        if parent:
            switch["parent"] = parent
            links.append(link_of(rng, name, parent))
        nodes.append(switch)
        switches.append(name)
        return switch

    three, leaves = rng.random() < 0.5, 0
    add_switch("top", None)
    for i in range(rng.randint(2, 3)):
        below = "top"
        # a branch may be shorter than the others
        if three and rng.random() < 0.8:
            below = add_switch("m%d" % i, "top")["name"]
        for _ in range(2 if below != "top" else 1):
            add_switch("s%d" % leaves, below)
            nodes.append({"name": "w%d-" % leaves, "kind": "worker", "count": rng.randint(2, 4)})
            links.append(link_of(rng, "w%d-*" % leaves, "s%d" % leaves))
            leaves += 1
    # what a child asks for must not be less than what another one was given
    window = max(n["window"] for n in nodes if n["kind"] == "switch")
    for node in nodes:
        if "parent" in node:
            node["window"] = window
    return {"nodes": nodes, "links": links}, switches


def combined_of(rng):
    """A tree, with slots that jobs share in front of most aggregators."""
    topology, switches = tree_of(rng)
    for node in topology["nodes"]:
        if node["kind"] != "switch":
            continue
        node["slots"] = 16384  # room for leads
        if rng.random() < 0.7:
            node["policy"] = rng.choice(SHARING)
            node["slots"] = rng.choice([1, 2, 8, 64, 512])
            node.pop("multicast", None)
    return topology, switches


def shared_of(rng):
    """Switches whose slots all jobs share: racks, maybe a switch above them, maybe one more,
    and a server, which may be on the highest switch."""
    nodes, links, switches = [], [], []
    server = "ps" if rng.random() < 0.7 else None

    def add_switch(name, up):
        switch = {"name": name, "kind": "switch", "policy": rng.choice(SHARING),
                  "slots": rng.choice([1, 2, 8, 64, 512])}
        if up:
            switch["server"] = up
            links.append(dict(link_of(rng, name, up), ecn_bytes=rng.choice([0, 5000, 30000])))
        if rng.random() < 0.2:
            switch["quota"] = rng.choice([1, 4, 32])
        for option in ("preemption", "ageing", "priorities"):
            if rng.random() < 0.15:
                switch[option] = False
        if rng.random() < 0.3:
            switch["free_early"] = True
        if rng.random() < 0.2:
            switch["gbps"], switch["ecn_bytes"] = rng.choice([5, 50]), 20000
        nodes.append(switch)
        switches.append(name)
        return name

    if server:
        nodes.append({"name": server, "kind": "server"})
        switches.append(server)
    racks = rng.randint(1, 3)
    up = server
    for name in ("t", "m"):
        if racks > 1 and (rng.random() < 0.5 or (name == "m" and up == server)):
            up = add_switch(name, up)
    for i in range(racks):
        below = add_switch("s%d" % i, up)
        nodes.append({"name": "w%d-" % i, "kind": "worker", "count": rng.randint(2, 4)})
        links.append(dict(link_of(rng, "w%d-*" % i, below), ecn_bytes=rng.choice([0, 10000])))
    if rng.random() < 0.2:  # its sums need no reminders: workers ask
        nodes[0]["reminders"] = False
    return {"nodes": nodes, "links": links}, switches


def job_of(rng, number, hosts, switches):
    job = {
        "name": "j%d" % number,
        "model": {"numel": rng.choice([1, 500, 20000, 60000]), "layers": rng.randint(1, 4),
                  "forward_ms": rng.choice([0, 0.1, 1]), "backward_ms": rng.choice([0, 0.2, 2])},
        "workers": rng.randint(2, hosts), "iterations": rng.randint(1, 4),
        "arrival_s": rng.choice([0, 0.001, 0.01]), "window": rng.choice([2, 16, 128, 512]),
        "payload_bytes": rng.choice([64, 256, 1408]), "at": rng.choice(switches),
        "alive_s": 0.5, "retries": 20, "verify": True,
    }
    if rng.random() < 0.3:
        job["mode"] = "fixed"
    if rng.random() < 0.3:
        job["overlap"] = True
    if rng.random() < 0.3:
        job["jitter"] = 0.3
    if rng.random() < 0.3:
        job["bucket_bytes"] = 50000
    if rng.random() < 0.3:
        job["slow"] = [{"speed": 0.25, "interval_ms": 1, "chance": 0.2}]
    return job


TOPOLOGY = {"plain": topology_of, "trees": tree_of, "shared": shared_of,
            "combined": combined_of}


def scenario_of(seed, kind):
    rng = random.Random(seed)
    topology, switches = TOPOLOGY[kind](rng)
    hosts = ["%s%d" % (n["name"], i) for n in topology["nodes"] if n["kind"] == "worker"
             for i in range(n["count"])]
    jobs = [job_of(rng, i, len(hosts), switches) for i in range(rng.randint(1, 3))]
    for job in jobs:
        job["congestion"] = random.Random(seed).choice(["fanin", "a2tp"])
        if kind in ("trees", "combined"):
            job["workers"] = len(hosts)  # each leaf has some
        if kind == "combined" and rng.random() < 0.7:  # and its ranks run ahead
            job["ahead"] = job.get("window", 512) * rng.choice([1, 4])
            job["cache_frags"] = rng.choice([0, 0, 16, 200])
            job["slow"] = [{"what": "sending", "speed": 0.25, "chance": 0.3, "interval_ms": 0.3}]
        if kind == "shared":
            job["priority"] = rng.choice(["remaining", "attained", "started", "none"])
    changes = []
    if rng.random() < 0.4:
        at = round(rng.random() * 0.01, 5)
        changes.append({"at_s": at, "node": rng.choice(switches),
                        "restart_s": rng.choice([0, 0.001, 0.05])})
    if rng.random() < 0.3:
        host = rng.choice(hosts)
        rack = "s" + host[1]
        at = round(rng.random() * 0.01, 5)
        changes += [{"at_s": at, "a": host, "b": rack, "down": True},
                    {"at_s": round(at + rng.choice([0.001, 0.1]), 5), "a": host, "b": rack, "up": True}]
    if rng.random() < 0.3:
        changes.append({"at_s": 0.002, "a": hosts[0], "b": "s0", "gbps": 0.5})
    background = []
    if rng.random() < 0.3:
        a, b = rng.sample(hosts, 2)
        background.append({"from": a, "to": b, "gbps": 0.3, "jitter": 0.5, "stop_s": 0.1})
    for job in jobs:
        if "mode" not in job:
            job["wire"] = rng.choice(["float32", "float16", "bfloat16", "int8"])
    return {"name": "seed%d" % seed, "seed": seed, "limit_s": 300, "sample_us": 1000,
            "topology": topology, "jobs": jobs, "changes": changes, "background": background}


# ---------------------------------------------------------------- what must hold

class Runner:
    def __init__(self, fanin, find):
        self.fanin, self.find = fanin, find
        self.folder = tempfile.mkdtemp(prefix="fanin-scenario-")

    def run(self, scenario, *argv):
        """(exit status, what it wrote, stderr)"""
        source = os.path.join(self.folder, "s.json")
        target = os.path.join(self.folder, "r.json")
        if os.path.exists(target):
            os.remove(target)
        with open(source, "w") as file:
            json.dump(scenario, file)
        try:
            done = subprocess.run([self.fanin, "sim", source, "-q", "--json", target, *argv],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return 124, "", "does not end"
        text = ""
        if os.path.exists(target):
            with open(target) as file:
                text = file.read()
        return done.returncode, text, done.stderr.strip()

    def wrong(self, scenario, twice=False):
        """What is wrong with the scenario, in few words that do not depend on its details;
        None: nothing.  "refused" is the generator's or the shrinker's fault."""
        status, text, stderr = self.run(scenario)
        if status == 2:
            return "refused: " + stderr
        if status not in (0, 1) or not text:
            return "exit status %d" % status
        result = json.loads(text)
        if self.find:
            found = sum(job[self.find] for job in result["jobs"])
            return "%s found" % self.find if found else None
        for job in result["jobs"]:
            if job["error"]:
                return "error: %s" % job["error"]
            least = job["model_elements"] * job["workers"] * job["iterations"]
            if not job["checked_elements"] == job["reduced_elements"] >= least:
                return "unchecked elements"
        if twice and self.run(scenario)[1] != text:
            return "not the same twice"
        return None


# ---------------------------------------------------------------- shrinking

def smaller(scenario):
    """Scenarios that are a bit simpler, the boldest first."""
    def without(*path):
        other = copy.deepcopy(scenario)
        at = other
        for part in path[:-1]:
            at = at[part]
        del at[path[-1]]
        return other

    def changed(value, *path):
        other = copy.deepcopy(scenario)
        at = other
        for part in path[:-1]:
            at = at[part]
        if at.get(path[-1]) == value:
            return None
        at[path[-1]] = value
        return other

    for key in ("changes", "background"):
        for i in range(len(scenario[key])):
            yield without(key, i)
    for i, job in enumerate(scenario["jobs"]):
        if len(scenario["jobs"]) > 1:
            yield without("jobs", i)
        for key in ("mode", "wire", "overlap", "jitter", "bucket_bytes", "slow"):
            if key in job:
                yield without("jobs", i, key)
        yield changed(1, "jobs", i, "iterations")
        yield changed(2, "jobs", i, "workers")
        if job["model"]["numel"] > 1:
            yield changed(job["model"]["numel"] // 2, "jobs", i, "model", "numel")
        for key, value in (("layers", 1), ("forward_ms", 0), ("backward_ms", 0)):
            yield changed(value, "jobs", i, "model", key)
        yield changed(0, "jobs", i, "arrival_s")
    for i, link in enumerate(scenario["topology"]["links"]):
        for key in ("loss", "duplicate", "reorder", "corrupt", "jitter_us", "queue_bytes",
                    "loss_burst", "ecn_bytes"):
            if key in link:
                yield without("topology", "links", i, key)
    for i, node in enumerate(scenario["topology"]["nodes"]):
        if node.get("count", 2) > 2:
            yield changed(2, "topology", "nodes", i, "count")
        for key in ("gbps", "multicast", "quota", "preemption", "ageing", "priorities",
                    "free_early", "reminders"):
            if key in node and not (key == "gbps" and "ecn_bytes" in node):
                yield without("topology", "nodes", i, key)
        if "ecn_bytes" in node:
            yield without("topology", "nodes", i, "ecn_bytes")


def shrink(runner, scenario, wrong):
    """The smallest scenario found that is wrong in the same way."""
    tries = 0
    again = True
    while again and tries < 500:
        again = False
        for other in smaller(scenario):
            tries += 1
            if other is not None and runner.wrong(other) == wrong:
                scenario, again = other, True
                break
    return scenario


def report(runner, seed, scenario, wrong, keep):
    print("seed %d: %s" % (seed, wrong), flush=True)
    small = scenario if wrong.startswith("refused") else shrink(runner, scenario, wrong)
    path = os.path.join(keep, "seed%d.json" % seed)
    trace = os.path.join(keep, "seed%d.trace" % seed)
    with open(path, "w") as file:
        json.dump(small, file, indent=1)
        file.write("\n")
    runner.run(small, "--trace", trace)
    print("shrunk to %s: %d jobs, %d elements, %d faults; its packets: %s" % (
        path, len(small["jobs"]), sum(j["model"]["numel"] for j in small["jobs"]),
        sum(k in link for link in small["topology"]["links"]
            for k in ("loss", "duplicate", "reorder", "corrupt")), trace))
    if os.path.exists(trace):
        with open(trace) as file:
            print("".join(file.readlines()[-TRACE_LINES:]), end="")
    return small


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("fanin")
    parser.add_argument("--trees", dest="kind", action="store_const", const="trees",
                        default="plain", help="trees of switches, all of them")
    parser.add_argument("--shared", dest="kind", action="store_const", const="shared",
                        help="switches whose slots all jobs share")
    parser.add_argument("--combined", dest="kind", action="store_const", const="combined",
                        help="trees whose aggregators have such slots in front, and ranks that run ahead")
    parser.add_argument("--seeds", type=int, default=None, metavar="N", help="how many (100; 1 after --seed)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="the first (1)")
    parser.add_argument("--keep", default=".", metavar="DIR", help="where failures are written")
    parser.add_argument("--find", metavar="KEY", help="take a job's figure above 0 for a failure, "
                        "for instance replays: shows what shrinking makes of it")
    args = parser.parse_args()
    first = 1 if args.seed is None else args.seed
    seeds = args.seeds if args.seeds is not None else 100 if args.seed is None else 1
    runner = Runner(args.fanin, args.find)
    failed = 0
    for seed in range(first, first + seeds):
        scenario = scenario_of(seed, args.kind)
        wrong = runner.wrong(scenario, twice=seed % 8 == 0)
        if wrong:
            failed += 1
            report(runner, seed, scenario, wrong, args.keep)
        if failed >= 5:
            break
    for name in os.listdir(runner.folder):
        os.remove(os.path.join(runner.folder, name))
    os.rmdir(runner.folder)
    print("%d seeds from %d on, %d failed" % (seeds, first, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
