#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ranks 0 and 1 on one host, 2 and 3 on another, between network namespaces (netns.sh draws them),
# while a process gets SIGKILL or SIGSTOP at a random moment, or is stopped for a random while, or
# is told to stop:
#
#     first, other      a host's first rank, which holds an aggregator; another rank
#     mixed             a host's first rank, which holds an aggregator beside a named switch
#     spare             the only switch, and hosts sum nothing (FANIN_HOSTS=0)
#     one, box, memory  one of two named switches; the only one, beside hosts that sum; the same
#                       where the ranks of a host share memory
#     two               two of three named switches, one up to GAP_MS after the other
#     shares            one of two beside hosts that sum, while shares are learnt, and with several
#                       operations under way (stream.c)
#
#     stopped           one of two named switches beside hosts that sum gets SIGTERM: nobody waits
#                       for its silence, which ranks would take for a loss after 60 s only
#
# The first four get it within MOMENT_MS of the job's start.  Such a drill holds when all other
# ranks end, none with exit code 0 or for its time limit, each with a sentence that names who is
# gone.  The others get it within MOMENT_MS after all ranks have joined, and all ranks must go on:
# exit code 0, also where nothing was lost since the switch went on in time.  In all drills, no
# element of a sum is wrong, and no process, file, socket or memory of the job is left.  Where the
# machine had no time for a rank, and the job had ended before the signal, the drill is done again.
#
#     test/net/drills.sh [-n N] [-s SEED] [-k KINDS] [-m MS] [FANIN]
#                               N drills of each kind and signal (1), from SEED (1); of KINDS, words
#                               as above (all but box, two and shares); MS: MOMENT_MS (1500), 120
#                               or less while ranks still join; FANIN: the program (build/fanin)
#
# Prints one line a drill and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-dr-$$
rank_timeout_s=400 # many times what any drill may take
MOMENT_MS=1500
GAP_MS=300
TRIES=3
address=10.77.0.1 port=7081 spare=10.77.0.254:7081 second=10.77.0.254:7082 third=10.77.0.254:7083
ranks_of="0 0 1 1"
kinds="first other mixed spare one memory stopped"
GO_ON_S=3 # of a job that goes on
alive_ms=700 stall_ms=4000

count=1
seed=1
while getopts n:s:k:m: flag; do
        case $flag in
        n) count=$OPTARG ;;
        s) seed=$OPTARG ;;
        k) kinds=$OPTARG ;;
        m) MOMENT_MS=$OPTARG ;;
        *) exit 2 ;;
        esac
done
shift $((OPTIND - 1))

# Number NTH of seed $seed, from 0 to BELOW - 1.
draw() { # NTH BELOW
        awk -v seed="$seed" -v nth="$1" -v below="$2" 'BEGIN {
                srand(seed * 100003 + nth); rand(); print int(rand() * below) }'
}

start_job() { # FLAGS...
        start_ranks "$address" $port "$fanin" bench -b 1M --timeout "$stall_ms" --alive "$alive_ms" "$@"
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
        find /dev/shm -name '*fanin*' ! -name 'vader_segment.*' # Open MPI's, of others here
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

sleep_ms() {
        sleep "$(awk -v ms="$1" 'BEGIN { print ms / 1000 }')"
}

# The program that was started last in the switches' namespace.
last_switch() {
        pgrep -P "${pids##* }" -x fanin || echo "${pids##* }"
}

# Signal SIGNAL to each target, the second one GAP ms after the first.
signal_targets() { # SIGNAL GAP TARGET [TARGET]
        kill -"$1" "$3"
        [ -z "$4" ] || { sleep_ms "$2"; kill -"$1" "$4"; }
}

# The switches of a drill of KIND: $targets, $lose of which are to be lost.
start_switches() { # KIND
        targets='' lose=1
        case $1 in one | two | shares | stopped)
                start_switch "$second" || return 1
                FANIN_SWITCH="$spare,$second" ;;
        esac
        case $1 in one | two) FANIN_HOSTS=0 ;; esac
        if [ "$1" = two ]; then
                start_switch "$third" || return 1
                targets=$(last_switch) lose=2
                FANIN_SWITCH="$FANIN_SWITCH,$third"
        fi
        start_switch "$spare" || return 1
        targets="$(last_switch) $targets"
}

