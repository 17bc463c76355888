#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that run ahead of a slow one, between network namespaces (netns.sh draws them): rank 3's
# link has a quarter of the others' rate.  What slots cannot hold is kept by helpers, or
# by the server.  A case holds when the sums are right, or the ranks that are left say who is
# gone, and what it is about has happened.
#
#     test/net/ahead.sh [FANIN]           FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-ah-$$
workers=5                # four of them ranks, the last one the server's
switch=10.77.0.254:7079
server=10.77.0.5:7090
ahead=2000               # fragments
slots=48                 # far fewer
cache=100
bytes=1M                 # 745 fragments
rank_timeout_s=400
polls=400                # of 50 ms, until something must have happened
TRIES="1 2 4 8 16"       # times as many all-reduces as usual: what a case is about has to happen in its job

# COMMAND LISTEN FLAGS... in NAMESPACE.
start_daemon() { # NAMESPACE LOG COMMAND LISTEN FLAGS...
        where=$1 file=$2 command=$3 listen=$4
        shift 4
        start "$where" "$file" "$fanin" "$command" --listen "$listen" "$@"
        last=$!
        pids="$pids $last"
        wait_listening $last "$file"
}

daemons() { # POLICY
        start_daemon w4 server server $server --ahead $ahead &&
        start_daemon sw switch switch $switch --policy "$1" --slots $slots --server $server
}

# Ranks 0 .. 3, in the background.
start_job() { # ITERATIONS CACHE [VARIABLE=VALUE...]
        iters=$(($1 * factor))
        keys ahead=$ahead "cache=$2"
        shift 2
        for rank in 0 1 2 3; do
                json=
                [ $rank -gt 0 ] || json="--json $dir/json"
                # shellcheck disable=SC2086  # words are wanted
                start_rank $rank env "$@" "$fanin" bench --switch $switch --job ahead --rank $rank --ranks 4 \
                        -b $bytes -e $bytes -n "$iters" -w 0 $json
        done
}

# What the switch has counted of KEY, in its line of the end.
counted() { # KEY
        sed -n "s/.*event=slots .* $1=\\([0-9]*\\).*/\\1/p" "$dir/switch" | tail -n 1
}

# The largest of KEY in the JSON of rank 0, and in what watch saw of all ranks.
largest() { # KEY
        sed -n "s/.*\"$1\": \\([0-9]*\\).*/\\1/p" "$dir/json" "$dir/tops" | sort -n | tail -n 1
}

# What the switch tells of the ranks until rank 0 has ended.
watch() {
        while kill -0 "$(id_of 0)" 2>/dev/null; do
                ip netns exec "$prefix-sw" "$fanin" top --switch $switch --once --json "$dir/top.json" >/dev/null 2>&1 &&
                        cat "$dir/top.json" >>"$dir/tops"
                sleep 0.1
        done
}

# Until the helpers have been given something to keep; the job may be over before.
wait_lent() {
        for _ in $(seq $polls); do
                kill -0 "$(id_of 0)" 2>/dev/null || break
                start sw top "$fanin" top --switch $switch --once --json "$dir/top.json"
                wait $!
                [ "$(sed -n 's/.*"lent": \([0-9]*\).*/\1/p' "$dir/top.json" 2>/dev/null |
                        sort -n | tail -n 1)" -gt 0 ] 2>/dev/null && return 0
                sleep 0.05
        done
        touch "$dir/early"
        return 1
}

# A case is run again, with a longer job, when its sums were right and what it is about did not happen:
# how far ranks are ahead is a matter of time. A function of it makes $dir/early then.
try() { # NAME FUNCTION [ARGUMENT...]
        name=$1
        shift
        for factor in $TRIES; do
                "$@"
                result=$?
                stop
                if [ $result -eq 0 ] || [ ! -e "$dir/early" ] || [ "$factor" = "${TRIES##* }" ]; then break; fi
                rm -f "$dir"/*
        done
        report "$name" $result "$dir"/rank? "$dir"/switch "$dir"/server
        rm -f "$dir"/*
}

# Rank 3, slow all the time.  M is what is used at most, and somebody keeps for that rank; without
# caches nothing is lent.
slow_rank() { # POLICY CACHE
        daemons "$1" || return
        start_job 2 "$2"
        : >"$dir/tops"
        watch &
        wait_ranks && none_wrong
        result=$?
        stop
        [ $result -eq 0 ] && [ "$(largest ahead_frags)" -eq $ahead ] && [ "$(largest cache_peak)" -le "$2" ] || return 1
        if [ "$2" -eq 0 ]; then
                [ "$(counted lent)" -eq 0 ] && [ -z "$(largest 3)" ] || return 1
        fi
        kept "$2" || { touch "$dir/early"; return 1; }
}

# Whether the others were ahead of it by more than slots hold, and for caches of CACHE sums, were lent to.
kept() { # CACHE
        [ "$(largest behind_most)" -ge 64 ] && [ "$(counted yields)" -gt 0 ] || return
        [ "$1" -eq 0 ] ||
        { [ "$(counted lent)" -gt 0 ] && [ "$(largest lent)" -gt 0 ] && [ "$(largest 3)" -gt 0 ]; } # in "helps", by rank
}

# A helper is killed: the others end, and say who is gone.
leader_dies() {
        daemons atp || return
        start_job 1000 $cache FANIN_ALIVE_MS=1000
        wait_lent || return
        # shellcheck disable=SC2046  # without its blanks
        kill -KILL $(program_of 1)
        result=0
        for rank in 0 2 3; do
                wait "$(id_of $rank)" && result=1
                grep -q "rank 1 stopped answering\|rank 1 .*lost" "$dir/rank$rank" || result=1
        done
        return $result
}

# One that stands still for a while, with what it keeps: that costs time, and no sum.
leader_sleeps() {
        daemons esa || return
        start_job 4 $cache
        wait_lent || { right; return 1; }
        sleeper=$(program_of 1)
        kill -STOP "$sleeper"
        sleep 0.5
        kill -CONT "$sleeper"
        right
}

# Whatever else happened.
right() {
        wait_ranks && none_wrong || { rm -f "$dir/early"; return 1; }
}

# The switch forgets who leads where, and where everything is.
switch_restarts() {
        daemons atp || return
        start_job 4 $cache
        wait_lent || { right; return 1; }
        kill -KILL "$last"
        wait "$last" 2>/dev/null # until its port is free
        start_daemon sw switch switch $switch --policy atp --slots $slots --server $server || return
        right
}

begin "$@"
fan_net_up "$prefix" $workers 200mbit || exit 1
fan_net_rate "$prefix" 3 50mbit || exit 1

try "atp, a slow rank, caches of $cache sums" slow_rank atp $cache
try "esa, a slow rank, caches of 0 sums" slow_rank esa 0
try "a helper dies: the others say which" leader_dies
try "a helper stands still for a while" leader_sleeps
try "the switch restarts" switch_restarts
fan_net_loss "$prefix" 10 || exit 1
try "atp, a slow rank, caches of $cache sums, loss" slow_rank atp $cache

summary
