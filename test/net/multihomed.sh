#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A switch on two subnets that listens on every interface, and a worker on each:
#
#   ┌──────────────┐        ┌────────────────────────┐        ┌──────────────┐
#   │ eth0         │  veth  │ p0              p1     │  veth  │ eth0         │
#   │ 10.78.1.1/24 ├────────┤ 10.78.1.254     ..2.254├────────┤ 10.78.2.1/24 │
#   │ fd78:1::1/64 │        │ fd78:1::fe  fd78:2::fe │        │ fd78:2::1/64 │
#   └──────────────┘        └────────────────────────┘        └──────────────┘
#      PREFIX-w0                    PREFIX-sw                    PREFIX-w1
#
# Workers may ask for the near address or for the far one.  By its routes alone the
# switch would answer each from the near one, which a worker that asked for the far one
# ignores.  A case holds when both ranks end with exit code 0 and rank 0 counted no wrong
# element.
#
#     test/net/multihomed.sh [FANIN]         FANIN: the program (build/fanin)
#
# Exit code 0, 1, or 77 when namespaces cannot be made here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-mh$$
port=7080
bytes=1048576
rank_timeout_s=300

subnet() { # INDEX: the link between the switch and that worker
        k=$(($1 + 1))
        fan_net__namespace "$prefix-w$1" || return 1
        ip -n "$prefix-sw" -batch - <<EOF || return 1
link add p$1 type veth peer name eth0 netns $prefix-w$1
addr add 10.78.$k.254/24 dev p$1
addr add fd78:$k::fe/64 dev p$1 nodad
link set p$1 up
EOF
        ip -n "$prefix-w$1" -batch - <<EOF
addr add 10.78.$k.1/24 dev eth0
addr add fd78:$k::1/64 dev eth0 nodad
link set eth0 up
route add default via 10.78.$k.254
route add default via fd78:$k::fe
EOF
}

worker() { # RANK HOST FLAGS...
        rank=$1 host=$2
        shift 2
        start_rank "$rank" "$fanin" bench \
                --switch "$host:$port" --job multihomed --rank "$rank" --ranks 2 \
                -b $bytes -e $bytes -n 3 -w 1 -d float32 "$@"
}

# Each worker asks for the address that it is told.
case_of() { # NAME LISTEN HOST_OF_0 HOST_OF_1
        rm -f "$dir"/*
        start_switch "$2:$port" && worker 0 "$3" --json "$dir/json" && worker 1 "$4" &&
        wait_ranks && none_wrong
        bad=$?
        stop
        report "$1" $bad || tail -qn 8 "$dir"/rank* "$dir/switch" | sed 's/^/#   /'
}

begin "$@"
fan_net__namespace "$prefix-sw" && subnet 0 && subnet 1 || exit 1

case_of "IPv4, near addresses" 0.0.0.0 10.78.1.254 10.78.2.254
case_of "IPv4, one address for both" 0.0.0.0 10.78.2.254 10.78.2.254
case_of "IPv4, far addresses" 0.0.0.0 10.78.2.254 10.78.1.254
case_of "IPv6, one address for both" "[::]" "[fd78:2::fe]" "[fd78:2::fe]"
case_of "IPv4 and IPv6, far addresses" "[::]" 10.78.2.254 "[fd78:1::fe]"

summary
