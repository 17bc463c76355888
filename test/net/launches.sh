#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two launches of a program with one job name, at once: no rank ends without an error and with a sum of
# both.  Each placement is run RUNS times; the ranks of both launches start in an order that the run's
# number gives, some later, so that ranks of both meet before their own do.  Where launches are told
# apart (a launcher's id, FANIN_RUN, PyTorch's store, loopback), each has to sum its own.
#
#     test/net/launches.sh [FANIN [RUNS]]   FANIN: the program (build/fanin); RUNS of each placement (3)
#
# Prints one line a placement, with how many ranks ended how, and a summary.  Exit code 0, 1, or 77 when
# namespaces cannot be made here.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-la-$$
root=$here/../..
runs=${2:-3}
SECONDS_EACH=2 # of sums once all have come: longer than a busy machine takes to join
at=10.77.0.254:17100
port=29600

# Rank RANK of launch LAUNCH (0, 1) on HOST, with variables.
rank() { # LAUNCH RANK RANKS HOST [VARIABLE=VALUE...] [-- WORD]
        launch=$1 rank=$2 size=$3 host=$4
        shift 4
        word=
        for argument; do
                shift
                case $argument in
                --) word=$1 && break ;;
                *) set -- "$@" "$argument" ;;
                esac
        done
        [ -z "$word" ] || while [ "${1:-}" = "$word" ]; do shift; done
        start "w$host" "rank$launch.$rank" timeout -k 2 60 env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 \
                FANIN_LIBRARY="$library" "$@" \
                "$python" "$root/test/python/launch_rank.py" $((launch * 100)) "$rank" "$size" $SECONDS_EACH "$dir/come" $word
        ranks="$ranks $!"
}

# All ranks of both launches: `place LAUNCH RANK` starts one.  Those of one launch are the first, the
# last, or every other one, and half of them come late.
both() { # RUN RANKS
        order=$(
                for l in 0 1; do
                        r=0
                        while [ $r -lt "$2" ]; do
                                echo "$(((l * 7 + r * 5 + $1 * (3 + l + 2 * r)) % 11)) $l $r"
                                r=$((r + 1))
                        done
                done | sort -n | cut -d' ' -f2-
        )
        count=0
        while read -r l r; do
                [ $count -ne "$2" ] || sleep "0.$(($1 * 3 % 4))"
                place "$l" "$r"
                count=$((count + 1))
        done <<TEXT
$order
TEXT
        for pid in $ranks; do
                wait "$pid"
        done
        ranks=
}

# RUNS of a placement, which has to end as KIND says: right (each sums its own), or safe (or all that
# are mixed end with an error).
placement() { # NAME RANKS KIND
        rm -f "$dir"/all
        run=0
        while [ $run -lt "$runs" ]; do
                job=same$run
                rm -rf "$dir/come" && mkdir "$dir/come"
                port=$((port + 1))
                both $run "$2"
                for file in "$dir"/rank*; do
                        tail -n 1 "$file" >>"$dir/all" # one that has hung has said nothing
                        [ -s "$file" ] || echo nothing >>"$dir/all"
                done
                rm -f "$dir"/rank*
                run=$((run + 1))
        done
        right=$(grep -c '^right' "$dir/all")
        wrong=$(grep -c '^wrong' "$dir/all")
        error=$(grep -c '^error' "$dir/all")
        other=$((2 * $2 * runs - right - wrong - error))
        [ "$wrong" -eq 0 ] && [ $other -eq 0 ] && { [ "$3" = safe ] || [ "$error" -eq 0 ]; }
        report "$1, $runs runs: $right right, $error with an error, $wrong wrong, $other neither" $? "$dir/all"
        grep '^error' "$dir/all" | cut -c1-170 | sed 's/[0-9][0-9]*/N/g' | sort | uniq -c | sort -rn | head -n 4 | sed 's/^/#   /'
}

