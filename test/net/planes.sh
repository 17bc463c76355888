#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The tests between network namespaces twice, with switches and servers that have sockets alone and
# with those that receive by AF_XDP (with_plane): every case must end alike.  A case looks at sums,
# errors, counters or congestion marks, whatever it is about; where counts do not depend on time,
# both planes must have counted the same contributions and results.
#
#     test/net/planes.sh [-a | -s SCRIPTS] [FANIN]
#                               -a: all scripts, in six minutes; -s: these; otherwise the shortest.
#                               FANIN: the program (build/fanin)
#
# Prints a line a script and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# or the program has no xdp (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

scripts="multihomed"
counted="multihomed allreduce" # counts that do not depend on time
while getopts as: flag; do
        case $flag in
        a) scripts="multihomed allreduce switches ahead doctor icmp hosts forecast drills" ;;
        s) scripts=$OPTARG ;;
        *) exit 2 ;;
        esac
done
shift $((OPTIND - 1))

without() {
        cat <<'EOT'
# without the plane: bits rails torchrun mpi slurm   ranks' own processes sum; libfanin has sockets alone
# without the plane: lab                       starts its daemons itself, on its own network
# without the plane: controller metrics traces sealed   on the loopback, whose checksums nobody finishes
# with a plane of their own: plane xdp_switch
EOT
}

run() { # SCRIPT sockets|xdp
        : >"$dir/counters.$2"
        FAN_TEST_PLANE=$2 FAN_TEST_COUNTERS=$dir/counters.$2 "$here/$1.sh" "$fanin" \
                >"$dir/out.$2" 2>&1
        grep '^\(not \)\?ok ' "$dir/out.$2" >"$dir/cases.$2"
}

# What a counter is in all lines, as a number.
total() { # sockets|xdp COUNTER
        grep -o " $2=[0-9]*" "$dir/counters.$1" | awk -F= '{ n += $2 } END { print n + 0 }'
}

sums_of() { # sockets|xdp
        grep -o ' contributions=[0-9]* results=[0-9]*' "$dir/counters.$1"
}

# With what each script counts alike, or not.
compare() { # SCRIPT
        run "$1" sockets
        run "$1" xdp
        cases=$(wc -l <"$dir/cases.sockets")
        alike=$(comm -12 "$dir/cases.sockets" "$dir/cases.xdp" | grep -c '^ok ')
        all=$((all + cases))
        all_alike=$((all_alike + alike))
        echo "# $1: $alike of $cases cases; $(total xdp by_plane) of $(total xdp datagrams_in) datagrams by the plane," \
                "$(total xdp bad_checksum) bad, $(total xdp unfinished) unfinished, $(total xdp plane_lost) lost"
        sed -n 's/event=no_plane reason="\(.*\)"/\1/p' "$dir/counters.xdp" | sort | uniq -c |
        while read -r times reason; do
                echo "#     $times daemons by sockets: $reason"
        done
        [ "$cases" -gt 0 ] && [ "$alike" -eq "$cases" ] && [ "$(total xdp by_plane)" -gt 0 ]
        report "$1: cases end alike" $? "$dir/out.sockets" "$dir/out.xdp"
        case " $counted " in
        *" $1 "*)
                sums_of sockets >"$dir/sums.sockets"
                sums_of xdp >"$dir/sums.xdp"
                [ -s "$dir/sums.xdp" ] && cmp "$dir/sums.sockets" "$dir/sums.xdp"
                report "$1: contributions and results counted alike" $? "$dir/sums.sockets" "$dir/sums.xdp"
                ;;
        esac
}

prefix=fanin-pls-$$
begin "$@"
need_xdp
all=0
all_alike=0
for script in $scripts; do
        compare "$script"
done
without
echo "# both planes: $all_alike of $all cases alike"
summary
