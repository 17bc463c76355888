#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Real daemons between network namespaces (netns.sh draws them): switches with the aggregator
# inside and elsewhere, in rows of two and three, trees of aggregators, many jobs, congestion marks.
# A case holds when every rank ends with exit code 0 and rank 0 counted no wrong element, and
# what it is about has happened: collisions, marks, refusals.
#
#     test/net/switches.sh [FANIN]          FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-sh-$$
workers=5                # four of them ranks, the last one the server's
ranks_all=4
at=10.77.0.254           # the switches'
server=10.77.0.5:7090
bytes=1048576
iters=3
rank_timeout_s=300
jobs_many=64

# COMMAND LISTEN FLAGS... in the switch's namespace or the server's.
start_daemon() { # NAMESPACE LOG COMMAND LISTEN FLAGS...
        where=$1 file=$2 command=$3 listen=$4
        shift 4
        start "$where" "$file" "$fanin" "$command" --listen "$listen" "$@"
        pids="$pids $!"
        wait_listening $! "$file" && return
        report "$file does not listen" 1 "$dir/$file"
        stop # so that the next case finds its ports free
        return 1
}

start_server() { # FLAGS...
        start_daemon w4 server server $server "$@"
}

switch_at() { # PORT FLAGS...
        port=$1
        shift
        start_daemon sw "switch$port" switch "$at:$port" "$@"
}

worker() { # INDEX PORT FLAGS...
        index=$1 port=$2
        shift 2
        start_rank "$index" "$fanin" bench --switch "$at:$port" --job net -b $bytes -e $bytes \
                -n $iters -w 1 -d float32 "$@"
}

