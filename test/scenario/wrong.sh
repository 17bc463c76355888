#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A wrong scenario is refused before anything is run: status 2, one line that names file,
# path and cause, and no output file.
#
#     wrong.sh FANIN
set -eu
fanin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

good='{"topology": {"nodes": [{"name": "s0", "kind": "switch"},
 {"name": "w", "kind": "worker", "count": 4}],
 "links": [{"a": "w*", "b": "s0", "gbps": 10}]},
 "jobs": [{"name": "j", "model": {"numel": 1000}}]}'

refuse() { # MESSAGE ARGUMENT...: what `fanin sim bad.json ARGUMENT...` must say
        message=$1
        shift
        status=0
        "$fanin" sim bad.json --json out.json --report out.html "$@" 2>err >/dev/null || status=$?
        if [ $status -ne 2 ] || ! grep -qF -e "$message" err || [ -e out.json ] || [ -e out.html ]; then
                echo "expected status 2 and: $message"
                echo "got status $status and: $(cat err)"
                failed=1
        fi
        rm -f out.json out.html
}

text() { # SCENARIO MESSAGE
        printf '%s' "$1" >bad.json
        refuse "$2"
}

text 'nonsense' 'bad.json: it looks like none of these; networks are read as JSON, '
text '{"a": 1}' 'bad.json: JSON of another kind, with "a"; networks are read as JSON, '
text '{"topology": {}, "topology": {}}' 'bad.json: not JSON: duplicate object key "topology"'
text '[]' 'bad.json: expected an object, got an array'
text '{}' 'bad.json: lacks the key "topology"'
text '{"topology": {"nodes": []}}' 'bad.json: topology.nodes: expected an array of 1 to 16384 entries'
rm bad.json
refuse 'bad.json: No such file or directory'

# Networks as planners have them, and what is wrong with some.
network() { # TOPOLOGY MESSAGE, or nothing: it is right
        printf '{"topology": %s, "jobs": [{"model": {"numel": 1000}}]}' "$1" >bad.json
        if [ -n "$2" ]; then
                refuse "$2"
        else
                "$fanin" sim bad.json -q || { echo "$1 fails"; failed=1; }
        fi
}
network '"fat-tree:k=4,workers=16"' ''
network '{"from": "dragonfly:workers=8", "switches": {"policy": "atp"}, "links": {"loss": 0.01}}' ''
network '"rails:workers=4,servers=1"' ''
network '"fat-tree:k=4,workers=17"' 'topology: fat-tree:k=4,workers=17: too many: 17 hosts, places for 16; workers=16, or k=6'
network '"fat-tree:k=4,wheels=2"' 'topology: fat-tree:k=4,wheels=2: "wheels": expected k, leaves'
network '"nowhere.json"' 'nowhere.json: No such file'
network '{"from": 7}' 'topology.from: expected fat-tree'
network '{"from": "star", "swithces": {}}' 'topology.swithces: no such key; did you mean "switches"?'
network '{"from": "star", "links": []}' 'topology.links: expected an object'
network '{"from": "star", "rate": 3}' 'topology: star: rate: it is made with hosts already'
network '{"from": "star", "rate": []}' 'topology.rate: expected Gb/s, or a text like capacity=Mb/s'
network '{"from": "star", "attach": "workers=3"}' 'topology: star: attach: it is made with hosts already'
network '{"from": "star", "switches": {"slost": 1}}' 'topology.nodes[0].slost: no such key; did you mean "slots"?'
printf '{"nodes": [{"name": "w", "kind": "worker"}, {"name": "v", "kind": "worker"},
 {"name": "ein s", "kind": "switch", "gbps": 5, "gpbs": 1}],
 "links": [{"a": "w", "b": "ein s", "gbps": 10}, {"a": "ein s", "b": "w", "gbps": 10},
  {"a": "v", "b": "ein s", "gbps": 10}]}' >net.json
network '"net.json"' 'topology: net.json: nodes[2].gpbs: no such key; did you mean "gbps"?'
sed -i 's/, "gpbs": 1//' net.json
network '"net.json"' ''
"$fanin" sim net.json -q --set 'jobs.0.model={"numel": 1000}' --set topology.switches.slots=16 ||
        { echo 'net.json alone fails'; failed=1; }
