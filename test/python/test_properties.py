# SPDX-License-Identifier: Apache-2.0
"""What holds of every simulation, on random stars.

FAN_TEST_CASES says how many of each property (60), FAN_TEST_SEED which; a failure names the seed of
its case, which FAN_TEST_SEED and FAN_TEST_CASES=1 repeat.
"""

import copy
import json
import os
import random
import subprocess
import tempfile

import pytest

import fanin.sim

CASES = int(os.environ.get("FAN_TEST_CASES", "60"))
SEED = int(os.environ.get("FAN_TEST_SEED", "1"))
POLICIES = ("switchml", "atp", "esa", "grid")
WINDOWS = (2, 3, 5, 8, 13, 16, 24, 31, 32, 33, 48, 64, 96, 128, 256, 512)
QUEUE_BYTES = 1_000_000_000  # of a link: nothing is lost for want of room
PAYLOAD_ELEMS = 352  # float32 of a full packet
LIMIT_S = 120
TIMERS_S = 0.002  # two of the shortest time-outs


@pytest.fixture(name="program", scope="module")
def _program():
    beside = os.path.join(os.path.dirname(os.environ.get("FANIN_LIBRARY", "")), "..", "fanin")
    for path in (os.path.join(os.environ.get("BUILD", "build"), "fanin"), beside):
        if os.access(path, os.X_OK):
            return path
    return fanin.sim.find_program()


