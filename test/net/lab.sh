#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `fanin lab` on three nodes, with the real daemons: rates are there and sums exact, a switch that
# is killed and started again, and a link that passes nothing for a while, included; and nothing is left behind, also when it is ended by
# SIGINT or SIGTERM in the middle, or a daemon dies that was not to.
#
#     W1 --\
#           S1 -- PS
#     W2 --/
set -u

BUILD=${BUILD:-build}
LIMIT_S=900 # of each run; they take seconds
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() { # TEXT
        echo "FAILED: $1"
        failed=1
}

cat >"$work/net.json" <<'TEXT'
{"nodes": [{"name": "S1", "kind": "switch", "gbps": 8}, {"name": "PS", "kind": "server", "gbps": 9},
           {"name": "W1", "kind": "worker"}, {"name": "W2", "kind": "worker"}],
 "links": [{"a": "W1", "b": "S1", "gbps": 4}, {"a": "W2", "b": "S1", "gbps": 4},
           {"a": "PS", "b": "S1", "gbps": 4}]}
TEXT

# All that could be left; a shell of Mininet's is named after its host.  Others may make
# namespaces with names meanwhile, but none of Mininet's names.
left() {
        ip -o link show | sed 's/^[0-9]*: //; s/[ :@].*//' | grep -E '^(e|m)[0-9]+$|^br0$'
        tc qdisc show | grep -E 'htb|ingress'
        for pid in /proc/[0-9]*; do
                { tr '\0' ' ' <"$pid/cmdline"; } 2>/dev/null |
                        grep -E "mininet:(n[0-9]+|ctl) |$work" |
                        grep -v "lab.sh"
        done
        return 0
}

lab() { # ARGUMENT...
        # what is begun with & ignores SIGINT, and its children as well
        env --default-signal=INT timeout -k 10 $LIMIT_S "$BUILD/fanin" lab "$work/net.json" --scale 0.005 --seconds 1 \
                --keep "$work/kept" "$@" >"$work/out" 2>&1
}

left | sort >"$work/before"
clean() { # TEXT
        for _ in $(seq 200); do
                left | sort >"$work/after"
                comm -13 "$work/before" "$work/after" >"$work/more"
                [ -s "$work/more" ] || return 0
                sleep 0.3
        done
        fail "$1 left behind:"
        cat "$work/more"
}

lab -a geryon,best --json "$work/lab.json" --report "$work/lab.html"
rc=$?
if [ $rc -eq 77 ] || { [ $rc -eq 1 ] && grep -q 'needs root' "$work/out"; }; then
        sed 's/^fanin lab: //; s/^needs/SKIPPED: needs/' "$work/out" | head -n 1
        exit 77
fi
cat "$work/out"
[ $rc -eq 0 ] || fail "exit status $rc"
clean "a run"
python3 - "$work/lab.json" "$work/lab.html" <<'TEXT' || fail "not what was expected"
import json, sys
with open(sys.argv[1], encoding="utf-8") as f:
    rows = json.load(f)["rows"]
assert [r["algorithm"] for r in rows] == ["geryon", "best"], rows
for r in rows:
    assert not r.get("error") and r["wrong"] == 0 and r["measured_gbps"] > 0, r
    assert abs(r["simulated_gbps"] / r["with_results_gbps"] - 1) < 0.12, r
assert rows[0]["with_results_gbps"] == 2 and rows[1]["with_results_gbps"] == 4, rows
page = open(sys.argv[2], encoding="utf-8").read().split("id=page>")[1].split("</script>")[0]
bars = json.loads(page)["blocks"][0]["panels"][0]["rows"]
assert [b["name"] for b in bars] == ["geryon", "best"] and all(b["values"][2] > 0 for b in bars), bars
TEXT

lab -a best --no-sim --kill S1@0.3+0.2 --kill PS-S1@0.7+0.2 --json "$work/lab.json" ||
        fail "a switch and a link that fail: $(tail -n 1 "$work/out")"
grep -q '"what": "started again"' "$work/lab.json" || fail "the switch was not killed"
grep -q '"what": "passes again"' "$work/lab.json" || fail "the link was not cut"
grep -q '"wrong": 0' "$work/lab.json" || fail "sums after that"
clean "a killed switch"

for signal in INT TERM; do
        lab -a best --no-sim --seconds 60 &
        run=$!
        for _ in $(seq 3000); do # until ranks are at work
                [ -f "$work/kept/best.rank1.log" ] && break
                sleep 0.1
        done
        sleep 0.5
        child=$(cat /proc/$run/task/$run/children 2>/dev/null)
        # timeout(1) hands it on to its command
        kill -s $signal $child 2>/dev/null || kill -s $signal $run
        wait $run
        rm -rf "$work/kept"
        clean "SIG$signal"
done

lab -a best --bytes 1 && fail "--bytes 1 was taken"
grep -q 'expected a number' "$work/out" || fail "--bytes 1: $(tail -n 1 "$work/out")"
lab -a none && fail "an algorithm that is none was taken"
lab -a best --kill W1@1 && fail "a worker was killed"
grep -q 'no switch, server or link' "$work/out" || fail "--kill W1@1: $(tail -n 1 "$work/out")"

[ $failed -eq 0 ] && echo "all as expected"
exit $failed
