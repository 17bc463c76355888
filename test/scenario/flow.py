#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The level flows beside packets: the same jobs on small networks, and one on 10,000 hosts.

    flow.py FANIN              times of jobs and bytes of links within a tenth; what flows lack is named;
                               rings on two levels beside their closed form
    flow.py FANIN --hosts N    an iteration of ResNet50 on so many hosts by flows alone, and how long it took
"""

import json
import subprocess
import sys
import tempfile
import time

LIMIT_S = 300
MOST = 0.1  # by which times and bytes may differ


def fanin(program, scenario, *args):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(scenario, file)
        file.flush()
        argv = [program, "sim", file.name, "-q", "--json", "-", *args]
        return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def sim(program, scenario, level):
    done = fanin(program, scenario, "--set", "level=" + level)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def star(hosts, delay_us=1, **switch):
    return {
        "nodes": [
            {"name": "s0", "kind": "switch", **switch},
            {"name": "w", "kind": "worker", "count": hosts},
        ],
        "links": [{"a": "w*", "b": "s0", "gbps": 10, "delay_us": delay_us}],
    }


def tree(racks, hosts, gbps):
    """Switches of racks, and one that adds up their sums."""
    nodes = [
        {"name": "top", "kind": "switch"},
        {"name": "r", "kind": "switch", "count": racks, "parent": "top"},
    ]
    links = [{"a": "r*", "b": "top", "gbps": gbps, "delay_us": 2}]
    for i in range(racks):
        nodes.append({"name": "h%d-" % i, "kind": "worker", "count": hosts})
        links.append({"a": "h%d-*" % i, "b": "r%d" % i, "gbps": 10, "delay_us": 1})
    return {"nodes": nodes, "links": links}


def served(policy, gbps):
    """A switch whose sums a server completes.  Queues mark: flows never overflow any."""
    link = {"b": "s0", "delay_us": 5, "ecn_bytes": 65000, "queue_bytes": 8000000}
    return {
        "nodes": [
            {
                "name": "s0",
                "kind": "switch",
                "policy": policy,
                "memory_frags": 8192,
                "server": "ps",
            },
            {"name": "ps", "kind": "server"},
            {"name": "w", "kind": "worker", "count": 16},
        ],
        "links": [{"a": "w*", "gbps": 10, **link}, {"a": "ps", "gbps": gbps, **link}],
    }


def split():
    """Half of the hosts are behind a link as thin as their own."""
    link = {"gbps": 10, "ecn_bytes": 65000, "queue_bytes": 8000000}
    return {
        "nodes": [
            {"name": "s0", "kind": "switch"},
            {"name": "m", "kind": "router"},
            {"name": "a", "kind": "worker", "count": 4},
            {"name": "b", "kind": "worker", "count": 4},
        ],
        "links": [
            {"a": "a*", "b": "s0", **link},
            {"a": "b*", "b": "m", **link},
            {"a": "m", "b": "s0", **link},
        ],
    }


def part(model):
    return {"of": model, "scale": 0.01, "compute": 0.25}


def numel(elements):
    return {"numel": elements}


CASES = {
    "a star": (star(16), [{"model": numel(500000)}]),
    "by ring": (star(16), [{"model": numel(500000), "reduce": "ring"}]),
    "along a tree": (
        star(16),
        [{"model": numel(500000), "reduce": "tree", "window": 64}],
    ),
    "256 hosts": (star(256), [{"model": numel(100000)}]),
    "training": (star(8), [{"model": part("vgg16"), "iterations": 2}]),
    "training, jitter": (
        star(8),
        [{"model": part("resnet50"), "iterations": 3, "jitter": 0.1, "bucket_bytes": 100000}],
    ),
    "a narrow window": (star(8), [{"model": numel(300000), "window": 8}]),
    "long links": (
        star(8, delay_us=500),
        [{"model": {"numel": 100000, "layers": 1, "forward_ms": 4}, "window": 512}],
    ),
    "half types": (star(8), [{"model": numel(500000), "wire": "float16"}]),
    "multicast": (star(8, multicast=True), [{"model": numel(500000)}]),
    "a tree": (tree(4, 4, 25), [{"model": numel(500000)}]),
    "a thin tree": (tree(3, 4, 4), [{"model": numel(300000)}]),
    "shared slots": (
        served("esa", 40),
        [{"model": part("vgg16"), "workers": 8}, {"model": part("resnet50"), "workers": 8}],
    ),
    "shared slots, a thin server": (
        served("esa", 10),
        [{"model": numel(500000), "workers": 8, "window": 64}] * 2,
    ),
    "nobody sums on the way": (
        served("none", 40),
        [{"model": numel(200000), "workers": 16, "window": 64}],
    ),
    "two jobs on a host": (
        star(4),
        [
            {"model": numel(800000), "workers": 4, "window": 64},
            {"model": numel(400000), "workers": 4, "window": 64},
        ],
    ),
    "a link between": (
        split(),
        [{"model": numel(200000), "workers": 8, "window": 64}],
    ),
}

LACKING = {
    "background": {"background": [{"from": "w0", "to": "w1", "gbps": 1}]},
    "changes": {"changes": [{"at_s": 1, "a": "w0", "b": "s0", "gbps": 1}]},
    "ecmp": {"ecmp": True},
    "jobs.job0.ahead": {"jobs": [{"model": numel(1000), "ahead": 8, "window": 4}]},
    "jobs.job0.reduce": {"jobs": [{"model": numel(1000), "reduce": "two-level-ring"}]},
    "jobs.job0.overlap": {"jobs": [{"model": "resnet50", "overlap": True}]},
    "jobs.job0.slow": {
        "jobs": [{"model": numel(1000), "slow": [{"what": "sending", "speed": 0.5}]}]
    },
}


def is_near(a, b):
    return abs(a - b) <= MOST * max(a, b)


def compare(program, name):
    topology, jobs = CASES[name]
    scenario = {"topology": topology, "jobs": jobs}
    packets, flows = (sim(program, scenario, level) for level in ("packets", "flows"))
    for a, b in zip(packets["jobs"], flows["jobs"]):
        print(
            "%-28s %9.4f ms by packets, %9.4f ms by flows"
            % (name, 1e3 * a["jct_s"], 1e3 * b["jct_s"])
        )
        assert is_near(a["jct_s"], b["jct_s"]), (name, a["jct_s"], b["jct_s"])
        assert a["bytes_per_worker"] == b["bytes_per_worker"], (name, a, b)
        assert len(a["iteration_ends_s"]) == len(b["iteration_ends_s"]), name
    passed = {(link["from"], link["to"]): link["bytes"] for link in packets["links"]}
    for link in flows["links"]:
        counted = passed.pop((link["from"], link["to"]))
        assert is_near(counted, link["bytes"]), (name, link, counted)
    assert all(left < 10000 for left in passed.values()), (name, passed)  # JOINs and BEATs


def two_levels(program):
    """Of k hosts in each of g racks, the first of a rack sends most: 2 (k - 1) / k of the tensor in its
    rack's ring, 2 (g - 1) / g among the racks, and all of it once more along its rack."""
    for g, k in ((4, 4), (3, 5), (8, 2), (1, 6), (8, 1), (2, 7)):
        elements, gbps, framed = 2000000, 10, (1408 + 36 + 66) / 1408
        topology = tree(g, k, 400) if g > 1 else star(k)
        job = {"model": numel(elements), "reduce": "two-level-ring", "workers": g * k}
        done = sim(program, {"topology": topology, "jobs": [job]}, "packets")
        tensors = 2 * (k - 1) / k + 2 * (g - 1) / g + (g > 1 and k > 1)
        right = tensors * elements * 4 * framed * 8 / (gbps * 1e9)
        got = done["jobs"][0]["comm_s"]
        last = done["jobs"][0]["jct_s"]
        print("%d racks of %d: %.3f ms, %.3f by the closed form" % (g, k, 1e3 * last, 1e3 * right))
        assert right <= last <= 1.03 * right and got <= last, (g, k, got, last, right)
        # each host has the whole sum, once
        sent = sum(link["bytes"] for link in done["links"] if link["from"][0] in "hw")
        copies = g * 2 * (k - 1) + 2 * (g - 1) + g * (k - 1) * (g > 1)
        assert is_near(sent, copies * elements * 4 * framed), (g, k, sent)
    plain = {
        "topology": tree(3, 4, 400),
        "jobs": [
            {
                "model": "resnet50",
                "iterations": 2,
                "jitter": 0.2,
                "bucket_bytes": 10000000,
                "reduce": "two-level-ring",
                "workers": 12,
            }
        ],
    }
    sets = ["--set", "topology.links.*.delay_us=300"]
    done = fanin(program, plain, *sets)  # early packets of later buckets wait
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    assert job["reduced_elements"] == 2 * 12 * job["model_elements"], job


