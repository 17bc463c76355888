#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ICMP that somebody forges, between network namespaces (netns.sh draws them): 0 and 1 have ranks, 2 a
# stranger, who knows addresses and, where a drill says so, ports.  It sends what forge_icmp.py makes.
#
# Jobs go on, no sum is wrong, and a job that comes afterwards forms, while
#
#     one            one "fragmentation needed" quotes the switch and a rank, to which results go by
#                    unicast
#     sides          the same at all three, from everybody in turn
#     own            no switch is named: at rank 0's aggregator and at rank 1
#     every-port     at a rank, of whose port nothing is known: all 65,535
#     all            every type and code at all three, for as long as the job runs
#     server         the same between a switch with shared slots and the server behind it
#
# over IPv4 and IPv6 ("packet too big"), open, and sealed if `all`.  After each that forges an MTU, the
# kernel is asked whether it believes it: otherwise the drill has shown nothing.  Then
#
#     redirect       (IPv4) packets reach the switch by a gateway, and a stranger leads them elsewhere:
#                    refused, jobs go on; else the rank's error and doctor tell
#     small, hole    the path really takes 1400, and a router says so, or says nothing: both ranks
#                    end, with the cause
#     server-hole    the same on the path between a switch with shared slots and the server behind it
#     parent-hole    the same on the path between a switch that sums and its parent
#     doctor         tells what a stranger has said of the path from what the path takes
#
#     test/net/icmp.sh [-k KINDS] [FANIN]    KINDS: words as above (all)
#
# Prints one line a drill and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/forging.sh
. "$here/forging.sh"

prefix=fanin-ic-$$
kinds="one sides own every-port all server redirect small hole server-hole parent-hole doctor"
stranger4=10.77.0.99 stranger6=fd77::99
kinds_of "$@"
shift $((OPTIND - 1))

addresses() { # 4|6
        family=$1
        case $family in
        4) sw=10.77.0.254 host0=10.77.0.1 host1=10.77.0.2 stranger=$stranger4 ;;
        6) sw='[fd77::fe]' host0='[fd77::1]' host1='[fd77::2]' stranger=$stranger6 ;;
        esac
}

forge() { # FLAGS...
        ip netns exec "$prefix-w2" "$here/forge_icmp.py" --from "$stranger" "$@" >"$dir/forged" 2>&1 ||
                { echo "# forge_icmp.py: $(cat "$dir/forged")"; return 1; }
}

# What the kernel of a namespace believes of a path, from now on.
believed() { # NAMESPACE ADDRESS
        ip -n "$prefix-$1" route get "$(echo "$2" | tr -d '[]')" | grep -q 'mtu \(lock \)\?[0-9]' ||
                { echo "# $1 did not believe what was said of $2" | tee "$dir/late"; return 1; }
}

forget() {
        for space in sw w0 w1; do
                ip -n "$prefix-$space" route flush cache
                ip -n "$prefix-$space" -6 route flush cache
        done
}

# The port from which the rank in NAMESPACE sends to PORT.
port_to() { # NAMESPACE PORT
        ip netns exec "$prefix-$1" cat /proc/net/udp /proc/net/udp6 |
        awk -v port="$(printf %04X "$2")" '
                { split($3, to, ":"); split($2, from, ":") }
                to[2] == port && !found { print from[2]; found = 1 }' | {
                read -r hex && echo $((0x$hex))
        }
}

# Two ranks, with FLAGS, until $dir/rank0 says that they have joined.
begin_job() { # FLAGS...
        for rank in 0 1; do
                start_rank $rank "$fanin" bench --job "${tenant:-}job" --rank $rank --ranks 2 -b 1M -w 0 \
                        --timeout 8000 --json "$dir/json$rank" "$@"
        done
        wait_said
        sleep 0.3
}