"$fanin" sim star:workers=3 -q --json - --set 'jobs.0.model={"numel": 1000}' >out.json || failed=1
grep -q '"workers": 3' out.json || { echo 'star:workers=3 alone fails'; failed=1; }
rm -f out.json

# A job of a sweep that failed says why.
printf '%s' "$good" >bad.json
if "$fanin" sim bad.json --sweep limit_s=0.00001,10 >out; then echo 'a failed job, and status 0'; failed=1; fi
grep -Eq '^limit_s=1e-0?5 .* 1  j: not over at limit_s$' out || { echo 'the sweep does not say why:'; cat out; failed=1; }

printf '%s' "$good" >bad.json
"$fanin" sim bad.json -q || { echo 'the good one fails'; failed=1; }
set_to() { # KEY=VALUE MESSAGE
        refuse "$2" --set "$1"
}
set_to 'jbos=[]' 'bad.json: jbos: no such key; did you mean "jobs"?'
set_to 'jobs.j.modle="vgg16"' 'bad.json: jobs[0].modle: no such key; did you mean "model"?'
set_to 'topology.links.0.gbps=-1' 'bad.json: topology.links[0].gbps: -1: expected a number from 1e-06 to 100000'
set_to 'topology.links.0.gbps=fast' 'bad.json: topology.links[0].gbps: expected a number, got a text'
set_to 'topology.links.0.loss=1.5' 'bad.json: topology.links[0].loss: 1.5: expected a number from 0 to 1'
set_to 'topology.links.0.b=s9' 'bad.json: topology.links[0].b: no node "s9"'
set_to 'topology.links.0.a=w0' 'bad.json: topology.links: no path from "s0" to "w1"'
set_to 'topology.links=[{"a": "w*", "b": "s0", "gbps": 10}, {"a": "s*", "b": "w3", "gbps": 40}]' 'bad.json: topology.links: two links between "s0" and "w3"'
set_to 'topology.nodes.s0.kind=hub' 'bad.json: topology.nodes[0].kind: "hub": expected one of worker, switch, server, router'
set_to 'topology.nodes.s0.slots=2.5' 'bad.json: topology.nodes[0].slots: 2.5: expected a whole number'
set_to 'topology.nodes.s0.kind=router' 'bad.json: jobs.j: no switch or server that all its workers reach'
set_to 'topology.nodes.s0.policy=fast' 'bad.json: topology.nodes[0].policy: "fast": expected one of switchml, atp, esa, grid, none'
set_to 'jobs.j.workers=5' 'bad.json: jobs[0].workers: 5: the topology has 4 worker nodes'
set_to 'jobs.j.model=vgg17' 'bad.json: jobs[0].model: "vgg17": expected a file NAME.csv or one of alexnet'
set_to 'jobs.j.model=none.csv' 'bad.json: jobs[0].model: none.csv: No such file or directory'
set_to 'jobs.j.at=w1' 'bad.json: jobs.j.at: "w1": no switch or server of that name'
set_to 'jobs.j.payload_bytes=4096' 'bad.json: jobs.j.payload_bytes: 4096: "s0" has slots of 1408'
set_to 'jobs.j.hosts=["w0","w0","w1","w2"]' 'bad.json: jobs[0].hosts[1]: "w0" is there twice'
set_to 'jobs.j.slow=[{"rank": 4}]' 'bad.json: jobs[0].slow[0].rank: 4: the job has 4 workers'
set_to 'jobs.j.slow=[{"rank": 1, "ranks": 4}]' 'bad.json: jobs[0].slow[0].ranks: 4 from 1 on: the job has 4 workers'
set_to 'jobs.j.slow=[{"what": "all"}]' 'bad.json: jobs[0].slow[0].what: "all": expected one of compute, sending, both'
set_to 'jobs.j.ahead=40000' 'bad.json: jobs[0].ahead: 40000: expected a whole number from 0 to 32768'
set_to 'jobs.j.ahead=100' 'bad.json: jobs[0].ahead: 100: expected 0, or the window of 512 or more'
set_to 'jobs.j.cache_frags=100' 'bad.json: jobs[0].cache_frags: goes with ahead: else none is slow alone'
set_to 'topology.nodes.w.ahead_max=100' 'bad.json: topology.nodes[1].ahead_max: a worker has none'
set_to 'changes=[{"at_s": 1, "a": "w0", "b": "w1", "gbps": 1}]' 'bad.json: changes[0]: no link between "w0" and "w1"'
set_to 'background=[{"from": "w0", "to": "w9", "gbps": 1}]' 'bad.json: background[0].to: no node "w9"'
set_to 'jobs.k.window=4' 'bad.json: --set: "jobs.k.window": the scenario has nothing at "k"'
refuse 'bad.json: jobs[0].window: 1: expected a whole number from 2 to 4096' --sweep jobs.j.window=64,1
refuse '--seed: "x": expected a whole number' --seed x
refuse 'fanin sim: unexpected argument "other.json"' other.json
refuse 'fanin sim: --jobs: expected a number from 1 to 64, got "65"' --jobs 65
refuse 'fanin sim: --sweep: "a": expected KEY=A,B,C' --sweep a
refuse 'fanin sim: --set: "a": expected KEY=VALUE' --set a
refuse 'fanin sim: unknown option --varaints; nearest: --variants' --varaints none.json