def lacks(program):
    """What only packets have is an error before anything runs."""
    for key, more in LACKING.items():
        scenario = {"topology": star(4), "jobs": [{"model": numel(1000)}], "level": "flows", **more}
        done = fanin(program, scenario)
        assert done.returncode == 2 and "%s: " % key in done.stderr, (key, done.stderr)
        assert "goes with the level packets only" in done.stderr, (key, done.stderr)
    lossy = star(4)
    lossy["links"][0]["loss"] = 0.1
    plain = {"topology": star(4), "jobs": [{"model": numel(1000)}], "level": "flows"}
    done = fanin(program, {**plain, "topology": lossy})
    assert done.returncode == 2 and '"w0" to "s0": flows have no faults' in done.stderr, done.stderr
    done = fanin(program, {**plain, "topology": star(4, gbps=1)})
    assert done.returncode == 2 and '"s0": gbps of a node' in done.stderr, done.stderr
    done = fanin(program, plain, "--trace", "/dev/null")
    assert done.returncode and "flows has no packets" in done.stderr, done.stderr
    done = fanin(program, {**plain, "jobs": [{"model": numel(1000000)}], "limit_s": 1e-4})
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["jobs"][0]["error"] == "not over at limit_s", done.stdout


def many(program, hosts):
    racks = -(-hosts // 40)
    topology = tree(racks, 40, 100)
    begun = time.monotonic()
    job = {"model": "resnet50", "workers": hosts, "jitter": 0.05}
    result = sim(program, {"topology": topology, "jobs": [job]}, "flows")
    took_s = time.monotonic() - begun
    (job,) = result["jobs"]
    print(
        "%d hosts, ResNet50, an iteration: %.4f s, in %.1f s"
        % (job["workers"], job["jct_s"], took_s)
    )
    assert job["workers"] == hosts and job["error"] is None, job
    assert 0.463 < job["jct_s"] < 0.55, job  # computing, and what is left to reduce after it


def main():
    program = sys.argv[1]
    if "--hosts" in sys.argv:
        many(program, int(sys.argv[3]))
        return
    for name in CASES:
        compare(program, name)
    lacks(program)
    two_levels(program)
    many(program, 10000)


main()