# It ends well, and so does one that comes after it.
goes_on() { # FLAGS...
        wait_ranks && mv "$dir/json0" "$dir/json" && none_wrong || return
        begin_job -n 2 "$@"
        wait_ranks && mv "$dir/json0" "$dir/json" && none_wrong && return
        echo "# the next job"
        return 1
}

switch_there() { # FLAGS...
        stop
        forget
        start_switch "$sw:$PORT" "$@" || { echo "# no switch: $(cat "$dir/switch")"; return 1; }
}

one() {
        switch_there && keys multicast=0 && begin_job --switch "$sw:$PORT" --seconds $((2 * factor)) &&
        forge --to "$sw:$PORT" --peer "$host0:9" --kinds mtu --mtu 1280 --count 1 &&
        believed sw "$host0" && goes_on --switch "$sw:$PORT"
}

sides() {
        switch_there && keys multicast=0 && begin_job --switch "$sw:$PORT" --seconds $((2 * factor)) &&
        forge --to "$sw:$PORT" --peer "$host0:$(port_to w0 $PORT)" \
                --to "$sw:$PORT" --peer "$host1:$(port_to w1 $PORT)" \
                --to "$host0:$(port_to w0 $PORT)" --peer "$sw:$PORT" \
                --to "$host1:$(port_to w1 $PORT)" --peer "$sw:$PORT" --kinds mtu --count 400 &&
        believed sw "$host0" && believed w0 "$sw" && believed w1 "$sw" &&
        goes_on --switch "$sw:$PORT"
}

own() {
        stop
        forget
        export MASTER_ADDR="$host0" MASTER_PORT=$PORT
        begin_job --seconds $((2 * factor)) &&
        forge --to "$host0:$PORT" --peer "$host1:$(port_to w1 $PORT)" \
                --to "$host1:$(port_to w1 $PORT)" --peer "$host0:$PORT" --kinds mtu --count 200 &&
        believed w0 "$host1" && believed w1 "$host0" && goes_on
        result=$?
        unset MASTER_ADDR MASTER_PORT
        return $result
}

every_port() {
        switch_there && keys multicast=0 && begin_job --switch "$sw:$PORT" --seconds $((6 * factor)) &&
        forge --to "$host1:1" --peer "$sw:$PORT" --kinds mtu --mtu 1280 --every-port --count 65535 --rate 20000 &&
        believed w1 "$sw" && goes_on --switch "$sw:$PORT"
}

all() { # FLAGS... of the switch
        switch_there "$@" && begin_job --switch "$sw:$PORT" --seconds $((3 * factor)) &&
        forge --to "$sw:$PORT" --peer "$host0:$(port_to w0 $PORT)" \
                --to "$host0:$(port_to w0 $PORT)" --peer "$sw:$PORT" \
                --to "$host1:$(port_to w1 $PORT)" --peer "$sw:$PORT" --seconds $((3 * factor)) &&
        believed sw "$host0" && believed w0 "$sw" && believed w1 "$sw" && goes_on --switch "$sw:$PORT"
}

sealed() {
        "$fanin" key new --out "$dir/fabric" >/dev/null && "$fanin" key job alice --key "$dir/fabric" \
                --out "$dir/alice" >/dev/null || return 1
        export FANIN_KEY_FILE="$dir/alice"
        tenant=alice/
        all --key "$dir/fabric"
        result=$?
        unset FANIN_KEY_FILE tenant
        return $result
}

# The server is where the stranger would be, who is at the second rank's host then.
server_there() {
        at=$(echo "$host0" | sed 's/1\(]\?\)$/3\1/')
        start w2 server "$fanin" server --listen "$at:$PORT"
        pids=$!
        wait_listening $! server && start_switch "$sw:$PORT" --policy atp --server "$at:$PORT"
}

server() {
        stop
        forget
        server_there || return 1
        begin_job --switch "$sw:$PORT" --seconds $((3 * factor)) &&
        forge --to "$sw:$PORT" --peer "$at:$PORT" --to "$at:$PORT" --peer "$sw:$PORT" --seconds $((3 * factor)) &&
        forge --to "$sw:$PORT" --peer "$at:$PORT" --to "$at:$PORT" --peer "$sw:$PORT" --kinds mtu --count 8 &&
        believed sw "$at" && believed w2 "$sw" && goes_on --switch "$sw:$PORT"
}