def _text(program, scenario):
    """What a run prints as JSON."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(scenario, file)
        file.flush()
        command = [program, "sim", file.name, "-q", "--json", "-"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def _run(program, scenario):
    result = json.loads(_text(program, scenario))
    assert not any(job["error"] for job in result["jobs"]), result["jobs"]
    return result


def _each_seed(check):
    """A test that runs check(program, seed) for CASES seeds, and says which one failed."""

    def run(program):
        for seed in range(SEED, SEED + CASES):
            try:
                check(program, seed)
            except Exception as error:
                raise AssertionError(f"FAN_TEST_SEED={seed} FAN_TEST_CASES=1: {error}") from error

    return run


def _star(rng, frags, prefix=""):
    """A job of `frags` fragments at a switch with ample slots, and at most 1 us a packet."""
    policy, workers = rng.choice(POLICIES), rng.randint(2, 24)
    gbps, uplink = rng.choice((1, 2.5, 10, 25, 40, 100, 200)), rng.choice((1, 2, 4))
    switch = {"name": prefix + "s", "kind": "switch", "policy": policy, "slots": 16384}
    links = [
        {"a": f"{prefix}w{w}", "b": prefix + "s", "gbps": gbps, "delay_us": rng.choice((1, 2, 5))}
        for w in range(workers)
    ]
    nodes = [switch] + [{"name": link["a"], "kind": "worker"} for link in links]
    if policy != "switchml":
        switch["server"] = prefix + "ps"
        nodes.append({"name": prefix + "ps", "kind": "server"})
        up = {"a": prefix + "ps", "b": prefix + "s", "gbps": gbps * uplink, "delay_us": 1}
        links.append(up)
    else:
        switch["window"] = 512
    for link in links:
        link["queue_bytes"] = QUEUE_BYTES
    job = {
        "name": prefix + "j",
        "workers": workers,
        "hosts": [link["a"] for link in links[:workers]],
        "window": rng.choice(WINDOWS),
        "mode": rng.choice(("native", "fixed")),
        "model": {"numel": frags * PAYLOAD_ELEMS, "layers": 1, "forward_ms": 0, "backward_ms": 0},
    }
    return {"seed": 1, "topology": {"nodes": nodes, "links": links}, "jobs": [job]}


def _time(result, job=0):
    return result["jobs"][job]["comm_s"]


def _rtt_and_busy(scenario, result, frags):
    """Seconds until the contribution of the worker that is furthest off comes back as a sum when
    nothing waits; and those that the busiest link is busy."""
    links = scenario["topology"]["links"]
    rate = {x["a"]: x["gbps"] * 1e9 for x in links}
    rate_of = [(rate.get(x["from"]) or rate[x["to"]], x["bytes"] * 8) for x in result["links"]]
    frame_bits = next(x["bytes"] * 8 / frags for x in result["links"] if x["from"] in rate)
    hops = [2 * (frame_bits / (x["gbps"] * 1e9) + x["delay_us"] * 1e-6) for x in links]
    workers = scenario["jobs"][0]["workers"]
    return max(hops[:workers]) + sum(hops[workers:]), max(bits / bps for bps, bits in rate_of)


@_each_seed
def test_time_is_that_of_bytes_or_of_the_window(program, seed):
    rng = random.Random(seed)
    frags = rng.randint(400, 2000)
    scenario = _star(rng, frags)
    fixed = scenario["jobs"][0]["mode"] == "fixed"  # an RTT more, for the first exponents
    result = _run(program, scenario)
    rtt, busy = _rtt_and_busy(scenario, result, frags)
    bound = max(busy, frags / scenario["jobs"][0]["window"] * rtt)
    assert 0.99 * bound <= _time(result), (_time(result) / bound, scenario)
    if result["switches"][0]["collisions"] == 0:  # grid drops what collides
        assert _time(result) <= 1.01 * bound + (1 + fixed) * rtt, (_time(result) / bound, scenario)


@_each_seed
def test_sums_are_exact_when_packets_are_lost_and_slots_are_scarce(program, seed):
    rng = random.Random(seed)
    frags = rng.randint(20, 200)
    scenario = _star(rng, frags)
    for link in scenario["topology"]["links"]:
        link.update({what: rng.choice((0, 0.01)) for what in ("loss", "duplicate", "reorder")})
    switch = scenario["topology"]["nodes"][0]
    switch["slots"] = rng.choice((8, 64, 1024))
    scenario["jobs"][0].update(verify=True, iterations=2)
    if scenario["jobs"][0]["mode"] == "native":
        scenario["jobs"][0]["wire"] = rng.choice(("float32", "float16", "bfloat16", "int8"))
    job = _run(program, scenario)["jobs"][0]
    assert job["checked_elements"] == 2 * frags * PAYLOAD_ELEMS * job["workers"]


@_each_seed
def test_a_seed_gives_the_same_bytes(program, seed):
    scenario = dict(_star(random.Random(seed), 100), seed=seed)
    scenario["topology"]["links"][0].update(loss=0.02, reorder=0.02)
    first = _text(program, scenario)
    assert first == _text(program, scenario)
    assert first != _text(program, dict(scenario, seed=seed + 1))


@_each_seed
def test_names_and_unused_nodes_change_no_time(program, seed):
    alone = _star(random.Random(seed), 100)
    other = _star(random.Random(seed), 100, prefix="other-")
    other["topology"]["nodes"] += [{"name": "x", "kind": "switch"}, {"name": "y", "kind": "worker"}]
    other["topology"]["links"].append({"a": "y", "b": "x", "gbps": 1, "delay_us": 1})
    other["topology"]["links"].append({"a": "x", "b": "other-s", "gbps": 1, "delay_us": 1})
    assert _time(_run(program, alone)) == _time(_run(program, other))


@_each_seed
def test_twins_are_as_fast_as_each_alone(program, seed):
    alone = _star(random.Random(seed), 100)
    twin = _star(random.Random(seed), 100, prefix="twin-")
    both = copy.deepcopy(alone)
    both["topology"] = {
        key: alone["topology"][key] + twin["topology"][key] for key in twin["topology"]
    }
    both["topology"]["links"].append({"a": "s", "b": "twin-s", "gbps": 1, "delay_us": 1})
    both["jobs"] += twin["jobs"]
    result = _run(program, both)
    assert _time(_run(program, alone)) == _time(result, 0) == _time(result, 1)


def _faster(scenario, times, delays):
    scaled = copy.deepcopy(scenario)
    for link in scaled["topology"]["links"]:
        link["gbps"] *= times
        link["delay_us"] /= delays
    return scaled


@_each_seed
def test_times_scale_with_rates_and_delays(program, seed):
    rng = random.Random(seed)
    scenario, times = _star(rng, 400), rng.choice((2, 4, 10))
    fast = _time(_run(program, _faster(scenario, times, times)))
    assert fast * times == pytest.approx(_time(_run(program, scenario)), rel=0.01)


@_each_seed
def test_links_twice_as_fast_slow_nobody(program, seed):
    scenario = _star(random.Random(seed), 400)
    assert _time(_run(program, _faster(scenario, 2, 1))) <= _time(_run(program, scenario))


@_each_seed
def test_they_do_by_a_timer_where_slots_are_scarce(program, seed):
    rng = random.Random(seed)
    scenario = _star(rng, 400)
    scenario["topology"]["nodes"][0]["slots"] = rng.choice((8, 16, 32, 64))
    slow, fast = (_time(_run(program, one)) for one in (scenario, _faster(scenario, 2, 1)))
    assert fast <= slow + TIMERS_S, (fast / slow, scenario)
