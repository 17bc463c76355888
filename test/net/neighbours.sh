#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Who is on the same link says where addresses and groups are, between network namespaces (netns.sh draws
# them): 0 and 1 have ranks, 2 a stranger, who sends what forge_neighbour.py makes: ARP replies, neighbour
# advertisements, and queries of IGMP and MLD.
#
#     away        host 0 is told that the switch is at the stranger's: both ranks end, and name the switch
#                 or rank 0
#     back        the switch, which has no group, is told that host 0 is there: the same
#     through     both are told so, and the stranger passes on what comes: the job goes on
#     refused     as `away` and `back`, where the kernels have permanent neighbours: the job goes on
#     group       from some moment on, no result by the group reaches host 0: the job goes on
#     snooping    the switch's bridge listens to IGMP and MLD, and is told that nobody hears the job's group,
#                 so that it passes results on to the stranger alone: the switch gives up the group, and the
#                 job goes on
#
# No sum is wrong in any.  Whether the kernel has believed it is looked at: otherwise the drill has shown
# nothing.
#
#     test/net/neighbours.sh [-k KINDS] [FANIN]    KINDS: words as above (all)
#
# Prints one line a drill and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/forging.sh
. "$here/forging.sh"

prefix=fanin-nb-$$
kinds="away back through refused group snooping"
kinds_of "$@"
shift $((OPTIND - 1))

addresses() { # 4|6
        case $1 in
        4) sw=10.77.0.254 host0=10.77.0.1 listen=$sw:$PORT ;;
        6) sw=fd77::fe host0=fd77::1 listen="[$sw]:$PORT" ;;
        esac
}

device_of() { # NAMESPACE
        case $1 in sw) echo br0 ;; *) echo eth0 ;; esac
}

mac_of() { # NAMESPACE
        ip netns exec "$prefix-$1" cat "/sys/class/net/$(device_of "$1")/address"
}

address_of() { # NAMESPACE
        case $1 in sw) echo "$sw" ;; *) echo "$host0" ;; esac
}

# Tell NAMESPACE that the other one's address is at the stranger's.
forge() { # NAMESPACE OTHER
        ip netns exec "$prefix-w2" "$here/forge_neighbour.py" --device eth0 --to "$(address_of "$1")" \
                --to-mac "$(mac_of "$1")" --claim "$(address_of "$2")" >"$dir/forged" 2>&1 ||
                { echo "# forge_neighbour.py: $(cat "$dir/forged")"; return 1; }
}

# Where NAMESPACE sends to the other one.
is_led() { # NAMESPACE OTHER
        ip -n "$prefix-$1" neigh show to "$(address_of "$2")" | grep -q "$(mac_of w2)"
}

believed() { # NAMESPACE OTHER
        is_led "$@" || { echo "# $1 did not believe where $2 is" | tee "$dir/late"; return 1; }
}

permanent() { # NAMESPACE OTHER
        ip -n "$prefix-$1" neigh replace "$(address_of "$2")" lladdr "$(mac_of "$2")" \
                dev "$(device_of "$1")" nud permanent
}

# A new namespace may have what this machine has.
stranger_passes_on() { # 0|1
        for knob in net.ipv4.ip_forward=$1 net.ipv6.conf.all.forwarding=$1 net.ipv4.conf.all.send_redirects=0 \
                net.ipv4.conf.eth0.send_redirects=0; do
                ip netns exec "$prefix-w2" sysctl -qw $knob
        done
}

begin_job() { # FLAGS...
        stop
        for space in sw w0 w1 w2; do
                for address in $sw $host0; do # permanent ones too
                        ip -n "$prefix-$space" neigh del "$address" dev "$(device_of $space)" 2>/dev/null
                done
        done
        start_switch "$listen" || { echo "# no switch: $(cat "$dir/switch")"; return 1; }
        for rank in 0 1; do
                start_rank $rank "$fanin" bench --switch "$listen" --job job --rank $rank --ranks 2 -b 1M -w 0 \
                        --alive 2000 --timeout 20000 --json "$dir/json$rank" "$@"
        done
        wait_said
        sleep 0.3
}