# Host 0 reaches address $far of the switch by host 1, and the stranger has it go by its own.
far=10.79.0.1

takes_redirects() { # 0|1
        for knob in all eth0; do
                echo "$1" | ip netns exec "$prefix-w0" tee "/proc/sys/net/ipv4/conf/$knob/accept_redirects" >/dev/null
        done
}

redirect() {
        stop
        forget
        ip -n "$prefix-sw" addr replace $far/32 dev lo
        for knob in ip_forward=1 conf.all.send_redirects=0 conf.eth0.send_redirects=0; do
                echo "${knob#*=}" | ip netns exec "$prefix-w1" \
                        tee "/proc/sys/net/ipv4/$(echo "${knob%=*}" | tr . /)" >/dev/null
        done
        ip -n "$prefix-w1" route replace $far via 10.77.0.254
        ip -n "$prefix-w0" route replace $far via 10.77.0.2
        sw=$far
        led() { # FLAGS...: of a job that is led elsewhere as far as the kernel lets it
                switch_there && begin_job --switch $far:$PORT --alive 1500 "$@" &&
                forge --from 10.77.0.2 --gateway 10.77.0.3 --kinds 5/1 --count 20 --rate 40 \
                        --to "$host0:$(port_to w0 $PORT)" --peer $far:$PORT
        }
        takes_redirects 0
        led --seconds $((3 * factor)) && advice 0 && wait_ranks && mv "$dir/json0" "$dir/json" && none_wrong || return
        grep -q ' redirects ' "$dir/doctor0" && return 1
        takes_redirects 1
        led -n 100000 || return
        ip -n "$prefix-w0" route get $far | grep -q redirected || { echo "# host 0 was not led" | tee "$dir/late"; return 1; }
        advice 1
        stop # on another processor the kernel may have gone on by the old route: so a rank that comes
        start_rank 0 "$fanin" bench --switch $far:$PORT --job later --rank 0 --ranks 2 --timeout 2000
        wait_ranks
        grep -qF "an ICMP redirect, which can be forged, leads packets to it by 10.77.0.3" "$dir/rank0" &&
        grep -q '^warn  *redirects .*take gateway 10.77.0.3 .*ICMP redirect' "$dir/doctor1"
}

# What doctor says, of a switch that may not answer.
advice() { # NUMBER
        ip netns exec "$prefix-w0" timeout 200 "$fanin" doctor --switch $far:$PORT --no-join --timeout 5 >"$dir/doctor$1" 2>&1
        return 0
}

# ---- a path that is small ------------------------------------------------------

# What leaves the bridge for host 1, and comes from there, goes through this filter.
longer_than_1400() { # nftables' verdict, [HOST]
        set -- "$1" "${2:-1}"
        ip netns exec "$prefix-wire" nft -f - <<END
table netdev small {
        chain up { type filter hook ingress device "w$2" priority -10; meta length > 1400 $1; }
        chain down { type filter hook ingress device "s$2" priority -10; meta length > 1400 $1; }
}
END
}

# A stranger says the truth, once the job runs: the ranks need not wait to find out how much passes.
small() {
        hole "forge --to $host1:@ --peer $sw:$PORT --kinds mtu --mtu 1400 --count 1" \
                "router takes 1400: set the mtu of all ranks to at most that"
}

