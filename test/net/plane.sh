#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `fanin switch --plane xdp` between network namespaces (netns.sh draws them): sums are
# exact, contributions come by the plane, what goes wrong is named, and nothing stays
# attached.  Lost frames are drawn on the workers' side, where the plane does not pass them.
#
#     test/net/plane.sh [FANIN]          FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be
# made here or the program has no xdp (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-plane-$$
workers=3
port=7083
rank_timeout_s=20
v4=10.77.0.254:$port
v6="[fd77::fe]:$port"
plane='--plane xdp --interface p0,p1,p2'

begin "$@"
if ! "$fanin" info 2>&1 | grep -q 'xdp: yes'; then
        echo "SKIPPED: this build has no xdp"
        exit 77
fi
fan_net_up "$prefix" $workers none || exit 1

# veth leaves checksums to a device that there is not.
finish_sums() { # on|off
        for i in $(seq 0 $((workers - 1))); do
                ip netns exec "$prefix-w$i" ethtool -K eth0 tx "$1" >/dev/null || exit 1
        done
}

# Each worker loses 2 % of what it sends and of what it gets.
lose() {
        for i in $(seq 0 $((workers - 1))); do
                ip netns exec "$prefix-w$i" nft -f - <<'NFT' || exit 1
table netdev lossy {
        chain out {
                type filter hook egress device "eth0" priority 0; policy accept;
                numgen random mod 1000 < 20 drop
        }
        chain in {
                type filter hook ingress device "eth0" priority 0; policy accept;
                numgen random mod 1000 < 20 drop
        }
}
NFT
        done
}

keep() {
        for i in $(seq 0 $((workers - 1))); do
                ip netns exec "$prefix-w$i" nft delete table netdev lossy
        done
}

attached() {
        ip -n "$prefix-sw" link show | grep -q 'prog/xdp'
}

# The last "NAME=" number in the switch's log.
counter() { # NAME
        sed -n "s/.* $1=\([0-9]*\).*/\1/p" "$dir/switch" | tail -n 1
}

# An all-reduce of every rank; then the switch ends, and its counters are in its log.
sum() { # ADDRESS BENCH_FLAGS...
        address=$1
        shift
        for rank in $(seq 0 $((workers - 1))); do
                start_rank "$rank" "$fanin" bench --switch "$address" --job plane --rank "$rank" \
                        --ranks $workers -b 1M -e 1M -n 4 -w 1 --json "$dir/json$rank" "$@"
        done
        wait_ranks && cp "$dir/json0" "$dir/json" && none_wrong
        summed=$?
        stop
        return $summed
}

exact() { # NAME ADDRESS LISTEN SWITCH_FLAGS...
        name=$1 address=$2 listen=$3
        shift 3
        # shellcheck disable=SC2086  # words are wanted
        start_switch "$listen" $plane "$@" && sum "$address"
        result=$?
        by_plane=$(counter by_plane)
        if [ $result -eq 0 ] && [ "${by_plane:-0}" -lt 2000 ]; then
                echo "# by_plane=$by_plane: expected the contributions"
                result=1
        fi
        report "$name" $result "$dir/rank0" "$dir/switch"
}

# The switch must end by itself, with exit code CODE and a line that has TEXT.
refused() { # NAME CODE TEXT SWITCH_FLAGS...
        name=$1 code=$2 text=$3
        shift 3
        ip netns exec "$prefix-sw" timeout 5 "$fanin" switch --listen $v4 "$@" >"$dir/refused" 2>&1
        [ $? -eq "$code" ] && grep -q -e "$text" "$dir/refused"
        report "$name" $? "$dir/refused"
}

finish_sums off
exact "IPv4, multicast" $v4 $v4
exact "IPv4, unicast" $v4 $v4 --no-multicast
exact "IPv6" "$v6" "$v6"
exact "every interface" $v4 0.0.0.0:$port
exact "every interface, IPv4 at an IPv6 socket" $v4 "[::]:$port"
exact "shared slots" $v4 $v4 --policy atp
lose
exact "2 % loss both ways" $v4 $v4
keep

# What the plane does not see comes by the sockets.
start_switch $v4 --plane xdp --interface p0 && sum $v4
report "interfaces without the plane" $? "$dir/rank1" "$dir/switch"

# shellcheck disable=SC2086  # words are wanted
start_switch $v4 $plane && attached
was_attached=$?
# shellcheck disable=SC2086  # words are wanted
kill -KILL $pids 2>/dev/null # `ip netns exec` has become the program
for _ in $(seq 40); do
        attached || break
        sleep 0.05
done
[ $was_attached -eq 0 ] && ! attached
report "killed, it leaves nothing attached" $? "$dir/switch"
stop

# As a service has it: no root, and no capability but those of the unit and its drop-in.  The drop-in
# also lifts the limit of locked memory, which not every root may; one interface needs half of this.
units=$here/../../share/systemd
capabilities=$(sed -n 's/^AmbientCapabilities=//p' "$units/fanin-switch.service" "$units/fanin-switch-xdp.conf" |
        tr ' \n' ',,' | sed 's/CAP_/+/g; s/,$//' | tr '[:upper:]' '[:lower:]')
as_service() { # INTERFACES
        start sw switch prlimit --memlock=8388608 setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
                --bounding-set "-all,$capabilities" --inh-caps "-all,$capabilities" --ambient-caps "-all,$capabilities" \
                "$fanin" switch --listen $v4 --plane xdp --interface "$1"
        pids="$pids $!"
        wait_listening $! switch
}
as_service p0 && sum $v4 && [ "$(counter by_plane)" -ge 600 ]
report "as a service with its drop-in" $? "$dir/switch"
! as_service p0,p1,p2 && grep -q 'LimitMEMLOCK' "$dir/switch"
report "too little memory may be locked" $? "$dir/switch"
stop

finish_sums on
# shellcheck disable=SC2086  # words are wanted
start_switch $v4 $plane
start_rank 0 "$fanin" bench --switch $v4 --job dry --rank 0 --ranks 2 --timeout 2000 -b 1K -e 1K
wait_ranks
grep -q 'ethtool -K IF tx off' "$dir/switch"
report "checksums that no device finishes are named" $? "$dir/switch"
stop
finish_sums off

refused "no such interface" 1 'there is no such interface' --plane xdp --interface eth7
refused "no interface named" 2 'expected with --interface' --plane xdp
refused "an interface without a plane" 2 'expected with --plane' --interface p0
refused "frames that do not fit" 1 'choose an --mtu' --plane xdp --interface p0 --mtu 9000
refused "more threads than queues" 1 'start with --threads 1' --plane xdp --interface p0 --threads 2
ip -n "$prefix-sw" link set p2 down
refused "an interface that is down" 1 'the interface is down' --plane xdp --interface p2
ip -n "$prefix-sw" link set p2 up
start_switch $v4 --plane xdp --interface p0
refused "a program already attached" 1 'another program has it' --listen 10.77.0.254:7099 --plane xdp --interface p0
stop
start_switch $v4 --plane auto --interface eth7 && grep -q 'sockets alone: eth7' "$dir/switch" && sum $v4
report "auto goes on with sockets" $? "$dir/switch"

summary
