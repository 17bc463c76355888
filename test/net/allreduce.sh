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
. "$here/netns.sh"

fanin=${1:-$here/../../build/fanin}
prefix=fanin-$$
workers=4
port=7079
bytes=4194304
iters=3
rank_timeout_s=12
passed=0
failed=0
total=0
pids=
dir=

# Only what this script started is ended, by process id.
stop() { # PID...
        for pid in "$@"; do
                kill "$pid" 2>/dev/null
        done
        for pid in "$@"; do
                wait "$pid" 2>/dev/null
        done
}

finish() {
        trap - EXIT INT TERM
        # shellcheck disable=SC2086
        stop $pids
        fan_net_down "$prefix"
        [ -z "$dir" ] || rm -rf "$dir"
}

report() { # NAME RESULT(0: ok) [FILE...]
        total=$((total + 1))
        name=$1 result=$2
        shift 2
        if [ "$result" -eq 0 ]; then
                passed=$((passed + 1))
                echo "ok $total - $name"
                return
        fi
        failed=$((failed + 1))
        echo "not ok $total - $name"
        for file in "$@"; do
                [ -s "$file" ] && tail -n 8 "$file" | sed "s|^|#   ${file##*/}: |"
        done
}

# Until the switch, process PID, has its UDP port open; 1 after 5 s or when it ended.
wait_listening() { # PID
        hex=$(printf ':%04X ' $port)
        for _ in $(seq 100); do
                kill -0 "$1" 2>/dev/null || return 1
                cat "/proc/$1/net/udp" "/proc/$1/net/udp6" 2>/dev/null | grep -q "$hex" && return 0
                sleep 0.05
        done
        return 1
}

# Becomes the rank's process: for a background job, whose id is then the rank's.
worker() { # RANK ADDRESS FLAGS...
        rank=$1 address=$2
        shift 2
        exec ip netns exec "$prefix-w$rank" timeout -k 2 $rank_timeout_s "$fanin" bench \
                --switch "$address" --job net --rank "$rank" --ranks $workers \
                -b $bytes -e $bytes -n $iters -w 1 -d float32 --mtu 1500 "$@" \
                >"$dir/rank$rank" 2>&1
}

allreduce() { # NAME ADDRESS SWITCH_FLAGS...
        name=$1 address=$2
        shift 2
        rm -f "$dir"/*
        ip netns exec "$prefix-sw" "$fanin" switch --listen "$address" "$@" >"$dir/switch" 2>&1 &
        switch=$!
        pids=$switch
        if ! wait_listening $switch; then
                report "$name (switch does not listen)" 1 "$dir/switch"
                stop $switch
                pids=
                return
        fi
        ranks=
        rank=0
        while [ $rank -lt $workers ]; do
                if [ $rank -eq 0 ]; then
                        worker 0 "$address" --json "$dir/json" &
                else
                        worker $rank "$address" &
                fi
                ranks="$ranks $!"
                rank=$((rank + 1))
        done
        pids="$switch$ranks"
        bad=0
        for pid in $ranks; do
                wait "$pid" || bad=1
        done
        grep -Eq '"wrong": *0[^0-9]' "$dir/json" 2>/dev/null || bad=1
        report "$name" $bad "$dir"/rank* "$dir/switch"
        stop $switch
        pids=
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

fan_net_check || exit $?
[ -x "$fanin" ] || { echo "not ok - no program $fanin: build it first"; exit 1; }
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
dir=$(mktemp -d)
fan_net_up "$prefix" $workers 200mbit && fan_net_loss "$prefix" 10 || exit 1

allreduce "IPv4, 1 % loss, multicast" 10.77.0.254:$port
allreduce "IPv4, 1 % loss, unicast" 10.77.0.254:$port --no-multicast
allreduce "IPv6, 1 % loss, multicast" "[fd77::fe]:$port"
allreduce "IPv6, 1 % loss, unicast" "[fd77::fe]:$port" --no-multicast
links_lost

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
