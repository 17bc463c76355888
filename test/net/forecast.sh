#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `fanin doctor` as every rank of a job, between network namespaces (netns.sh draws them): ranks 0
# and 1 on the first host, one each on two others; the fourth and fifth namespace are spare machines.
# What sums the tensors, and what is said to make them faster?  How fast they are does not
# decide; a link with a tenth of the others' rate is told from them.
#
#     test/net/forecast.sh [FANIN]       FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-fc-$$
port=7081
limit_s=400
timeout_s=5 # of a doctor; ranks that are missing are waited for twice as long

# The doctors of the ranks that run on these hosts, all told the same by VARIABLE=VALUE...; texts in
# $dir/rankN, rank 0's findings in $dir/json, and its exit code in $rc.
doctors() { # "HOST..." [VARIABLE=VALUE...]
        hosts=$1
        shift
        rank=0
        rm -f "$dir/json"
        for host in $hosts; do
                start "w$host" "rank$rank" timeout -k 2 $limit_s \
                        env MASTER_ADDR=10.77.0.1 MASTER_PORT=$port RANK=$rank WORLD_SIZE=4 "$@" \
                        "$fanin" doctor --count 20 --timeout $timeout_s --bytes 256K --json "$dir/json"
                ranks="$ranks $!"
                rank=$((rank + 1))
        done
        rc=0
        first=$(id_of 0)
        wait "$first" || rc=$?
        wait_ranks
}

spares() { # INDEX...
        for index; do
                start "w$index" "switch$index" "$fanin" switch --listen "10.77.0.$((index + 1)):$port"
                pids="$pids $!"
                wait_listening $! "switch$index" || return 1
        done
}

# The line of CHECK has STATUS, and TEXT in it or in what to do.
says() { # CHECK STATUS TEXT [FILE(rank0)]
        awk -v name="$1" -v status="$2" -v text="$3" '
                { sub(/^rank [0-9]+: /, "") }
                /^(ok|warn|FAIL|skip) / { mine = $2 == name && $1 == status }
                mine && index($0, text) { told = 1 }
                END { exit !told }' "$dir/${4:-rank0}" || {
                echo "# expected $1 to be $2 with \"$3\""
                return 1
        }
}

sums() {
        { says allreduce ok " 0 elements wrong" >/dev/null || says allreduce warn "the links allow"; } && [ $rc -eq 0 ] &&
        grep -q '"by_ring": [0-9.]*[1-9]' "$dir/json" && says links ok "Mb/s in the narrower direction"
}

both=FANIN_SWITCH=10.77.0.4:$port,10.77.0.5:$port
one=FANIN_SWITCH=10.77.0.4:$port

nothing_named() {
        doctors "0 0 1 2" && sums && says hosts ok "4 ranks on 3 hosts, 2, 1, 1" &&
        says summing ok "ranks of a host share memory; no switch is named: 3 of 3 hosts sum" &&
        says forecast ok "one more spare machine"
}

a_spare() {
        spares 3 && doctors "0 0 1 2" $one FANIN_HOSTS=1 FANIN_LOCAL=0 && sums &&
        says summing ok "1 named switch and 3 hosts sum" && says forecast ok "FANIN_LOCAL=1"
}

two_switches() {
        spares 3 4 && doctors "0 0 1 2" $both FANIN_HOSTS=1 && sums &&
        says summing ok "ranks of a host share memory; 2 named switches and 3 hosts sum"
}

switch_alone() {
        spares 3 && doctors "0 0 1 2" $one FANIN_HOSTS=0 && sums && says summing ok "1 named switch sums" &&
        says forecast ok "spare machine"
}

narrow_link() {
        fan_net_rate "$prefix" 2 20mbit && doctors "0 0 1 2" && sums &&
        says forecast ok "a link as wide as the others' at the host of rank 3"
        result=$?
        fan_net_rate "$prefix" 2 200mbit
        return $result
}

# Host 2 takes packets that answer its own, and those of rank 0's host.
closed_ports() {
        ip netns exec "$prefix-w2" nft -f - <<EOF || return 1
table inet fanin_closed {
        chain input {
                type filter hook input priority 0; policy accept;
                iifname "eth0" ct state new ip saddr != 10.77.0.1 drop
        }
}
EOF
        doctors "0 0 1 2" && sums && says hosts warn "the host of rank 3 does not answer all others" &&
        says summing ok "2 of 3 hosts sum"
        result=$?
        ip netns exec "$prefix-w2" nft delete table inet fanin_closed
        return $result
}

silent_switch() {
        spares 3 && doctors "0 0 1 2" $both FANIN_HOSTS=0 FANIN_TIMEOUT_MS=3000
        says links FAIL "switch 10.77.0.5:$port does not answer the host of rank 0" && [ $rc -eq 1 ]
}

rank_is_missing() {
        timeout_s=2
        doctors "0 0 1" FANIN_TIMEOUT_MS=2000
        says hosts FAIL "3 of 4 ha" && says hosts FAIL "torchrun" && [ $rc -eq 1 ] &&
        says hosts FAIL "did not meet" rank2
}

begin "$@"
unset FANIN_HOSTS
fan_net_up "$prefix" 5 200mbit || exit 1

nothing_named; ended "nothing named: each host sums a part" $?
a_spare; ended "a spare machine, and hosts beside it" $?
two_switches; ended "two switches, memory shared" $?
switch_alone; ended "a switch alone, by FANIN_HOSTS=0" $?
narrow_link; ended "a narrow link is named" $?
closed_ports; ended "a host that does not answer others" $?
silent_switch; ended "a second switch that is not there" $?
rank_is_missing; ended "a rank is missing" $?

summary
