#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ranks on several hosts and nobody names a switch, between network namespaces (netns.sh draws
# them): ranks 0 and 1 on the first host, one each on two others.  Each host sums its part.  A
# case holds when every rank ends with exit code 0 and rank 0 counted no wrong element, or when
# the ranks that are left say who is gone.
#
#     test/net/hosts.sh [FANIN]          FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-ho-$$
hosts=3
ranks_of="0 0 1 2" # the host of each rank
bytes=4M
rank_timeout_s=300
port=7079
share=1 # memory, among the ranks of a host: expected
ask=    # for it or not: FANIN_LOCAL=1 or =0
loner=  # a rank that does not want to
last=   # the host that declares a narrower link; none: no host declares any
idle=   # what rank 0 says of a host that sums nothing
files=  # that rank 3 may have open; none: as many as others
absent= # the rank that never comes; none: all do
parts=3 # of a tensor: those of the hosts
switch_flags=

own_of() { # RANK HOST
        [ "$1" != "$absent" ] || return 1
        own=$ask rate=1000
        [ "$1" != "$loner" ] || own=FANIN_LOCAL=0
        [ "$2" != "$last" ] || rate=250
        [ -z "$last" ] || own="$own FANIN_LINK_MBPS=$rate"
        [ "$1" -ne 3 ] || [ -z "$files" ] || own="$own prlimit --nofile=$files:$files"
        echo "$own"
}

# A job that meets at the first host, by its address ADDRESS.
start_job() { # ADDRESS ITERATIONS FLAGS...
        address=$1 iters=$2
        shift 2
        start_ranks "$address" $port \
                "$fanin" bench -b $bytes -e $bytes -n "$iters" -w 0 --json "$dir/json" "$@"
}

sums() { # NAME ADDRESS FLAGS...
        name=$1 address=$2
        shift 2
        start_job "$address" 3 "$@"
        wait_ranks && none_wrong
        result=$?
        [ "$(sed -n 's/.*"parts": \([0-9]*\).*/\1/p' "$dir/json" | sort -n | tail -n 1)" = $parts ] ||
                result=1
        [ "$(grep -c '^# shares of the tensors' "$dir/rank0")" = $((parts > 1)) ] || result=1
        [ "$(grep -c '2 ranks of this host share memory' "$dir/rank0")" = $share ] || result=1
        [ "$(grep '^# the host of rank' "$dir/rank0" | cut -d ';' -f 1)" = "$idle" ] || result=1
        ended "$name" $result
}