# All ranks end, and packets of every length pass again; `bad`: one ended otherwise.
end_small() { # [RANK...]
        bad=0
        [ $# -gt 0 ] || set -- 0 1
        for rank in "$@"; do
                wait "$(id_of "$rank")"
                [ $? -eq 1 ] || { echo "# rank $rank has another exit code"; bad=1; }
        done
        ranks=
        ip netns exec "$prefix-wire" nft delete table netdev small
        fan_net_noloss "$prefix"
}

hole() { # [COMMAND TEXT]
        switch_there && fan_net_cut "$prefix" && longer_than_1400 drop || return 1
        begin_job --switch "$sw:$PORT" -n 5
        if [ $# -gt 0 ]; then
                # shellcheck disable=SC2046  # words are wanted
                set -- "$2" $(echo "$1" | sed "s/@/$(port_to w1 $PORT)/")
                text=$1
                shift
                "$@" || return 1
        else
                text="give all ranks a smaller mtu"
        fi
        end_small
        grep -qF "$text" "$dir/rank1" || cp "$dir/rank1" "$dir/late"
        grep -qF "the path to the switch $sw:$PORT loses packets of " "$dir/rank1" && grep -qF "$text" "$dir/rank1" &&
        grep -q "packets of rank 1 do not fit its path to the switch" "$dir/rank0" && [ $bad -eq 0 ]
}

# A switch whose path to the server loses large packets, which no rank can see.
server_hole() {
        stop
        forget
        server_there && fan_net_cut "$prefix" && longer_than_1400 drop 2 || return 1
        begin_job --switch "$sw:$PORT" -n 5 --timeout 30000
        end_small
        for rank in 0 1; do
                grep -q "get lost between the switch .* and where it sends sums on" "$dir/rank$rank" || bad=1
        done
        grep -q 'event=warning .*loses packets of 1444 bytes' "$dir/switch" && [ $bad -eq 0 ]
}

# Of a tree of two below one, with two ranks each; the other one's path is whole.
parent_hole() {
        stop
        forget
        top=$(echo "$host0" | sed 's/1\(]\?\)$/3\1/') bad=0
        start w2 parent "$fanin" switch --listen "$top:$PORT"
        pids=$!
        wait_listening $! parent && fan_net_cut "$prefix" && longer_than_1400 drop 0 || return 1
        start w0 child "$fanin" switch --listen "$host0:$PORT" --parent "$top:$PORT" --child 0/2
        pids="$pids $!"
        wait_listening $! child && start_switch "$sw:$PORT" --parent "$top:$PORT" --child 1/2 || return 1
        for rank in 0 1 2 3; do
                [ $rank -lt 2 ] && below=$host0 || below=$sw
                start "w$((rank / 2))" "rank$rank" timeout -k 2 "$rank_timeout_s" "$fanin" bench \
                        --switch "$below:$PORT" --job job --rank $((rank % 2)) --ranks 2 \
                        --tree $((rank / 2 * 2))/4 -b 1M -n 5 --timeout 30000
                ranks="$ranks $!"
        done
        end_small 0 1 2 3
        for rank in 0 1; do
                grep -q "get lost between the switch .* and where it sends sums on" "$dir/rank$rank" || bad=1
        done
        grep -q 'event=warning .*loses packets of 1444 bytes' "$dir/child" && [ $bad -eq 0 ]
}

# What doctor says of a path about which a stranger has lied.
doctor() {
        switch_there && begin_job --switch "$sw:$PORT" -n 100000 &&
        forge --to "$host0:$(port_to w0 $PORT)" --peer "$sw:$PORT" --kinds mtu --mtu 1300 --count 1 &&
        believed w0 "$sw" &&
        ip netns exec "$prefix-w0" timeout 200 "$fanin" doctor --switch "$sw:$PORT" --no-join >"$dir/rank0" 2>&1 &&
        grep -q '^warn  *mtu .*1300' "$dir/rank0" && ! grep -q 'ip link set' "$dir/rank0"
}

begin "$@"
fan_net_up "$prefix" 3 200mbit || exit 1
for kind in $kinds; do
        drill "$kind" 4
        [ "$kind" = redirect ] || drill "$kind" 6
        [ "$kind" != all ] || { drill sealed 4; drill sealed 6; }
done
summary