# trees
printf '%s' '{"topology": {"nodes": [{"name": "top", "kind": "switch"},
 {"name": "s", "kind": "switch", "count": 2, "parent": "top"},
 {"name": "a", "kind": "worker", "count": 2}, {"name": "b", "kind": "worker", "count": 2}],
 "links": [{"a": "s*", "b": "top", "gbps": 10}, {"a": "a*", "b": "s0", "gbps": 10},
 {"a": "b*", "b": "s1", "gbps": 10}]}, "jobs": [{"name": "j", "model": {"numel": 1000}}]}' >bad.json
"$fanin" sim bad.json -q || { echo 'the good tree fails'; failed=1; }
set_to 'topology.nodes.s.parent=x' 'bad.json: topology.nodes[1].parent: "x": no switch or server of that name'
set_to 'topology.nodes.s.parent=a0' 'bad.json: topology.nodes[1].parent: "a0": no switch or server of that name'
set_to 'topology.nodes.a.parent=top' 'bad.json: topology.nodes[2].parent: a worker has none'
set_to 'topology.nodes.top.parent=s1' 'bad.json: topology.nodes[1].parent: "top" is below "s1" itself'
set_to 'topology.nodes.s.count=300' 'bad.json: topology.nodes[1].parent: "top" has more than 256 children'
set_to 'topology.nodes.s.count=1' 'bad.json: topology.nodes[1].parent: "top" has one child only: it needs two'
set_to 'jobs.j.workers=3' 'bad.json: jobs.j.workers: 1 of them would join "s1": expected 2 to 256'
printf '%s' '{"topology": {"nodes": [{"name": "s0", "kind": "switch"},
 {"name": "w", "kind": "worker", "count": 300}], "links": [{"a": "w*", "b": "s0", "gbps": 10}]},
 "jobs": [{"name": "j", "model": {"numel": 1000}}]}' >bad.json
refuse 'bad.json: jobs.j.workers: 300 of them would join "s0": expected 2 to 256'

# shared switches
shared='{"topology": {"nodes": [{"name": "ps", "kind": "server"},
 {"name": "s0", "kind": "switch", "policy": "atp", "server": "s1"},
 {"name": "s1", "kind": "switch", "policy": "esa", "server": "ps"}, {"name": "w", "kind": "worker", "count": 3}],
 "links": [{"a": "w*", "b": "s0", "gbps": 10}, {"a": "s0", "b": "s1", "gbps": 10}, {"a": "s1", "b": "ps", "gbps": 10}]},
 "jobs": [{"name": "j", "model": {"numel": 1000}}]}'
