#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The same scenario and seed give the same bytes: in every build, and however many runs go
# on at a time.  When a change of results was meant, look at the difference and record it:
#
#     for s in ahead faults shared; do
#             build/fanin sim test/scenario/$s.json -q --json test/scenario/$s.expect.json
#     done
#
#     exact.sh FANIN [few | recorded]     few: no sweeps, which are many runs of one scenario;
#                                         recorded: the recorded scenarios alone
set -eu
fanin=$1
few=${2-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

same() { # FILE FILE WHAT
        cmp -s "$1" "$2" && return
        echo "$3: not the same:"
        diff "$1" "$2" | head -20
        exit 1
}

for s in ahead faults shared; do
        "$fanin" sim $s.json -q --json "$work/$s.json"
        same $s.expect.json "$work/$s.json" "$s.json, as recorded"
        "$fanin" sim $s.json -q --set 'jobs.*.verify=false' --json "$work/$s.json"
        grep -v checked_elements $s.expect.json >"$work/with.json"
        grep -v checked_elements "$work/$s.json" >"$work/without.json"
        same "$work/with.json" "$work/without.json" "$s.json, with elements and without"
done
[ "$few" != recorded ] || exit 0

for jobs in 1 3; do
        [ -z "$few" ] || break
        "$fanin" sim faults.json -q -j $jobs --sweep seed=1,2,3,4,5 \
                --sweep 'topology.links.*.loss=0,0.02' --json "$work/sweep$jobs.json"
done
[ -n "$few" ] || same "$work/sweep1.json" "$work/sweep3.json" 'a sweep, one and three runs at a time'

"$fanin" sim faults.json -q --seed 3 --set 'topology.links.*.loss=0.02' --json "$work/one.json" \
        --trace "$work/trace" --pcap "$work/pcap"
[ -n "$few" ] || python3 - "$work/sweep1.json" "$work/one.json" <<'PY'
import json
import sys

sweep, one = (json.load(open(name)) for name in sys.argv[1:])
runs = [r for r in sweep["runs"] if r.pop("set") == {"seed": 3, "topology.links.*.loss": 0.02}]
assert len(sweep["runs"]) == 10 and runs == [one], "a run of a sweep is not that run alone"
assert len({r["end_s"] for r in sweep["runs"]}) == 10, "seeds do not matter"
for run in sweep["runs"]:
    for job in run["jobs"]:
        assert job["error"] is None, job
        elements = job["bytes_per_worker"] // 4 * job["workers"]
        assert job["checked_elements"] == elements > 0, job
PY
grep -q 'sends' "$work/trace" && grep -q 'is lost' "$work/trace"
python3 - "$work/trace" "$work/pcap" <<'PY'
import struct
import sys

sent = sum(line.endswith(": sends\n") and "background" not in line for line in open(sys.argv[1]))
data = open(sys.argv[2], "rb").read()
magic, major, minor, _, _, snap, kind = struct.unpack("<IHHiIII", data[:24])
assert (magic, major, minor, snap, kind) == (0xA1B23C4D, 2, 4, 65535, 101)
at, packets, last = 24, 0, 0
while at < len(data):
    s, ns, size, whole = struct.unpack("<IIII", data[at:at + 16])
    ip = data[at + 16:at + 16 + size]
    assert whole == struct.unpack(">H", ip[2:4])[0] == struct.unpack(">H", ip[24:26])[0] + 20
    assert size == (whole if ip[29] >= 16 else min(whole, 28 + 36)), "headers, and control messages"
    words = sum(struct.unpack(">10H", ip[:20]))
    assert (words & 0xFFFF) + (words >> 16) == 0xFFFF, "checksum of IP"
    assert ip[0] == 0x45 and ip[9] == 17 and ip[28] == 2, "IPv4, UDP, fanin version 2"
    assert last <= (s, ns) if last else True
    last, packets, at = (s, ns), packets + 1, at + 16 + size
assert packets == sent > 1000, (packets, sent)
PY

# Of one node's packets alone; and a capture that would be too large ends, and says so.
"$fanin" sim ring.json -q --json "$work/one.json" --pcap "$work/w3.pcap:w3"
python3 - "$work/one.json" "$work/w3.pcap" <<'PY'
import json
import struct
import sys

links = json.load(open(sys.argv[1]))["links"]
data = open(sys.argv[2], "rb").read()
at, packets = 24, 0
while at < len(data):
    (size,) = struct.unpack("<I", data[at + 8:at + 12])
    packets, at = packets + 1, at + 16 + size
assert packets == sum(link["packets"] for link in links if "w3" in (link["from"], link["to"])), packets
PY
"$fanin" sim ring.json -q --set jobs.x.model.numel=12000000 --json /dev/null --pcap "$work/large.pcap" 2>"$work/said"
[ -n "$few" ] || grep -q 'large.pcap has the first [0-9]* packets, until 0.[0-9]* s; it has no room for [0-9]* more: capture one' "$work/said"
[ "$(wc -c <"$work/large.pcap")" -le 67108864 ]
rm "$work/large.pcap"

# Twice (n - 1) / n: what a ring sends, and nothing else differs.
"$fanin" sim ring.json -q --sweep jobs.x.reduce=fanin,ring --json "$work/ring.json"
python3 - "$work/ring.json" <<'PY'
import json
import sys

fanin, ring = (r["jobs"][0]["comm_s"] for r in json.load(open(sys.argv[1]))["runs"])
assert abs(ring / fanin / (2 * 15 / 16) - 1) < 0.01, ring / fanin
PY
# Along a tree who has a parent and two children gets three times the tensor and sends as much; each
# packet goes up and down over two links.
"$fanin" sim ring.json -q --set jobs.x.reduce=tree --set jobs.x.window=64 \
        --set 'jobs.x.model={"numel": 900000, "layers": 3}' --sweep topology.nodes.w.count=2,3,16,33 --json "$work/tree.json"
python3 - "$work/tree.json" <<'PY'
import json
import sys

for run in json.load(open(sys.argv[1]))["runs"]:
    (job,) = run["jobs"]
    n, once = job["workers"], 900000 * 4 * (1 + 102 / 1408) * 8 / 10e9
    wanted = once * (1 if n == 2 else 2 if n == 3 else 3)
    assert job["at"] == "tree" and job["error"] is None, job
    assert abs(job["jct_s"] / wanted - 1) < 0.04, (n, job["jct_s"], wanted)
    assert run["packet_hops"] == 2 * 2 * (n - 1) * 3 * -(-300000 * 4 // 1408), (n, run["packet_hops"])
PY
# Nobody has a sum without the part of the slowest.
"$fanin" sim ring.json -q --set jobs.x.reduce=tree --set 'jobs.x.slow=[{"rank": 15, "what": "sending", "speed": 0.1}]' --json "$work/tree.json"
python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["avg_jct_s"] > 0.0343' "$work/tree.json"
# A group's result crosses each link once.
"$fanin" sim group.json -q --sweep topology.nodes.ps.multicast=false,true --json "$work/group.json"
python3 - "$work/group.json" <<'PY'
import json
import sys

carried = {}
for run in json.load(open(sys.argv[1]))["runs"]:
    for job in run["jobs"]:
        assert not job["error"] and job["checked_elements"] == job["reduced_elements"], job
    by = run["set"]["topology.nodes.ps.multicast"]
    for link in run["links"]:
        carried[by, link["from"], link["to"]] = link["bytes"]
# 100,000 elements go to 8 workers, of which 5 are behind q, and 50,000 to 4, of which 1 is
for at, to, unicast, once in ("ps", "r", 8 + 4 / 2, 1.5), ("r", "q", 5 + 1 / 2, 1.5):
    ratio = carried[False, at, to] / carried[True, at, to]
    assert abs(ratio / (unicast / once) - 1) < 0.05, (at, to, ratio)
assert abs(carried[False, "q", "b0"] / carried[True, "q", "b0"] - 1) < 0.02
PY

# Shared switches: every policy gives right sums, and slots and queues what they were given.
"$fanin" sim contest.json -q --sweep topology.nodes.s0.policy=switchml,atp,esa,grid,none \
        --sweep 'topology.links.1.ecn_bytes=0,30000' --json "$work/contest.json"
python3 - "$work/contest.json" <<'PY'
import json
import sys

run_of = {}
for run in json.load(open(sys.argv[1]))["runs"]:
    policy, mark = (run["set"][k] for k in ("topology.nodes.s0.policy", "topology.links.1.ecn_bytes"))
    run_of[policy, mark] = run
    for job in run["jobs"]:
        assert not job["error"] and job["checked_elements"] == job["reduced_elements"], job
    for switch in run["switches"]:
        assert switch["policy"] == policy and 0 < switch["hit_rate"] <= 1, switch
        assert max(switch["series"]["lent"]) <= 1, switch
        if policy in ("atp", "esa", "grid"):
            assert switch["slots"] == 16 and max(switch["series"]["lent"]) <= 12 / 16, "quota"
            assert switch["collisions"] > 0 and switch["over_quota"] > 0, switch
            assert (switch["evictions"] > 0) == (switch["preemptions"] > 0) == (policy == "esa")
            # three workers' packets a fragment come, and each is counted once
            parts = switch["contributions"] + switch["collisions"] + switch["passed"]
            sent = sum(job["sent"] for job in run["jobs"])
            assert abs(parts - sent) <= switch["dropped"], (parts, sent)
    marked = sum(link["ecn_marked"] for link in run["links"] if link["to"] == "ps")
    assert (marked > 0) == (mark > 0 and policy != "switchml"), (policy, mark, marked)
for policy in ("atp", "esa"):  # marks make windows smaller, before the queue for the server is full
    lost = [sum(link["overflows"] for link in run_of[policy, mark]["links"]) for mark in (0, 30000)]
    assert 0 < lost[1] < 0.9 * lost[0], (policy, lost)
assert sum(link["overflows"] for link in run_of["grid", 0]["links"]) == 0  # the switch drops before
bytes_of = [run_of[p, 0]["servers"][0]["rx_bytes"] for p in ("none", "atp", "esa", "grid")]
assert bytes_of[0] == max(bytes_of) and bytes_of[3] == min(bytes_of), bytes_of
PY

# Variants: each run is that of its settings; seeds make one bar; who fails is named on the page.
if "$fanin" sim contest.json --variants variants.json --sweep seed=1,2 --set jobs.a.jitter=0.1 \
        --json "$work/variants.json" --report "$work/variants.html" >"$work/variants.txt"; then
        echo 'a variant whose job has no room does not fail'
        exit 1
fi
"$fanin" sim contest.json -q --seed 2 --set jobs.a.jitter=0.1 --set topology.nodes.s0.policy=esa \
        --json "$work/one.json"
python3 - "$work/variants.json" "$work/one.json" "$work/variants.txt" "$work/variants.html" <<'PY'
import json
import sys

names = ["ring", "esa", "no room"]
result, one = (json.load(open(name)) for name in sys.argv[1:3])
assert result["sweep"] == ["variant", "seed"], result["sweep"]
sets = [run.pop("set") for run in result["runs"]]
assert sets == [{"variant": v, "seed": s} for v in names for s in (1, 2)], sets
assert result["runs"][3] == one, "a variant is not its settings alone"
assert [run["failed_jobs"] for run in result["runs"]] == [0, 0, 0, 0, 1, 1]
rows = [line.split() for line in open(sys.argv[3]).readlines()[1:]]
assert [(r[-1], r[-6]) for r in rows[:2]] == [("0", "2"), ("0", "2")], rows
assert rows[2][3:] == ["-", "-", "-", "-", "2", "b:", "jobs_full"], rows
page = json.loads(open(sys.argv[4]).read().split("id=page>")[1].split("</script>")[0])
bars = [b["panels"][0]["rows"] for b in page["blocks"] if b["kind"] == "bars"]
failed = [(r["name"], r["values"][0], r["failed"]) for rows in bars for r in rows if "failed" in r]
assert [len(rows) for rows in bars] == [3, 3] and "2 jobs failed" in page["title"], page["title"]
assert failed == [("no room", None, "2 of 4 jobs failed (b: jobs_full)")] * 2, failed
PY

# 64 jobs share a switch, and the next one is told that there is no room, before one of them ends.
for copies in 32 33; do
        "$fanin" sim contest.json -q --set 'jobs.*.copies='$copies --set 'jobs.*.model.numel=40000' \
                --set topology.nodes.s0.policy=esa --set topology.nodes.s0.quota=2 --set limit_s=10 \
                --json "$work/many$copies.json" || [ $copies = 33 ]
done
python3 - "$work/many32.json" "$work/many33.json" <<'PY'
import json
import sys

for name, refused in zip(sys.argv[1:], (0, 2)):
    jobs = json.load(open(name))["jobs"]
    errors = [job["error"] for job in jobs if job["error"]]
    assert len(jobs) == 64 + refused and errors == ["jobs_full"] * refused, errors
    assert all(job["checked_elements"] == 3 * 40000 for job in jobs if not job["error"])
PY

# The page: whole, nothing to be loaded, and it describes what it should (test/ops/pages draws it).
"$fanin" sim faults.json -q --report "$work/one.html"
"$fanin" sim shared.json -q --report "$work/shared.html"
"$fanin" sim ring.json -q --sweep jobs.x.reduce=fanin,ring --sweep topology.nodes.w.count=2,4,8 \
        --report "$work/sweep.html"
python3 - "$work/one.html" "$work/sweep.html" "$work/shared.html" "$work/variants.html" <<'PY'
import json
import sys
from html.parser import HTMLParser


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, (tag, attrs)


def no_constant(text):
    raise AssertionError(text)


for name, plots in zip(sys.argv[1:], (3, 2, 8, 2)):
    page, text = Page(), open(name).read()
    page.feed(text)
    assert [page.tags.count(tag) for tag in ("html", "main", "style", "script")] == [1, 1, 1, 2], page.tags
    described = json.loads(text.split("id=page>")[1].split("</script>")[0], parse_constant=no_constant)
    drawn = [b for b in described["blocks"] if b["kind"] in ("lanes", "curves", "bars")]
    assert len(drawn) == plots, (name, len(drawn))
    assert all(len(line["y"]) > 1 for b in drawn for line in b.get("lines", ())), name
PY
# Without Python a line says so.  What --json writes makes the same page.
if PATH=/nonexistent "$fanin" sim faults.json -q 2>"$work/none.err"; then
        echo 'a run without Python?'
        exit 1
fi
grep -q 'fanin sim: needs Python 3.9 or later: python3: No such file' "$work/none.err"
"$fanin" sim faults.json -q --json "$work/one.json"
python3 ../../page/__main__.py sim <"$work/one.json" >"$work/none.html"
cmp "$work/none.html" "$work/one.html"
# No text ends the description.
printf '{"by": "a test", "title": "</script>&", "sub": "", "blocks": []}' | python3 ../../page/__main__.py page >"$work/evil.html"
[ "$(grep -o '</script>' "$work/evil.html" | wc -l)" = 2 ]
grep -q 'u003c/script>&"' "$work/evil.html"

# A failure is shrunk: here the first result that is sent again counts as one.
mkdir "$work/shrunk"
if ./whole_jobs.py "$fanin" --seed 4 --find replays --keep "$work/shrunk" >"$work/log"; then
        echo 'whole_jobs.py finds no replays with seed 4'
        exit 1
fi
python3 - "$work/shrunk/seed4.json" "$work/shrunk/seed4.trace" <<'PY'
import json
import sys

small = json.load(open(sys.argv[1]))
assert len(small["jobs"]) == 1 and small["changes"] == small["background"] == [], small
assert small["jobs"][0]["workers"] == 2 and small["jobs"][0]["iterations"] == 1, small
assert 10 < len(open(sys.argv[2]).readlines()) < 300
PY
echo 'the same bytes'

# Ranks that run ahead of a slow one: who keeps for whom, as the switch counts it and as the caches
# do; where none is slow, nobody.
slow() { # FILE SLOW
        "$fanin" sim ../../experiments/sa-atp/rotate.json -q --set jobs.0.model.numel=2000000 \
                --set sample_us=100 --set topology.nodes.s0.slots=128 --set topology.links.1.gbps=10 \
                --set jobs.0.ahead=8192 --set jobs.0.cache_frags=200 --set "jobs.0.slow=$2" --json "$1"
}
slow "$work/even.json" '[]'
slow "$work/slow.json" '[{"rank": 5, "what": "sending", "speed": 0.3}]'
python3 - "$work/even.json" "$work/slow.json" <<'PY'
import json
import sys

SLOW = 5
even, slow = (json.load(open(name))["jobs"][0]["ahead"] for name in sys.argv[1:])
for ahead in (even, slow):
    series = ahead["series"]
    lists = series["behind"] + series["cache_open"]
    assert len(lists) == 16 and 1 < len(lists[0]) <= 128, series
    assert {len(one) for one in lists} == {len(lists[0])}, series
    assert max(max(one) for one in series["cache_open"]) <= 200, series
assert not any(r["helps"] or r["deferred"] or r["lent"] for r in even["ranks"]), even
parts = [sum(r["helps"].get(str(i), 0) for r in slow["ranks"]) for i in range(8)]
assert parts[SLOW] > 1.2 * (sum(parts) - parts[SLOW]), parts
for r in slow["ranks"]:
    assert parts[r["rank"]] <= r["deferred"], r
    if r["rank"] == SLOW:  # it helps only until it is known to be slow
        assert sum(r["helps"].values()) <= r["lent"] < 100 < min(other["lent"] for other in slow["ranks"] if other != r), r
        continue
    assert abs(r["lent"] - r["cache_parts"]) <= 5, r
    assert abs(r["helps"][str(SLOW)] - r["cache_done"]) <= 5 < r["cache_done"], r
behind = [sum(one) for one in slow["series"]["behind"]]
assert behind[SLOW] > 5 * max(behind[:SLOW] + behind[SLOW + 1:]), behind  # helpers' own wait behind sums
PY
# Running ahead costs ESA nothing where slots are scarce, and gains where workers are slow.
scarce() { # FILE AHEAD CACHE SLOW
        "$fanin" sim ../../experiments/all/jobs.json -q --set "jobs.*.ahead=$2" \
                --set "jobs.*.cache_frags=$3" --set "jobs.*.slow=$4" --json "$1"
}
turns='[{"what": "sending", "speed": 0.25, "chance": 0.2, "interval_ms": 0.2}]'
[ -n "$few" ] || for slow in '[]' "$turns"; do
        scarce "$work/esa.json" 0 0 "$slow"
        scarce "$work/both.json" 192 1024 "$slow"
        python3 - "$work/both.json" "$work/esa.json" <<'PY'
import json
import sys

both, esa = (json.load(open(name))["avg_jct_s"] for name in sys.argv[1:])
assert both <= 1.02 * esa, (both, esa)
PY
done
# Links that are slow in turns: in step, each waits for the slowest; ahead, each goes at its own pace, and where
# slots are few a server that gets what did not meet is the limit.
turn() { # FILE SLOW AHEAD CACHE SLOTS
        "$fanin" sim ../../experiments/sa-atp/rotate.json -q --set jobs.0.model.numel=4000000 --set jobs.0.verify=true \
                --set "jobs.0.slow=$2" --set "jobs.0.ahead=$3" --set "jobs.0.cache_frags=$4" --set "topology.nodes.s0.slots=$5" --json "$1"
}
if [ -z "$few" ]; then
        turn "$work/t1" '[]' 0 0 256
        turn "$work/t2" '[]' 16384 4096 256
        n=2
        for how in '0 0 256' '16384 0 65536' '16384 4096 4096' '16384 0 256' '16384 4096 256' '16384 100 256'; do
                n=$((n + 1))
                # shellcheck disable=SC2086
                turn "$work/t$n" "$turns" $how
        done
        python3 - "$work"/t[1-8] <<'PY'
import json
import sys

healthy, *took = (json.load(open(name))["avg_jct_s"] for name in sys.argv[1:])
ratio = [t / healthy for t in took]
assert 0.99 < ratio[0] < 1.01 and ratio[1] > 1.5, ratio
assert max(ratio[2:4]) < 1.3 and max(ratio[4:]) < 1.5, ratio
PY
fi
"$fanin" sim ahead.json -q --report "$work/ahead.html"
lag=$(sed -n 's/^#define FAN_LAG_FRAGS[^0-9]*\([0-9]*\).*/\1/p' ../../src/core/base/limits.h)
grep -q "rank is $lag fragments or more" "$work/ahead.html"
python3 - "$work/ahead.html" <<'PY'
import json
import sys

blocks = json.loads(open(sys.argv[1]).read().split("id=page>")[1].split("</script>")[0])["blocks"]
starts = [i for i, b in enumerate(blocks) if b.get("text", "").startswith("Ranks of ")]
leads, plain = blocks[starts[0]:starts[1]], blocks[starts[1]:]
names = [b.get("title") for b in leads]
assert "Sums kept for others" in names, names
(helps,) = [b for b in leads if b["kind"] == "map"]
assert [r["name"] for r in helps["rows"] if r.get("apart")] == ["the server"], helps
assert any(v > 0 for r in helps["rows"] if not r.get("apart") for v in r["cells"]), "nobody has helped"
(alone,) = [b for b in plain if b["kind"] == "map"]
assert "Sums kept for others" not in [b.get("title") for b in plain] and len(alone["rows"]) == 1, alone
PY