# A switch is gone, and all ranks go on.
goes_on() { # KIND SIGNAL NTH
        kind=$1 signal=$2 nth=$3
        turn=$((nth * 100 + ${#kind} * 10 + ${#signal})) # kinds and signals differ in length
        moment_ms=$(draw $turn $MOMENT_MS)
        pause_ms=$(draw $((turn + 50000)) $MOMENT_MS)
        export FANIN_SWITCH="$spare" FANIN_HOSTS=1
        case $kind in box | shares | stopped) export FANIN_LOCAL=0 ;; esac
        [ "$kind" != stopped ] || alive_ms=60000 stall_ms=20000
        start_switches "$kind" || return 1
        if [ "$kind" = shares ]; then
                start_ranks "$address" $port env FANIN_TIMEOUT_MS=4000 FANIN_ALIVE_MS=700 \
                        "$stream" $GO_ON_S "$dir/json"
        else
                start_job --seconds $GO_ON_S --json "$dir/json"
        fi
        result=0
        wait_said
        gap_ms=$(draw $((turn + 70000)) $GAP_MS)
        sleep_ms "$moment_ms"
        # shellcheck disable=SC2086  # words are wanted
        signal_targets "${signal%CONT}" "$gap_ms" $targets
        if [ "$signal" = STOPCONT ]; then
                sleep_ms "$pause_ms"
                # shellcheck disable=SC2086
                kill -CONT $targets
        fi
        wait_ranks && none_wrong || result=1
        lost=$(grep -c '"lost": *true' "$dir/json")
        [ "$signal" = STOPCONT ] || [ "$lost" -eq "$lose" ] || result=1
        # shellcheck disable=SC2086
        kill -KILL $targets 2>/dev/null
        stop
        leftovers | grep . && result=1
        [ "$signal" = STOPCONT ] || pause_ms=-
        alive_ms=700 stall_ms=4000
        gap_s=$(sed -n 's/.*"gap_s": *\([0-9.]*\).*/\1/p' "$dir/json" | head -n 1)
        report "seed $seed, number $nth: $kind, SIG$signal at $moment_ms ms ($pause_ms), lost $lost, longest pause ${gap_s:--} s" \
                $result "$dir"/rank?
        rm -f "$dir"/*
        export FANIN_HOSTS=0
        unset FANIN_LOCAL
}

# Did the rank that got the signal say itself why the job has ended?
was_over() {
        [ "$gone" -ge 0 ] && grep -q "^fanin bench: rank $gone:" "$dir/rank$gone"
}

ends() { # KIND SIGNAL NTH [TRY]
        kind=$1 signal=$2 nth=$3 try=${4:-1}
        moment_ms=$(draw "$nth" $MOMENT_MS)
        unset FANIN_SWITCH
        # without the switch where they meet, ranks wait for each other
        unformed="of [24] ha(s|ve) not joined" # 2: hosts, of a column
        gone=-1 names="switch $spare (stopped answering|does not answer)|$unformed"
        case $kind in
        first | mixed) gone=$((2 * $(draw $((nth + 50000)) 2))) ;;
        other) gone=$((2 * $(draw $((nth + 50000)) 2) + 1)) ;;
        esac
        case $kind in
        spare | mixed)
                start_switch "$spare" || return 1
                export FANIN_SWITCH="$spare" ;;
        esac
        [ "$kind" != mixed ] || export FANIN_HOSTS=1
        start_job -n 10000
        result=0
        sleep_ms "$moment_ms"
        if [ "$kind" = spare ]; then
                target=$(last_switch)
        else
                target=$(victim $gone) || result=1
                names="ranks? ([0-9, ]*[ ,])?$gone\b|ranks of this host cannot share|$unformed"
        fi
        kill -"$signal" "$target"
        others_say $gone "$names" || result=1
        grep -q 'expected' "$dir"/rank? && result=1
        kill -KILL "$target" 2>/dev/null
        stop
        if [ $result -ne 0 ] && [ "$try" -lt $TRIES ] && was_over; then
                echo "# seed $seed, number $nth: over before SIG$signal: $(tail -n 1 "$dir/rank$gone")"
                rm -f "$dir"/*
                ends "$kind" "$signal" "$nth" $((try + 1))
                return
        fi
        leftovers | grep . && result=1
        report "seed $seed, number $nth: $kind, SIG$signal at $moment_ms ms" $result "$dir"/rank?
        rm -f "$dir"/*
        export FANIN_HOSTS=0
}

begin "$@"
stream=$(dirname "$fanin")/test/stream
fan_net_up "$prefix" 2 200mbit || exit 1
for n in $(seq "$count"); do
        for kind in $kinds; do
                if [ "$kind" = stopped ]; then
                        goes_on stopped TERM $((2 * n))
                        continue
                fi
                drill=ends
                case $kind in one | two | shares | box | memory) drill=goes_on ;; esac
                $drill "$kind" KILL $((2 * n))
                $drill "$kind" STOP $((2 * n + 1))
                [ $drill = ends ] || goes_on "$kind" STOPCONT $((2 * n + 1))
        done
done
summary
