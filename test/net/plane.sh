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
rank_timeout_s=300
v4=10.77.0.254:$port
v6="[fd77::fe]:$port"
plane='--plane xdp --interface p0,p1,p2'

begin "$@"
need_xdp
# shellcheck disable=SC2034  # netns.sh uses it
FAN_NET_HOOK=egress # marks, where the plane does not pass them by
fan_net_up "$prefix" $workers none || exit 1

# veth leaves checksums to a device that there is not.
finish_sums() { # on|off
        for space in wire $(seq -f w%g 0 $((workers - 1))); do
                fan_net__offload "$prefix-$space" tx "$1" >/dev/null || exit 1
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
        has_summed "$name" $?
}

# A sum's case holds when its contributions came by the plane.
has_summed() { # NAME RESULT
        name=$1 result=$2
        by_plane=$(counter by_plane)
        if [ "$result" -eq 0 ] && [ "${by_plane:-0}" -lt 2000 ]; then
                echo "# by_plane=$by_plane: expected the contributions"
                result=1
        fi
        report "$name" "$result" "$dir/rank0" "$dir/switch"
}

# The switch must end by itself, with exit code CODE and a line that has TEXT.
refused() { # NAME CODE TEXT SWITCH_FLAGS...
        name=$1 code=$2 text=$3
        shift 3
        ip netns exec "$prefix-sw" timeout 60 "$fanin" switch --listen $v4 "$@" >"$dir/refused" 2>&1
        [ $? -eq "$code" ] && grep -q -e "$text" "$dir/refused"
        report "$name" $? "$dir/refused"
}

sealed() { # NAME ADDRESS
        # shellcheck disable=SC2086  # words are wanted
        FANIN_KEY_FILE='' start_switch "$2" $plane --key "$dir/fabric.key"
        export FANIN_KEY_FILE="$dir/job.key"
        sum "$2" --job tenant/plane && grep -q '^# sealed' "$dir/rank0" &&
                [ "$(counter forged)$(counter replayed)$(counter clear)" = 000 ]
        result=$?
        unset FANIN_KEY_FILE
        has_summed "$1" $result
}

# With marks on all that every worker sends, the switch sees as many as it has datagrams.
every_mark() { # NAME ADDRESS SWITCH_FLAGS...
        name=$1 address=$2
        shift 2
        start_switch "$address" "$@" && sum "$address" &&
                [ "$(counter marked)" -gt 2000 ] && [ "$(counter marked)" -eq "$(counter datagrams_in)" ]
        report "$name" $? "$dir/switch"
}

exact "IPv4, multicast" $v4 $v4
exact "IPv4, unicast" $v4 $v4 --no-multicast
exact "IPv6" "$v6" "$v6"
exact "every interface" $v4 0.0.0.0:$port
exact "every interface, IPv4 at an IPv6 socket" $v4 "[::]:$port"
exact "shared slots" $v4 $v4 --policy atp
fan_net_loss "$prefix" 20
exact "2 % loss both ways" $v4 $v4
fan_net_noloss "$prefix"
"$fanin" key new --out "$dir/fabric.key" && "$fanin" key job tenant --key "$dir/fabric.key" --out "$dir/job.key"
sealed "sealed, IPv4" $v4
sealed "sealed, IPv6" "$v6"
for i in $(seq 0 $((workers - 1))); do
        fan_net_mark "$prefix" "$i"
done
# shellcheck disable=SC2086  # words are wanted
every_mark "every mark is seen, IPv4" $v4 $plane
# shellcheck disable=SC2086  # words are wanted
every_mark "every mark is seen, IPv6" "$v6" $plane
every_mark "as many as by sockets" $v4
fan_net_noloss "$prefix"

# A server, which workers may name as their switch.
start sw switch "$fanin" server --listen $v4 --plane xdp --interface p0,p1,p2
pids=$!
wait_listening $! switch && sum $v4
has_summed "a server" $?