# Ranks 0 .. 3 on the switches at PORT...; the last one takes the rest.
job() { # PORT...
        port=$1
        for rank in 0 1 2 3; do
                port=${1:-$port}
                [ $# -eq 0 ] || shift
                if [ "$rank" -eq 0 ]; then
                        worker 0 "$port" --rank 0 --ranks $ranks_all --json "$dir/json"
                else
                        worker "$rank" "$port" --rank "$rank" --ranks $ranks_all
                fi
        done
        wait_ranks && none_wrong
}

# What daemon LOG has counted of KEY in all its lines of the end, as a number.
counted() { # LOG KEY
        sed -n "s/.*event=\\(slots\\|counters\\) .* $2=\\([0-9]*\\).*/\\2/p" "$dir/$1" |
        awk '{ n += $1 } END { print n + 0 }'
}

# Few slots, so that fragments meet in them and collide.
home_inside() { # POLICY FLAGS...
        policy=$1
        shift
        switch_at 7079 --policy "$policy" --slots 32 "$@"
        job 7079
        result=$?
        stop
        [ "$(counted switch7079 completions)" -gt 0 ] && [ "$(counted switch7079 collisions)" -gt 0 ]
        ended "$policy, aggregator inside $*" $((result + $?))
}

home_elsewhere() { # POLICY FLAGS...
        policy=$1
        shift
        start_server "$@" && switch_at 7079 --policy "$policy" --slots 32 --server $server "$@"
        job 7079
        result=$?
        stop
        [ "$(counted server partials)" -gt 0 ] && [ "$(counted switch7079 hits)" -gt 0 ]
        ended "$policy, server elsewhere $*" $((result + $?))
}

# Ranks 0, 1 on the first, 2, 3 on the second, both behind a third; and all in a row.
levels() { # POLICY
        start_server &&
        switch_at 7079 --policy "$1" --slots 64 --server $server &&
        switch_at 7080 --policy "$1" --slots 64 --server $at:7079 &&
        switch_at 7081 --policy "$1" --slots 64 --server $at:7079 && job 7080 7080 7081
        result=$?
        stop
        [ "$(counted switch7080 hits)" -gt 0 ] && [ "$(counted switch7079 results)" -gt 0 ]
        ended "$1, two levels" $((result + $?))
        start_server &&
        switch_at 7079 --policy "$1" --slots 64 --server $server &&
        switch_at 7080 --policy "$1" --slots 64 --server $at:7079 &&
        switch_at 7081 --policy "$1" --slots 64 --server $at:7080 && job 7081 7081 7080 7079
        ended "$1, three levels, ranks at each" $?
}

# Two racks of two under one parent; the flags are words.
tree() { # NAME BELOW-FLAGS ABOVE-FLAGS AHEAD(of ranks)
        # shellcheck disable=SC2086 # words
        switch_at 7079 $3 &&
        switch_at 7080 $2 --parent $at:7079 --child 0/2 &&
        switch_at 7081 $2 --parent $at:7079 --child 1/2 || return
        name=$1
        keys "ahead=$4"
        for rack in 0 1; do
                for rank in 0 1; do
                        index=$((2 * rack + rank))
                        set -- --rank $rank --ranks 2 --tree $((2 * rack))/4
                        [ $index -gt 0 ] || set -- "$@" --json "$dir/json"
                        worker $index $((7080 + rack)) "$@"
                done
        done
        wait_ranks && none_wrong
        ended "a tree of aggregators: $name" $?
}

# A kernel that marks: ranks see it, and their windows shrink.
marks() { # NAME COMMAND...
        name=$1
        shift
        "$@" && job 7079
        result=$?
        seen=$(sed -n 's/.*"marks": \([0-9]*\).*/\1/p' "$dir/json")
        [ "${seen:-0}" -gt 0 ]
        ended "marks: $name" $((result + $?))
}

# Small jobs, all at once on one switch; the ranks are two of each.
many() {
        switch_at 7079 --policy esa --slots 256 --window 8 || return
        i=0
        while [ $i -lt $jobs_many ]; do
                for rank in 0 1; do
                        start_rank $rank "$fanin" bench --switch $at:7079 --job "job$i" \
                                --rank $rank --ranks 2 -b 32K -e 32K -n 2 -w 1 --timeout 50000
                done
                i=$((i + 1))
        done
        wait_ranks
        result=$?
        [ "$(grep -c event=job_ready "$dir/switch7079")" -ge $jobs_many ]
        ended "$jobs_many jobs on one switch" $((result + $?))
}

# A job whose rank dies fails; the one beside it does not notice.  The first has the whole
# priority, and no more slots than its quota.
isolation() {
        switch_at 7079 --policy esa --slots 64 --quota 16 && keys priority=255 || return
        start_rank 2 "$fanin" bench --switch $at:7079 --job greedy --rank 0 --ranks 2 \
                -b 8M -e 8M -n 1000 -w 0 -c 0 --alive 1000
        greedy=$!
        start_rank 3 "$fanin" bench --switch $at:7079 --job greedy --rank 1 --ranks 2 \
                -b 8M -e 8M -n 1000 -w 0 -c 0 --alive 1000
        dies=$!
        unset FANIN_CONFIG
        ranks=
        pids="$pids $greedy $dies"
        start_rank 0 "$fanin" bench --switch $at:7079 --job net -b $bytes -e $bytes -n 80 \
                --rank 0 --ranks 2 --json "$dir/json"
        start_rank 1 "$fanin" bench --switch $at:7079 --job net -b $bytes -e $bytes -n 80 \
                --rank 1 --ranks 2
        wait_said
        sleep 1
        start sw top "$fanin" top --switch $at:7079 --once --json "$dir/slots"
        wait $!
        kill -TERM $dies
        wait_ranks && none_wrong
        result=$?
        wait $greedy && result=1 # it must fail: its other rank is gone
        grep -q "lost\|stopped answering" "$dir/rank2" || result=1
        held=$(tr -d ' \n' <"$dir/slots" | sed 's/.*"greedy"[^}]*"held":\([0-9]*\).*/\1/')
        [ "${held:-99}" -le 16 ] || result=1
        ended "one job dies, quota of slots holds, the other goes on" $result
}

refusals() {
        start_server && switch_at 7079 --policy atp --threads 2 --server $server || return
        worker 0 7079 --rank 0 --ranks 2 --timeout 5000
        ! wait_ranks && grep -q "runs 2 threads, the server behind it 1" "$dir/rank0"
        ended "numbers of threads that differ are refused" $?
        switch_at 7079 --policy atp --jobs 1 || return
        start_rank 0 "$fanin" bench --switch $at:7079 --job first --rank 0 --ranks 2 -b 8 -e 8 \
                --timeout 20000
        first=$!
        ranks=
        pids="$pids $first"
        for _ in $(seq $LISTEN_POLLS); do
                grep -q event=job_created "$dir/switch7079" && break
                sleep 0.05
        done
        worker 1 7079 --rank 0 --ranks 2 --timeout 5000
        ! wait_ranks && grep -q "serves as many jobs as it can\|serves 1 job" "$dir/rank1"
        ended "a job too many is refused" $?
}

begin "$@"
fan_net_up "$prefix" $workers 200mbit || exit 1

for policy in atp esa; do
        home_inside "$policy"
        home_elsewhere "$policy"
        home_elsewhere "$policy" --threads 2
        levels "$policy"
done
home_inside grid
levels grid
home_inside esa --free-early
tree "switchml" "" "" 0
tree "atp below switchml" "--policy atp --slots 32" "" 0
tree "switchml below esa" "" "--policy esa --slots 32" 0
tree "esa below esa, running ahead" "--policy esa --slots 64 --ahead 1024" \
        "--policy esa --slots 64 --ahead 1024" 512
tree "switchml, running ahead" "--ahead 1024" "--ahead 1024" 512
many
isolation
refusals
fan_net_mark "$prefix" 0 numgen random mod 1000 "<" 100 || exit 1
marks "aggregator alone" switch_at 7079
marks "slots in front" switch_at 7079 --policy atp
fan_net_mark "$prefix" 4 numgen random mod 1000 "<" 100 || exit 1
fan_net_loss "$prefix" 10 || exit 1
home_elsewhere atp
home_elsewhere esa

summary
