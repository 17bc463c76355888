#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# experiments/xdp-switch between network namespaces (netns.sh draws them): unmodified ranks
# in integers and in fixed mode get exact sums from a program in the kernel, with and without
# loss; a job that it cannot serve ends with the reason; a killed loader leaves nothing.
#
#     test/net/xdp_switch.sh [FANIN]          FANIN: the program (build/fanin)
#
# The switch is in the namespace of worker 0, at its one interface; the ranks are in the
# others, behind the bridge.  Exit code 0, 1, or 77 (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-xsw-$$
ranks_of_job=3
at=10.77.0.1:7084
rank_timeout_s=300

begin "$@"
switch=$(dirname "$fanin")/xdp-switch
if [ ! -x "$switch" ]; then
        echo "SKIPPED: needs libbpf-dev, clang, bpftool and ninja benches"
        exit 77
fi
fan_net_up "$prefix" $((ranks_of_job + 1)) none || exit 1
# veth leaves checksums to a device that there is not.
for i in $(seq $ranks_of_job); do
        ip netns exec "$prefix-w$i" ethtool -K eth0 tx off >/dev/null || exit 1
done

start_kernel_switch() {
        start wire far "$switch" --pass w0
        pids="$pids $!"
        wait_listening $! far || return 1
        start w0 switch "$switch" eth0 $at
        pids="$pids $!"
        wait_listening $! switch
}

# An all-reduce of every rank, by the switch that runs.
ranks_sum() { # JOB BENCH_FLAGS...
        job=$1
        shift
        rm -f "$dir/json"
        ranks=
        for rank in $(seq 0 $((ranks_of_job - 1))); do
                json=$dir/json$rank
                [ "$rank" -ne 0 ] || json=$dir/json
                start_rank $((rank + 1)) "$fanin" bench --switch $at --job "$job" --rank "$rank" \
                        --ranks $ranks_of_job -b 999996 -e 999996 -n 4 -w 1 --json "$json" "$@"
        done
        wait_ranks && none_wrong
}

counter() { # NAME
        sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" "$dir/switch" | tail -n 1
}

lose() {
        for i in $(seq $ranks_of_job); do
                ip netns exec "$prefix-w$i" nft -f - <<'NFT' || exit 1
table netdev lossy {
        chain out {
                type filter hook egress device "eth0" priority 0; policy accept;
                numgen random mod 1000 < 20 drop
        }
        chain in {
                type filter hook ingress device "eth0" priority 0; policy accept;
                numgen random mod 1000 < 20 drop
        }
}
NFT
        done
}

start_kernel_switch
ranks_sum int -d int32
report "int32" $? "$dir/rank1" "$dir/switch"
ranks_sum fixed --mode fixed
report "fixed mode" $? "$dir/rank1" "$dir/switch"
ranks_sum average --mode fixed --op avg
report "averages in fixed mode" $? "$dir/rank1" "$dir/switch"
stop
results=$(counter results)
[ "${results:-0}" -gt 10000 ] && rc=0 || rc=1
report "the kernel has added: $results results" $rc "$dir/switch"

start_kernel_switch
ranks_sum float -d float32
[ $? -ne 0 ] && grep -q 'job "float" ends:.* this switch has sums of int32' "$dir/switch" &&
        ranks_sum after -d int32
report "a job in floats ends with the reason, the next one runs" $? "$dir/switch" "$dir/rank1"
lose
ranks_sum lossy --mode fixed
report "2 % loss both ways" $? "$dir/rank1" "$dir/switch"
stop
replays=$(counter replays)
[ "${replays:-0}" -gt 0 ] && rc=0 || rc=1
report "lost results were sent again: $replays" $rc "$dir/switch"

start_kernel_switch
ip -n "$prefix-w0" link show eth0 | grep -q prog/xdp
was_attached=$?
# shellcheck disable=SC2086  # one word
kill -KILL $pids
for _ in $(seq 2400); do
        ip -n "$prefix-w0" link show eth0 | grep -q prog/xdp || break
        sleep 0.05
done
[ $was_attached -eq 0 ] && ! ip -n "$prefix-w0" link show eth0 | grep -q prog/xdp
report "killed, it leaves nothing attached" $? "$dir/switch"

# The switch must end by itself, with TEXT.
refused() { # NAME TEXT ARGUMENTS...
        name=$1 text=$2
        shift 2
        ip netns exec "$prefix-w0" timeout 60 "$switch" "$@" >"$dir/refused" 2>&1
        [ $? -eq 1 ] && grep -q "$text" "$dir/refused"
        report "$name" $? "$dir/refused"
}

stop
refused "no such interface" 'eth7: there is no such interface; .ip link' eth7 $at
refused "no such interface to pass all at" 'eth7: there is no such interface' --pass eth7
start w0 switch "$switch" --pass eth0
pids="$pids $!"
wait_listening $! switch
refused "a program already attached" 'eth0: another program has it' eth0 $at

summary
