#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are parts of one tensor: exact, in step, in iterations that begin together, and no slower
than their links.

    parts.py FANIN
"""

import json
import os
import subprocess
import sys
import tempfile

HOSTS = 8
ELEMS = 1 << 20
GBPS = 10
SLOW_GBPS = 0.2
LOSSES = 5  # seeds
FRAME, PAYLOAD = 1486, 1408


def scenario(spares, tensor="t", loss=0.0, n=HOSTS, gbps=GBPS):
    """Hosts that each sum a part, and spares: shares as on equal links."""
    k = spares
    g = (n - k) / (n * n + k * n - 2 * k)
    shares = {"h%d" % i: g for i in range(n) if g}
    shares.update({"s%d" % i: (1 - n * g) / k for i in range(k)})
    nodes = [{"name": "core", "kind": "router"}, {"name": "h", "kind": "switch", "count": n}]
    if k:
        nodes.append({"name": "s", "kind": "switch", "count": k})
    nodes += [{"name": "w%d-" % i, "kind": "worker", "count": 1} for i in range(n)]
    links = [
        {"a": name, "b": "core", "gbps": gbps, "overhead_bytes": 42, "loss": loss}
        for name in ["h%d" % i for i in range(n)] + ["s%d" % i for i in range(k)]
    ]
    links += [{"a": "w%d-*" % i, "b": "h%d" % i, "gbps": 1000} for i in range(n)]
    jobs = [
        {
            "name": "part-" + node,
            "tensor": tensor,
            "at": node,
            "workers": n,
            "hosts": ["w%d-0" % i for i in range(n)],
            "iterations": 3,
            "model": {"numel": round(share * ELEMS)},
        }
        for node, share in shares.items()
    ]
    return {"topology": {"nodes": nodes, "links": links}, "jobs": jobs}


def run(fanin, what, seed=1):
    with tempfile.TemporaryDirectory() as work:
        path, out = os.path.join(work, "s.json"), os.path.join(work, "out")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(what, file)
        done = subprocess.run(
            [fanin, "sim", path, "-q", "--seed", str(seed), "--json", out],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode == 2:
            return done.stderr
        assert done.returncode == 0, done.stderr
        with open(out, encoding="utf-8") as file:
            jobs = json.load(file)["jobs"]
    for job in jobs:
        assert job["error"] is None, job
        assert job["checked_elements"] == job["bytes_per_worker"] // 4 * job["workers"] > 0, job
    return jobs


def begin_together(fanin):
    """A part of one fragment, which could run far ahead of the other within its least bound."""
    what = scenario(0)
    what["jobs"] = what["jobs"][:2]
    for job, numel in zip(what["jobs"], (PAYLOAD // 4, ELEMS)):
        job["model"]["numel"] = numel
    small, large = (job["iteration_ends_s"] for job in run(fanin, what))
    for i in range(2):
        takes = large[i + 1] - large[i]
        assert large[i] < small[i + 1] < large[i] + takes / 10, (small, large)


def seconds(jobs):
    ends = [max(job["iteration_ends_s"][i] for job in jobs) for i in (0, 2)]
    return (ends[1] - ends[0]) / 2


def with_losses(fanin):
    """1 % on each link: what is lost holds up neither other parts nor, for 20 ms, the end of a tensor."""
    for hosts, least in (4, 0.95), (8, 0.92):
        lossless = seconds(run(fanin, scenario(0, n=hosts, gbps=SLOW_GBPS)))
        lossy = scenario(0, loss=0.01, n=hosts, gbps=SLOW_GBPS)
        took = sum(seconds(run(fanin, lossy, seed)) for seed in range(1, 1 + LOSSES)) / LOSSES
        assert lossless / took > least, (hosts, lossless / took)


def refused(fanin, key, value, message):
    wrong = scenario(0)
    wrong["jobs"][1][key] = value
    said = run(fanin, wrong)
    assert isinstance(said, str) and message in said, said


def main():
    fanin = sys.argv[1]
    n = HOSTS
    one = ELEMS * 4 * 8 * FRAME / PAYLOAD / (GBPS * 1e9)
    for spares in 0, 1, 4, 8:
        jobs = run(fanin, scenario(spares))
        bound = one * max(1, 2 * n * (n - 1) / (n * n + spares * n - 2 * spares))
        took = seconds(jobs)
        assert bound * 0.99 < took < bound * 1.1, (spares, took / bound)
        ends = [[job["iteration_ends_s"][i] for job in jobs] for i in range(3)]
        for before, after in zip(ends, ends[1:]):
            assert max(after) - min(after) < 0.1 * (min(after) - max(before)), ends
    apart = scenario(1)
    for job in apart["jobs"]:
        job["tensor"] = job["name"]
    in_step, alone = seconds(run(fanin, scenario(1))), seconds(run(fanin, apart))
    assert in_step < 0.95 * alone, (in_step, alone)
    assert run(fanin, scenario(1)) == run(fanin, scenario(1))
    run(fanin, scenario(1, loss=0.01))
    with_losses(fanin)
    begin_together(fanin)

    refused(fanin, "iterations", 2, 'jobs.part-h1.tensor: "t": expected the workers, iterations')
    refused(fanin, "hosts", ["w%d-0" % (7 - i) for i in range(n)], 'expected the hosts of "part-h0"')
    refused(fanin, "reduce", "ring", "jobs.part-h1.reduce: does not go with tensor")
    refused(fanin, "retries", 1, "jobs.part-h1.retries: does not go with tensor")
    refused(fanin, "overlap", True, "jobs.part-h1.overlap: does not go with tensor")
    refused(fanin, "ahead", 1024, "jobs.part-h1.ahead: does not go with tensor")


main()