goes_on() {
        wait_ranks && mv "$dir/json0" "$dir/json" && none_wrong
}

# Both have ended, each with a sentence that has NAMES, an extended expression.
both_end() { # NAMES
        bad=0
        for rank in 0 1; do
                wait "$(id_of $rank)"
                code=$?
                if [ $code -ne 1 ] || grep -q 'expected' "$dir/rank$rank" ||
                        ! grep -Eq "$1" "$dir/rank$rank"; then
                        echo "# rank $rank: exit code $code"
                        bad=1
                fi
        done
        ranks=
        return $bad
}

away() {
        stranger_passes_on 0
        begin_job -n 100000 && forge w0 sw && believed w0 sw &&
        both_end "the switch .* stopped answering|rank 0 stopped answering"
}

back() {
        stranger_passes_on 0
        keys multicast=0 && begin_job -n 100000 && forge sw w0 && believed sw w0 &&
        both_end "the switch .* stopped answering|rank 0 lost the switch .*, which answers this rank"
}

through() {
        stranger_passes_on 1
        before=$(received)
        begin_job --seconds $((5 * factor)) && forge w0 sw && believed w0 sw && forge sw w0 && believed sw w0 &&
        goes_on && [ "$(received)" -gt $((before + 1000)) ]
}

# Packets that have come to the stranger.
received() {
        ip netns exec "$prefix-w2" cat /sys/class/net/eth0/statistics/rx_packets
}

refused() {
        begin_job --seconds $((5 * factor)) && permanent w0 sw && permanent sw w0 && forge w0 sw && forge sw w0 &&
        ! is_led w0 sw && ! is_led sw w0 && goes_on
}

group() {
        begin_job --seconds $((3 * factor)) || return 1
        ip netns exec "$prefix-wire" nft -f - <<END
table netdev group {
        chain down { type filter hook ingress device "s0" priority -10;
                ip daddr 224.0.0.0/4 counter drop; ip6 daddr ff00::/8 meta l4proto udp counter drop; }
}
END
        goes_on
        result=$?
        ip netns exec "$prefix-wire" nft list table netdev group | grep -q 'packets [1-9]' ||
                { echo "# no result went by the group" | tee "$dir/late"; result=1; }
        ip netns exec "$prefix-wire" nft delete table netdev group
        return $result
}

snooping() {
        ip -n "$prefix-sw" link set br0 type bridge mcast_snooping 1
        begin_job --seconds $((4 * factor)) && no_more_heard && goes_on
        result=$?
        ip -n "$prefix-sw" link set br0 type bridge mcast_snooping 0
        [ -e "$dir/late" ] || grep -q event=group_off "$dir/switch" ||
                { echo "# the switch did not give up the group" | tee "$dir/late"; result=1; }
        return $result
}

# The bridge has passed the job's group on to both ranks, and then to none.
no_more_heard() {
        group=$(sed -n 's/.*event=job_ready.* group=//p' "$dir/switch" | sed 's/:[0-9]* .*//' | tr -d '[]')
        if [ "$(passed_on_to "$group")" != "p0 p1 " ]; then
                echo "# the bridge passed the group \"$group\" on to \"$(passed_on_to "$group")\"" | tee "$dir/late"
                return 1
        fi
        ip netns exec "$prefix-w2" "$here/forge_neighbour.py" --device eth0 --unheard "$group" >"$dir/forged" 2>&1 ||
                { echo "# forge_neighbour.py: $(cat "$dir/forged")"; return 1; }
        [ -z "$(passed_on_to "$group")" ] ||
                { echo "# the bridge did not believe that nobody hears $group" | tee "$dir/late"; return 1; }
}

passed_on_to() { # GROUP
        bridge -n "$prefix-sw" mdb show dev br0 | awk -v group="$1" '$5 == "grp" && $6 == group { print $4 }' | sort | tr '\n' ' '
}

begin "$@"
fan_net_up "$prefix" 3 200mbit || exit 1
for kind in $kinds; do
        drill "$kind" 4
        drill "$kind" 6
done
summary
