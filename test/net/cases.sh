#!/bin/sh
# shellcheck disable=SC2034,SC2154  # the script that sources this sets and uses some
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of cases between network namespaces share: a beginning that makes
# sure of the end, switches and ranks in namespaces, one line a case, the counts.
#
# A script sets $here, its own folder, sources this file, which sources netns.sh, and
# then sets
#
#     prefix            of its namespaces' names; with $$ in it: scripts run side by side
#     rank_timeout_s    if it uses start_rank or start_ranks
#     ranks_of          if it uses start_ranks: the host of each rank, by its INDEX
#     other_namespaces  those that it makes beside PREFIX-sw and PREFIX-wINDEX, by what
#                       comes behind "PREFIX-"; none unless told
#
# and calls
#
#     begin "$@"        first; from here on, whatever happens, what runs is stopped and
#                       the namespaces and $dir are removed
#     ended, or report  once a case
#     summary           last: its status is the script's
#
# It gets
#
#     fanin             the program
#     dir               a folder of its own: $dir/switch, $dir/rank0, ... are their outputs
#     passed failed     cases

. "$here/netns.sh"

FANIN_HOSTS=0 # the switches alone sum
export FANIN_HOSTS

LISTEN_POLLS=2400 # of 50 ms

other_namespaces=
passed=0
failed=0
pids=   # of switches and the like, which run until they are stopped
ranks=  # of ranks, which end by themselves
dir=

# Ends the script when namespaces cannot be made here (77) or nothing is built (1).
begin() { # [FANIN]
        fanin=${1:-${BUILD:-$here/../../build}/fanin}
        fan_net_check || exit $?
        [ -x "$fanin" ] || { echo "not ok - no program $fanin: build it first"; exit 1; }
        trap finish EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
        dir=$(mktemp -d) || exit 1
}

finish() {
        trap - EXIT INT TERM
        stop
        fan_net_down "$prefix"
        for space in $other_namespaces; do
                ip netns del "$prefix-$space" 2>/dev/null
        done
        [ -z "$dir" ] || rm -rf "$dir" "$dir.ini"
}

# Let ranks that start from here on, in this case, find these keys in FANIN_CONFIG, up to `report`.
keys() { # KEY=VALUE...
        { echo '[worker]'; printf '%s\n' "$@"; } >"$dir.ini"
        FANIN_CONFIG=$dir.ini
        export FANIN_CONFIG
}

# Switches and ranks.  Only what this script started is ended, by process id.
stop() {
        for pid in $pids $ranks; do
                kill "$pid" 2>/dev/null
        done
        for pid in $pids $ranks; do
                wait "$pid" 2>/dev/null
        done
        pids=
        ranks=
}

# The result as RESULT; when not ok, the last lines of each FILE as well.
report() { # NAME RESULT(0: ok) [FILE...]
        name=$1 result=$2
        shift 2
        unset FANIN_CONFIG
        if [ "$result" -eq 0 ]; then
                passed=$((passed + 1))
                echo "ok $((passed + failed)) - $name"
                return 0
        fi
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
        for file in "$@"; do
                [ -s "$file" ] && tail -n 8 "$file" | sed "s|^|#   ${file##*/}: |"
        done
        return "$result"
}

# The end of a case, as report, with what all have said; nothing of it is left to the next one.
ended() { # NAME RESULT
        stop
        report "$1" "$2" "$dir"/agent* "$dir"/rank* "$dir"/switch* "$dir"/server
        find "$dir" -mindepth 1 ! -type d -delete
}

summary() {
        echo "$passed passed, $failed failed, 0 skipped"
        [ $failed -eq 0 ]
}

# COMMAND in the background, as process $!, with its output in $dir/LOG.  Who calls
# this adds $! to $pids or to $ranks.
start() { # NAMESPACE LOG COMMAND...
        space=$1 log=$dir/$2
        shift 2
        : >"$log" # nobody may take what an earlier process wrote for its words
        ip netns exec "$prefix-$space" "$@" >"$log" 2>&1 &
}

# 1 when it is not ready after two minutes, or ended.
start_switch() { # ADDRESS:PORT FLAGS...
        start sw switch "$fanin" switch --listen "$@"
        pids="$pids $!"
        wait_listening $! switch
}

# Until PID says in $dir/LOG that all its sockets are open; 1 after two minutes, or when it ended.
# (Its tables in /proc would not do: at first they are those of this script's namespace.)
wait_listening() { # PID LOG
        for _ in $(seq $LISTEN_POLLS); do
                grep -q event=start "$dir/$2" && return 0
                kill -0 "$1" 2>/dev/null || return 1
                sleep 0.05
        done
        return 1
}

# Until rank 0 says WHAT, a regular expression; unless told, that the job is formed.
wait_said() { # [WHAT]
        for _ in $(seq $LISTEN_POLLS); do
                grep -q "${1:-^# fanin}" "$dir/rank0" && return 0
                sleep 0.05
        done
        return 1
}

# COMMAND in PREFIX-wINDEX, for $rank_timeout_s at most.
start_rank() { # INDEX COMMAND...
        rank=$1
        shift
        start "w$rank" "rank$rank" timeout -k 2 "$rank_timeout_s" "$@"
        ranks="$ranks $!"
}

# COMMAND as each rank of a job that meets at ADDRESS and PORT.
start_ranks() { # ADDRESS PORT COMMAND...
        meets="MASTER_ADDR=$1 MASTER_PORT=$2 WORLD_SIZE=$(echo "$ranks_of" | wc -w)"
        shift 2
        number=0
        for host in $ranks_of; do
                if own=$(own_of $number "$host"); then
                        # shellcheck disable=SC2086  # words are wanted
                        start "w$host" "rank$number" timeout -k 2 "$rank_timeout_s" \
                                env $meets RANK=$number $own "$@"
                        ranks="$ranks $!"
                else
                        ranks="$ranks -"
                fi
                number=$((number + 1))
        done
}

# What `env` takes before COMMAND for this rank alone; 1: the rank never comes.  Scripts may define
# their own.
own_of() { # RANK HOST
        :
}

# The process of rank N of the job.
id_of() { # N
        n=$1
        # shellcheck disable=SC2086  # words are wanted
        set -- $ranks
        shift "$n"
        echo "$1"
}

# The program of rank N, below its `timeout`.
program_of() { # N
        grep -ls "^PPid:[[:space:]]*$(id_of "$1")\$" /proc/[0-9]*/status | sed 's,/proc/,,; s,/status,,'
}

# 1 when one of them failed.
wait_ranks() {
        bad=0
        for pid in $ranks; do
                wait "$pid" || bad=1
        done
        ranks=
        return $bad
}

# Whether `fanin bench --json $dir/json` looked at its sums and counted no wrong element.
none_wrong() {
        grep -Eq '"wrong": *0[^0-9]' "$dir/json" 2>/dev/null &&
        ! grep -Eq '"wrong": *[^ 0]' "$dir/json"
}