# A driver without XDP of its own.
start_switch $v4 --plane xdp --interface br0 && grep -q 'mode=generic,copy' "$dir/switch" && sum $v4
has_summed "generic mode" $?
# There the kernel joins datagrams (GRO) before the program sees them: the sockets get these.
gro() { # on|off
        for i in $(seq 0 $((workers - 1))); do
                ip netns exec "$prefix-sw" ethtool -K "p$i" gro "$1" >/dev/null || exit 1
        done
}
gro on
start_switch $v4 --plane xdp --interface br0 && sum $v4 && [ "$(counter plane_lost)" -eq 0 ]
report "generic mode, datagrams that the kernel has joined" $? "$dir/rank0" "$dir/switch"
gro off

# What the plane does not see comes by the sockets.
start_switch $v4 --plane xdp --interface p0 && sum $v4
report "interfaces without the plane" $? "$dir/rank1" "$dir/switch"

# shellcheck disable=SC2086  # words are wanted
start_switch $v4 $plane && attached
was_attached=$?
# shellcheck disable=SC2086  # words are wanted
kill -KILL $pids 2>/dev/null # `ip netns exec` has become the program
for _ in $(seq 2400); do
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
start_switch $v4 $plane && sum $v4 && grep -q 'ethtool -K IF tx off' "$dir/switch"
report "datagrams whose checksum is left to a device come by sockets, which is told" $? "$dir/switch"
finish_sums off

# An interface vanishes, with its rank; the others' job runs.
ip -n "$prefix-sw" link add gone type veth peer name other
ip -n "$prefix-sw" link set gone up
start_switch $v4 --plane xdp --interface p0,p1,p2,gone && ip -n "$prefix-sw" link del gone && sum $v4
has_summed "an interface is taken away" $?

# A link that goes and comes back, as a cable does, keeps its program and its queue.
# shellcheck disable=SC2086  # words are wanted
start_switch $v4 $plane && ip -n "$prefix-sw" link set p0 down && sleep 0.2 &&
        ip -n "$prefix-sw" link set p0 up && sum $v4
has_summed "a link goes down and comes back" $?

without_rights() {
        ip netns exec "$prefix-sw" setpriv --bounding-set=-all --inh-caps=-all timeout 60 "$fanin" \
                switch --listen $v4 --plane xdp --interface p0 >"$dir/refused" 2>&1
        [ $? -eq 1 ] && grep -q 'not allowed; run as root, or with CAP_NET_ADMIN' "$dir/refused"
}
without_rights
report "no privileges" $? "$dir/refused"

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
# fanin doctor --interface IF: STATUS CHECK TEXT, for each of them.
doctor_says() { # NAME INTERFACE EXIT-CODE [STATUS CHECK TEXT]...
        name=$1 interface=$2 code=$3
        shift 3
        ip netns exec "$prefix-sw" timeout 100 "$fanin" doctor --interface "$interface" >"$dir/doctor" 2>&1
        [ $? -eq "$code" ]
        result=$?
        while [ $# -gt 0 ]; do
                grep -Eq "^$1 +$2 +.*$3" "$dir/doctor" || { echo "# no line: $1 $2 $3"; result=1; }
                shift 3
        done
        report "doctor: $name" $result "$dir/doctor"
}

ip -n "$prefix-sw" link add large mtu 9000 type bridge
ip -n "$prefix-sw" link add wide numrxqueues 2 numtxqueues 2 type veth peer name narrow
ip netns exec "$prefix-sw" ethtool -L wide rx 2
ip -n "$prefix-sw" link set wide up
doctor_says "a veth" p0 0 ok plane 'p0: native, .*copy, driver veth' ok queues '1 that receives' \
        ok frames 'MTU 1500' ok program 'no XDP program'
doctor_says "two queues" wide 0 ok queues '2 that receive:'
grep -q 'ethtool -N wide flow-type udp4 dst-port .(.PORT + 1.. action 1' "$dir/doctor"
report "doctor: how to steer" $? "$dir/doctor"
doctor_says "large frames, no XDP, down" large 0 warn plane 'generic, copy.*interface is down' \
        warn frames "MTU 9000 is beyond AF_XDP"
start_switch $v4 --plane xdp --interface p0
doctor_says "a program is there" p0 0 warn program 'has XDP program [0-9]'
stop
doctor_says "no such interface" eth7 1 FAIL plane 'there is no interface "eth7"'

start_switch $v4 --plane auto --interface eth7 && grep -q 'sockets alone: eth7' "$dir/switch" && sum $v4
report "auto goes on with sockets" $? "$dir/switch"

summary