begin "$@"
unset FANIN_HOSTS
library=${FANIN_LIBRARY:-$(cd "$(dirname "$fanin")" && pwd)/src/libfanin.so.0}
python=$(sh "$root/tools/torch-python.sh" 2>/dev/null) || python=
fan_net_up "$prefix" 4 none || exit 1
"$fanin" key new --out "$dir/fabric.key" && "$fanin" key job alice --key "$dir/fabric.key" --out "$dir/alice.key" || exit 1
mkdir "$dir/keys" && mv "$dir"/*.key "$dir/keys"
start_switch $at || exit 1
[ -n "$python" ] && torch=true || { torch=false && python=python3; }

place() { rank "$1" "$2" 2 0 FANIN_SWITCH=$at FANIN_JOB="$job" FANIN_HOSTS=0 FANIN_LOCAL=0; }
placement 'a switch, a name and ranks, by sockets' 2 safe
place() { rank "$1" "$2" 2 0 FANIN_SWITCH=$at FANIN_JOB="m$job" FANIN_LOCAL=1; }
placement 'ranks of a host that share memory' 2 safe
place() { rank "$1" "$2" 4 $(((2 * $1 + $2) % 4)) FANIN_SWITCH=$at FANIN_JOB="h$job"; }
placement 'four hosts that sum parts beside the switch' 4 safe
place() { rank "$1" "$2" 2 "$2" MASTER_ADDR=10.77.0.1 MASTER_PORT=$port; }
placement 'nothing is named: two hosts that meet at rank 0' 2 safe
place() { rank "$1" "$2" 2 "$2" FANIN_SWITCH=$at FANIN_JOB="r$job" FANIN_RUN="launch$1"; }
placement 'launches that FANIN_RUN tells apart' 2 right
place() {
        rank "$1" "$2" 2 "$1" FANIN_SWITCH=$at RANK="$2" WORLD_SIZE=2 LOCAL_RANK="$2" LOCAL_WORLD_SIZE=2 \
                MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
}
placement 'two hosts, each at 127.0.0.1:29500' 2 right
if $torch; then
        place() {
                rank "$1" "$2" 2 "$1" FANIN_SWITCH=$at FANIN_JOB="t$job" RANK="$2" WORLD_SIZE=2 \
                        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- torch
        }
        placement 'PyTorch: one name, two stores' 2 right
fi
again=0
while [ $again -lt "$runs" ]; do # one launch is killed and started anew while the other runs
        again=$((again + 1))
        rm -rf "$dir/come" && mkdir "$dir/come"
        for r in 0 1; do
                rank 0 $r 2 $r FANIN_SWITCH=$at FANIN_JOB="a$again" FANIN_RUN=first
        done
        others=$ranks ranks=
        for r in 0 1; do
                rank 1 $r 2 $r FANIN_SWITCH=$at FANIN_JOB="a$again" FANIN_RUN=second
        done
        until [ -s "$dir/come/100.0" ] && [ -s "$dir/come/100.1" ]; do sleep 0.1; done
        sleep 0.2
        kill -KILL "$(cat "$dir/come/100.0")" "$(cat "$dir/come/100.1")"
        for pid in $ranks; do
                wait "$pid"
        done
        ranks=$others
        for r in 0 1; do
                rank 1 $r 2 $r FANIN_SWITCH=$at FANIN_JOB="a$again" FANIN_RUN=third
        done
        for pid in $ranks; do
                wait "$pid"
        done
        ranks=
        cat "$dir"/rank* >>"$dir/again"
        rm -f "$dir"/rank*
done
[ "$(grep -c '^right' "$dir/again")" -eq $((4 * runs)) ]
report "a launch is killed and started anew while the other runs, $runs runs" $? "$dir/again"

stop
start_switch $at --key "$dir/keys/fabric.key" || exit 1
place() { rank "$1" "$2" 2 "$2" FANIN_SWITCH=$at FANIN_JOB="alice/$job" FANIN_KEY_FILE="$dir/keys/alice.key"; }
placement 'sealed' 2 safe

summary
