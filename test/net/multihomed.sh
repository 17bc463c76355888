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
. "$here/netns.sh"

fanin=${1:-$here/../../build/fanin}
prefix=fanin-mh$$
port=7080
bytes=1048576
rank_timeout_s=12
passed=0
failed=0
pids=
dir=

# Only what this script started is ended, by process id.
stop() {
        for pid in $pids; do
                kill "$pid" 2>/dev/null
        done
        for pid in $pids; do
                wait "$pid" 2>/dev/null
        done
        pids=
}

finish() {
        trap - EXIT INT TERM
        stop
        fan_net_down "$prefix"
        [ -z "$dir" ] || rm -rf "$dir"
}

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

# Becomes the rank's process.
worker() { # RANK HOST FLAGS...
        rank=$1 host=$2
        shift 2
        exec ip netns exec "$prefix-w$rank" timeout -k 2 $rank_timeout_s "$fanin" bench \
                --switch "$host:$port" --job multihomed --rank "$rank" --ranks 2 \
                -b $bytes -e $bytes -n 3 -w 1 -d float32 "$@" >"$dir/rank$rank" 2>&1
}

# Each worker asks for the address that it is told.
case_of() { # NAME LISTEN HOST_OF_0 HOST_OF_1
        rm -f "$dir"/*
        ip netns exec "$prefix-sw" "$fanin" switch --listen "$2:$port" >"$dir/switch" 2>&1 &
        switch=$!
        pids=$switch
        bad=1
        if wait_listening $switch; then
                worker 0 "$3" --json "$dir/json" &
                left=$!
                worker 1 "$4" &
                right=$!
                pids="$switch $left $right"
                wait $left && wait $right && grep -Eq '"wrong": *0[^0-9]' "$dir/json" && bad=0
        fi
        stop
        if [ $bad -eq 0 ]; then
                passed=$((passed + 1))
                echo "ok $((passed + failed)) - $1"
                return
        fi
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $1"
        tail -qn 8 "$dir"/rank* "$dir/switch" | sed 's/^/#   /'
}

fan_net_check || exit $?
[ -x "$fanin" ] || { echo "not ok - no program $fanin: build it first"; exit 1; }
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
dir=$(mktemp -d)
fan_net__namespace "$prefix-sw" && subnet 0 && subnet 1 || exit 1

case_of "IPv4, near addresses" 0.0.0.0 10.78.1.254 10.78.2.254
case_of "IPv4, one address for both" 0.0.0.0 10.78.2.254 10.78.2.254
case_of "IPv4, far addresses" 0.0.0.0 10.78.2.254 10.78.1.254
case_of "IPv6, one address for both" "[::]" "[fd78:2::fe]" "[fd78:2::fe]"
case_of "IPv4 and IPv6, far addresses" "[::]" 10.78.2.254 "[fd78:1::fe]"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
