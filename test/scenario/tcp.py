#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCP's flows beside jobs: CUBIC and DCTCP against what their RFCs and DCTCP's paper say.

    tcp.py FANIN [--seeds N]    N drawn networks beside the directed cases (8)
"""

import argparse
import json
import random
import subprocess
import tempfile

LIMIT_S = 300
SEGMENT, FRAME = 1448, 1514
OFF = 0.1


def sim(program, scenario, *args):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(scenario, file)
        file.flush()
        argv = [program, "sim", file.name, "-q", "--json", "-", *args]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done


def result(program, scenario):
    done = sim(program, scenario)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def dumbbell(flows, gbps, delay_us, job=None, seed=1, **thin):
    """Hosts w0, w1, ... send through s0 to `far`, whose link is thin."""
    link = {"b": "s0", "overhead_bytes": 42, "delay_us": delay_us / 2}
    return {
        "seed": seed,
        "topology": {
            "nodes": [
                {"name": "s0", "kind": "switch"},
                {"name": "w", "kind": "worker", "count": max(2, len(flows))},
                {"name": "far", "kind": "worker"},
            ],
            "links": [
                dict(link, a="w*", gbps=10 * gbps),
                dict(link, a="far", gbps=gbps, **thin),
            ],
        },
        "jobs": [job or {"model": {"numel": 1000}, "hosts": ["w0", "w1"], "workers": 2}],
        "flows": [{"from": "w%d" % i, "to": "far", **flow} for i, flow in enumerate(flows)],
    }


def thin_link(done):
    return [link for link in done["links"] if link["to"] == "far"][0]


def is_near(a, b, off=OFF):
    return abs(a - b) <= off * max(abs(a), abs(b))


def cube_root_period(program):
    """Alone, CUBIC cuts once in K = cbrt(0.3 W_max / 0.4) seconds, RFC 9438, where it is not
    friendly to Reno: W_max fills the path and the queue."""
    queue, gbps, rtt_us, seconds = 500000, 0.2, 40000, 120
    done = result(
        program,
        dumbbell([{"kind": "cubic", "stop_s": seconds}], gbps, rtt_us / 2, queue_bytes=queue),
    )
    flow = done["flows"][0]
    most = (gbps * 1e9 / 8 * rtt_us / 1e6 + queue) / FRAME
    period = (0.3 * most / 0.4) ** (1 / 3)
    print("CUBIC cuts %d times in %d s; every %.2f s by RFC 9438" % (flow["cuts"], seconds, period))
    assert is_near(flow["cuts"], seconds / period, 0.15), flow
    assert flow["gbps"] > 0.95 * gbps * SEGMENT / FRAME, flow
    assert flow["timeouts"] == 0, flow


def steady_state(program, flows):
    """DCTCP's windows grow to W* = (C RTT + K) / N; alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* + 1)^2,
    and the queue to K + N.  Acknowledgements that wait for a second segment are not in that."""
    gbps, rtt_us, mark = 1.0, 400, 60
    done = result(
        program,
        dumbbell(
            [{"kind": "dctcp", "stop_s": 8, "ack_segments": 1}] * flows,
            gbps,
            rtt_us / 2,
            queue_bytes=4000000,
            ecn_bytes=mark * FRAME,
        ),
    )
    window = (gbps * 1e9 / 8 * rtt_us / 1e6 / FRAME + mark) / flows
    alpha, right = 0.0, (2 * window + 1) / (window + 1) ** 2
    while alpha * alpha * (1 - alpha / 4) < right:
        alpha += 0.0001
    got = sum(flow["alpha"] for flow in done["flows"]) / flows
    link = thin_link(done)
    print(
        "DCTCP, %d flows: alpha %.3f, %.3f by the paper; the thin link is in use %.3f of the time, "
        "the queue up to %d frames"
        % (flows, got, alpha, link["use"], link["queue_max_bytes"] / FRAME)
    )
    assert is_near(got, alpha), (got, alpha)
    assert link["overflows"] == 0 and link["ecn_marked"] > 0, link
    assert sum(flow["gbps"] for flow in done["flows"]) > 0.95 * gbps * SEGMENT / FRAME
    assert all(flow["retransmissions"] == 0 for flow in done["flows"])


def seeded(program, seed):
    """Each drawn network: what arrives is what was asked for, links are full and fair, queues of
    DCTCP stay short, and the job beside it is summed right."""
    draw = random.Random(seed)
    kind, flows = draw.choice(("cubic", "dctcp")), draw.choice((1, 2, 4))
    gbps, delay_us = draw.choice((0.2, 1)), draw.choice((20, 200, 1000))
    queue = int(gbps * 1e9 / 8 * 2 * delay_us / 1e6) + draw.randint(60, 200) * FRAME
    mark = {"ecn_bytes": queue // 3} if kind == "dctcp" else {}
    asked = draw.randint(10, 20) * 1000000
    faults = {"loss": 1e-5, "duplicate": 1e-4, "reorder": 1e-3, "reorder_us": 200}
    more = draw.choice(({}, faults))
    scenario = dumbbell(
        [{"kind": kind, "bytes": asked, "start_s": draw.random() / 100} for _ in range(flows)],
        gbps,
        delay_us,
        job={"model": {"numel": 200000}, "hosts": ["w0", "far"], "workers": 2, "verify": True},
        seed=seed,
        queue_bytes=queue,
        **mark,
        **more,
    )
    done = result(program, scenario)
    job, link = done["jobs"][0], thin_link(done)
    assert job["checked_elements"] == 400000, (seed, job)
    assert [flow["bytes"] for flow in done["flows"]] == [asked] * flows, (seed, done["flows"])
    last = max(flow["end_s"] for flow in done["flows"])
    least = (flows * asked * FRAME / SEGMENT) * 8 / (gbps * 1e9)
    assert last >= least, (seed, last, least)
    if not more:
        assert last < 1.3 * least + 0.2, (seed, kind, last, least)
        used = 0 if kind == "cubic" else link["ecn_marked"]
        assert kind == "cubic" or used > 0, (seed, link)
    again = result(program, scenario)
    assert again == done, seed


def wrong(program):
    base = dumbbell([{"kind": "cubic", "stop_s": 1}], 1, 10)
    cases = {
        'flows[0].kind: "reno"': {"kind": "reno"},
        "flows[0].to: is where it comes from": {"to": "w0"},
        'flows[0].from: no node "nobody"': {"from": "nobody"},
        "flows[0].stop_s: expected more than start_s": {"start_s": 2},
        "flows[0].bytes: ": {"bytes": 0},
        "flows[0].gbps": {"gbps": 1},
    }
    for text, change in cases.items():
        done = sim(program, {**base, "flows": [{**base["flows"][0], **change}]})
        assert done.returncode == 2 and text in done.stderr, (text, done.stderr)
    done = sim(program, {**base, "flows": [{"from": "w0", "to": "far"}]})
    assert done.returncode == 2 and 'lacks the key "kind"' in done.stderr, done.stderr
    done = sim(program, base, "--set", "level=flows")
    assert done.returncode == 2 and "goes with the level packets only" in done.stderr, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("fanin")
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    wrong(args.fanin)
    cube_root_period(args.fanin)
    steady_state(args.fanin, 2)
    steady_state(args.fanin, 1)
    for seed in range(1, args.seeds + 1):
        seeded(args.fanin, seed)
    print("%d drawn networks" % args.seeds)


main()
