#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Real daemons between network namespaces (netns.sh draws them): one switch and
# four workers, every link shaped to 200 Mb/s and losing 1 % of the frames in
# each direction.  IPv4 and IPv6, results by multicast and by unicast.  A case
# holds when every rank ends with exit code 0 and rank 0 counted no wrong element.
#
#     test/net/allreduce.sh [FANIN]          FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces
# cannot be made here (SKIPPED says why).  Takes well under a minute.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-$$
workers=4
port=7079
bytes=4194304
iters=3
rank_timeout_s=300

worker() { # RANK ADDRESS FLAGS...
        rank=$1 address=$2
        shift 2
        start_rank "$rank" "$fanin" bench \
                --switch "$address" --job net --rank "$rank" --ranks $workers \
                -b $bytes -e $bytes -n $iters -w 1 -d float32 --mtu 1500 "$@"
}

allreduce() { # NAME ADDRESS SWITCH_FLAGS...
        name=$1 address=$2
        shift 2
        rm -f "$dir"/*
        if ! start_switch "$address" "$@"; then
                report "$name (switch does not listen)" 1 "$dir/switch"
                stop
                return
        fi
        worker 0 "$address" --json "$dir/json"
        for rank in $(seq $((workers - 1))); do
                worker "$rank" "$address"
        done
        wait_ranks && none_wrong
        report "$name" $? "$dir"/rank* "$dir/switch"
        stop
}

# Every link lost frames in both directions: else the cases proved nothing.
links_lost() {
        fan_net_counters "$prefix" >"$dir/counters"
        awk -v want=$((2 * workers)) '
                { passed += $3; dropped += $4; links += $4 > 0 }
                END {
                        printf "# nftables dropped %d of %d frames (%.2f %%)\n", dropped,
                            passed + dropped, dropped * 100 / (passed + dropped + !passed)
                        exit links != want
                }' "$dir/counters"
        report "every link lost frames in both directions" $? "$dir/counters"
}

begin "$@"
fan_net_up "$prefix" $workers 200mbit && fan_net_loss "$prefix" 10 || exit 1

allreduce "IPv4, 1 % loss, multicast" 10.77.0.254:$port
allreduce "IPv4, 1 % loss, unicast" 10.77.0.254:$port --no-multicast
allreduce "IPv6, 1 % loss, multicast" "[fd77::fe]:$port"
allreduce "IPv6, 1 % loss, unicast" "[fd77::fe]:$port" --no-multicast
links_lost

summary