printf '%s' "$shared" >bad.json
"$fanin" sim bad.json -q || { echo 'the good shared switches fail'; failed=1; }
set_to 'topology.nodes.s0.server=x' 'bad.json: topology.nodes[1].server: "x": no server or switch with shared slots of that name'
set_to 'topology.nodes.s0.server=w0' 'bad.json: topology.nodes[1].server: "w0": no server or switch with shared slots'
set_to 'topology.nodes.s1.policy=switchml' 'bad.json: topology.nodes[1].server: "s1": no server or switch with shared slots'
set_to 'topology.nodes.s1.server=s0' 'bad.json: topology.nodes[2].server: "s0" leads to "s1" itself'
set_to 'topology.nodes.s0.slots=0' 'bad.json: topology.nodes[1].slots: 0: expected a whole number from 1 to 65536'
set_to 'topology.nodes.ps.slots=1' 'bad.json: topology.nodes[0].slots: 1: the policy switchml needs two'
set_to 'topology.nodes.ps.policy=atp' 'bad.json: topology.nodes[0].policy: a server has none: only switches do'
set_to 'topology.nodes.w.quota=4' 'bad.json: topology.nodes[3].quota: a worker has none: only switches do'
set_to 'topology.nodes.w.reminders=false' 'bad.json: topology.nodes[3].reminders: a worker sends none'
set_to 'topology.nodes.s0.ageing=1' 'bad.json: topology.nodes[1].ageing: expected true or false, got a number'
set_to 'topology.nodes.s0.ecn_bytes=1000' 'bad.json: topology.nodes[1].ecn_bytes: goes with gbps'
set_to 'topology.nodes.s0.parent=ps' 'bad.json: topology.nodes[1].parent: goes without "server", here and there'
set_to 'topology.nodes.s0.payload_bytes=256' 'bad.json: jobs.j.payload_bytes: 1408: "s0" has slots of 256'
set_to 'jobs.j.congestion=cubic' 'bad.json: jobs[0].congestion: "cubic": expected one of fanin, a2tp'
set_to 'jobs.j.priority=high' 'bad.json: jobs[0].priority: "high": expected one of remaining, attained, started, none'
chain='{"name": "ps", "kind": "server"}, {"name": "w", "kind": "worker", "count": 2}'
ways='{"a": "w*", "b": "c24", "gbps": 10}, {"a": "c0", "b": "ps", "gbps": 10}'
up='ps'
for n in $(seq 0 24); do
        chain="$chain, {\"name\": \"c$n\", \"kind\": \"switch\", \"policy\": \"atp\", \"server\": \"$up\"}"
        [ "$n" = 0 ] || ways="$ways, {\"a\": \"c$n\", \"b\": \"$up\", \"gbps\": 10}"
        up=c$n
done
text "{\"topology\": {\"nodes\": [$chain], \"links\": [$ways]}, \"jobs\": [{\"model\": {\"numel\": 1}}]}" \
        'bad.json: topology.nodes[26].server: more than 24 switches in a row'
text '{"topology": {"nodes": [{"name": "s0", "kind": "switch", "policy": "none"},
 {"name": "w", "kind": "worker", "count": 2}], "links": [{"a": "w*", "b": "s0", "gbps": 10}]},
 "jobs": [{"name": "j", "model": {"numel": 1000}, "at": "s0"}]}' \
        'bad.json: jobs.j.at: "s0" has the policy none and names no server'
text '{"hosts": 4,, "jobs": 1}' 'bad.json: line 1, column 13: not JSON: '
text '{"hosts": NaN}' 'bad.json: not JSON: NaN: no number of JSON'
text '{"hosts": 12345678901234567890}' 'bad.json: not JSON: 12345678901234567890: too big a number'
printf '%s' "$good" >bad.json

# variants
variants() { # TEXT MESSAGE
        printf '%s' "$1" >variants.json
        refuse "$2" --variants variants.json
}
refuse 'none.json: No such file or directory' --variants none.json
variants '[]' 'variants.json: expected an object of settings by name'
variants '{}' 'variants.json: expected an object of settings by name'
variants '{"a": {}, "b": 3}' 'variants.json: b: expected an object of values by key'
variants '{"a": {}, "b": {"jobs.k.window": 3}}' 'variants.json: b: "jobs.k.window": the scenario has nothing at "k"'
variants '{"a": {"jobs.j.window": -3}}' 'bad.json: jobs[0].window: -3: expected a whole number from'
refuse '--trace and --pcap: of one run, not of several' --variants variants.json --trace t

refuse '--pcap: no node "nobody"' --pcap t.pcap:nobody
refuse '--pcap: "t.pcap:": expected FILE or FILE:NODE' --pcap t.pcap:

# columns of tables
printf 'layer,numel\n' >m.csv
set_to 'jobs.j.model=m.csv' 'bad.json: jobs[0].model: m.csv: line 1: expected the columns layer,numel,forward_ns,backward_ns'
printf 'num_gpu,duration,submit_time,iterations,model\n3,10,0.5,2,vgg16\n9,10,0,2,vgg16\n' >t.csv
set_to 'job_trace={"file":"t.csv"}' 'bad.json: job_trace.workers: 9: the topology has 4 worker nodes'

[ $failed = 0 ] && echo 'all refused'
exit $failed
