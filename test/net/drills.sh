#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ranks 0 and 1 on one host, 2 and 3 on another, between network namespaces (netns.sh draws them),
# while a process gets SIGKILL or SIGSTOP at a random moment between its start and MOMENT_MS: a
# host's first rank, which holds an aggregator, another rank, or a switch that was named.  A drill
# holds when all other ranks end, none with exit code 0 or for its time limit, each with a sentence
# that names who is gone; no element of a sum was wrong; and no process, file, socket or memory of
# the job is left.
#
#     test/net/drills.sh [-n N] [-s SEED] [FANIN]     N drills of each kind (1), from SEED (1);
#                                                     FANIN: the program (build/fanin)
#
# Prints one line a drill and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-dr-$$
rank_timeout_s=40 # several times what any drill may take
MOMENT_MS=1500
address=10.77.0.1:7081 spare=10.77.0.254:7081
host_of="0 0 1 1"

count=1
seed=1
while getopts n:s: flag; do
        case $flag in
        n) count=$OPTARG ;;
        s) seed=$OPTARG ;;
        *) exit 2 ;;
        esac
done
shift $((OPTIND - 1))

# Number NTH of seed $seed, from 0 to BELOW - 1.
draw() { # NTH BELOW
        awk -v seed="$seed" -v nth="$1" -v below="$2" 'BEGIN {
                srand(seed * 100003 + nth); rand(); print int(rand() * below) }'
}

start_job() {
        number=0
        for host in $host_of; do
                start "w$host" "rank$number" timeout -k 2 $rank_timeout_s \
                        env MASTER_ADDR="${address%:*}" MASTER_PORT="${address#*:}" \
                        RANK=$number WORLD_SIZE=4 \
                        "$fanin" bench -b 1M -n 10000 --timeout 4000 --alive 700
                ranks="$ranks $!"
                number=$((number + 1))
        done
}

# The program of rank N, once there is one.
victim() { # N
        for _ in $(seq $LISTEN_POLLS); do
                found=$(program_of "$1")
                [ -z "$found" ] || { echo "$found"; return 0; }
                sleep 0.02
        done
        return 1
}

# What may be left of a job whose processes have all ended.
leftovers() {
        for host in 0 1; do
                ip netns exec "$prefix-w$host" grep '@fanin-' /proc/net/unix
                ip netns pids "$prefix-w$host"
        done
        find /dev/shm -name '*fanin*'
}

# All ranks but GONE (none: -1) have ended in an error that has NAMES, an extended expression.
others_say() { # GONE NAMES
        bad=0
        for rank in 0 1 2 3; do
                [ "$rank" -ne "$1" ] || continue
                wait "$(id_of $rank)"
                code=$?
                if [ $code -ne 1 ] || ! grep -Eq "$2" "$dir/rank$rank"; then
                        echo "# rank $rank: exit code $code"
                        bad=1
                fi
        done
        return $bad
}

drill() { # KIND SIGNAL NTH
        kind=$1 signal=$2 nth=$3
        moment_ms=$(draw "$nth" $MOMENT_MS)
        unset FANIN_SWITCH
        # without the switch where they meet, ranks wait for each other
        unformed="of [24] ha(s|ve) not joined" # 2: hosts, of a column
        gone=-1 names="switch $spare (stopped answering|does not answer)|$unformed"
        case $kind in
        first) gone=$((2 * $(draw $((nth + 50000)) 2))) ;;
        other) gone=$((2 * $(draw $((nth + 50000)) 2) + 1)) ;;
        spare) start_switch "$spare" || return 1
               export FANIN_SWITCH="$spare" ;;
        esac
        start_job
        result=0
        sleep "$(awk -v ms="$moment_ms" 'BEGIN { print ms / 1000 }')"
        if [ "$kind" = spare ]; then
                target=$(pgrep -P "${pids##* }" -x fanin || echo "${pids##* }")
        else
                target=$(victim $gone) || result=1
                names="ranks? ([0-9, ]*[ ,])?$gone\b|ranks of this host cannot share|$unformed"
        fi
        kill -"$signal" "$target"
        others_say $gone "$names" || result=1
        grep -q 'expected' "$dir"/rank? && result=1
        kill -KILL "$target" 2>/dev/null
        stop
        leftovers | grep . && result=1
        report "seed $seed, number $nth: $kind, SIG$signal at $moment_ms ms" $result "$dir"/rank?
        rm -f "$dir"/*
}

begin "$@"
fan_net_up "$prefix" 2 1gbit || exit 1
for n in $(seq "$count"); do
        for kind in first other spare; do
                drill "$kind" KILL $((2 * n))
                drill "$kind" STOP $((2 * n + 1))
        done
done
summary