# The first shares are by the rates that hosts declare, that of the last one a quarter.
declared() { # NAME
        last=${ranks_of##* }
        start_job 10.77.0.1 1 # before anything is measured
        wait_ranks && none_wrong
        result=$?
        grep -q '^# shares.* 0\.0 % inside rank 3' "$dir/rank0" || result=1
        grep -q '^# shares.*50\.0 % inside rank 0.*50\.0 % inside rank 2' "$dir/rank0" || result=1
        last=
        ended "$1" $result
}

# Sockets by which ranks of a host have found each other, and files of theirs.
leftovers() {
        ip netns exec "$prefix-w0" cat /proc/net/unix | grep '@fanin-'
        find /dev/shm -name '*fanin*' ! -name 'vader_segment.*' | grep . # not Open MPI's
}

# A rank gets SIGNAL, and with it the aggregator of its host if it is the first there: all others
# end, say so, and leave nothing behind.
rank_ends() { # NAME SIGNAL RANK
        name=$1 signal=$2 ends=$3
        start_job 10.77.0.1 1000 --alive 1000
        wait_said redop
        result=$?
        sleep 0.5
        victim=$(program_of "$ends")
        kill -"$signal" "$victim"
        for rank in 0 1 2 3; do
                [ "$rank" -ne "$ends" ] || continue
                wait "$(id_of $rank)" && result=1
                grep -q "inside rank $ends stopped\|rank $ends \(stopped\|has ended\)\|rank $ends .*left" \
                        "$dir/rank$rank" || result=1
        done
        kill -KILL "$victim" 2>/dev/null
        wait "$(id_of "$ends")" 2>/dev/null
        leftovers && result=1
        ended "$name: the others say so" $result
}

# Rank 2 is killed, and the others go on, though for a while the JOINs of rank 3 by which it would meet them get lost:
# those of which nftables' WHICH holds.
shrinks() { # NAME WHICH...
        name=$1
        shift
        start_ranks 10.77.0.1 $port env FANIN_JOB=split FANIN_ALIVE_MS=8000 "$stream" -e -s 1 12 "$dir/json"
        wait_said
        ip netns exec "$prefix-w2" nft -f - <<EOF
table inet fanin_lost {
        chain output {
                type filter hook output priority 0; policy accept;
                ip daddr 10.77.0.1 meta l4proto udp @th,72,8 16 $* drop
        }
}
EOF
        kill -KILL "$(program_of 2)"
        for _ in $(seq $LISTEN_POLLS); do
                grep -q stopped "$dir/rank3" && break
                sleep 0.05
        done
        sleep 1.5
        ip netns exec "$prefix-w2" nft delete table inet fanin_lost
        result=0
        for rank in 0 1 3; do
                wait "$(id_of $rank)" || result=1
                grep -q '^# 3 ranks are left' "$dir/rank$rank" || result=1
        done
        wait "$(id_of 2)" 2>/dev/null
        ranks=
        ended "$name" $result
}

# Rank 3 cannot take part: it says that its cause is OWN, and all others OTHERS, not that a rank is missing.
refused() { # NAME OWN OTHERS
        start_job 10.77.0.1 1
        result=0
        for rank in 0 1 2 3; do
                [ "$rank" != "$absent" ] || continue
                says=$3
                [ $rank -lt 3 ] || says=$2
                wait "$(id_of $rank)" && result=1
                grep -q "$says" "$dir/rank$rank" || result=1
        done
        ranks=
        ended "$1" $result
}

# Sums at a switch of the namespace in the middle.
named_sums() { # NAME FLAGS...
        # shellcheck disable=SC2086  # words are wanted
        start_switch 10.77.0.254:7079 $switch_flags || return
        FANIN_SWITCH=10.77.0.254:7079
        export FANIN_SWITCH
        name=$1
        shift
        sums "$name" 10.77.0.1 "$@"
        unset FANIN_SWITCH
}

# Host INDEX takes packets that answer its own, and those of the switch in the middle.
close_ports() { # INDEX
        ip netns exec "$prefix-w$1" nft -f - <<EOF
table inet fanin_closed {
        chain input {
                type filter hook input priority 0; policy accept;
                iifname "eth0" ct state new ip saddr != 10.77.0.254 drop
        }
}
EOF
}

open_ports() { # INDEX
        ip netns exec "$prefix-w$1" nft delete table inet fanin_closed
}

begin "$@"
stream=$(dirname "${FAN_TEST_PROGRAM:-$fanin}")/test/stream
FANIN_HOSTS=1
fan_net_up "$prefix" $hosts 1gbit || exit 1

sums "each host sums its part, and ends when the others have" 10.77.0.1 --alive 60000
sums "by IPv6" fd77::1
sums "in bfloat16, averages" 10.77.0.1 -d bfloat16 -o avg
sums "in float32, bfloat16 on the wire" 10.77.0.1 --wire bfloat16
declared "hosts declare their links, one a quarter of the others: it sums nothing"
ip -n "$prefix-w2" link set eth0 mtu 1300
short_says='do not fit the path to the switch .* which takes 1300'
refused "an interface that takes no full packets" "$short_says" 'packets of rank 3 do not fit its path'
absent=1
refused "the same, and a rank never comes" "$short_says" 'packets of rank 3 do not fit its path'
start_switch 10.77.0.254:7079
FANIN_SWITCH=10.77.0.254:7079
export FANIN_SWITCH
refused "the same at a named switch" "$short_says" 'packets of rank 3 do not fit its path'
unset FANIN_SWITCH
absent=
ip -n "$prefix-w2" link set eth0 mtu 1500
files=20
refused "too few file descriptors" 'may have 20 file descriptors.*raise the limit' \
        'rank 3 has too few file descriptors left.*which takes .* of .*raise the limit'
files=
rank_ends "rank 2 is killed, with the aggregator of its host" KILL 2
rank_ends "rank 0 is killed, with the aggregator of its host" KILL 0
rank_ends "rank 1 is killed, which shares memory with rank 0" KILL 1
rank_ends "rank 1 stands still" STOP 1
FANIN_HOSTS=0 parts=1 ask=FANIN_LOCAL=1
named_sums "at a named switch, memory shared on request"
FANIN_HOSTS=1 parts=4 ask=
named_sums "at a named switch and on hosts, memory shared"
share=0 switch_flags="--jobs 1"
named_sums "a switch without room for a column: each rank for itself"
switch_flags='' loner=1
named_sums "at a named switch, one rank does not want to share: none does"
loner='' ask=FANIN_LOCAL=0
named_sums "at a named switch and on hosts, each rank for itself"
named_sums "the same in fixed point" --mode fixed
close_ports 2
parts=3 idle='# the host of rank 3 sums nothing: 3 of the ranks do not reach the switch inside it'
named_sums "a host that does not answer the others sums nothing"
open_ports 2
idle=
sums "each rank for itself" 10.77.0.1
ask='' loner=3
sums "one rank does not want to share: none does" 10.77.0.1
loner=''
sums "in fixed point, each rank for itself" 10.77.0.1 --mode fixed
ask=FANIN_LOCAL=0
rank_ends "rank 0 is killed, and no memory is shared" KILL 0
shrinks "rank 2 is killed, and rank 3 is late to meet the others"
share=1 ask=''
shrinks "rank 2 is killed, and rank 3 has met the others, but joins their group late" @th,528,8 0x7e # "split/left~"
fan_net_loss "$prefix" 10 || exit 1
sums "with 1 % loss" 10.77.0.1

summary
