#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One switch and N workers, each in its own network namespace, joined by a
# bridge whose every link is shaped in both directions.
#
#        PREFIX-sw  (the switch's namespace)
#   ┌────────────────────────────────────────────────────────────┐
#   │   br0  10.77.0.254/24  fd77::fe/64   (floods groups)       │
#   │    │                                                       │
#   │    ├── p0 ─────────────┬── p1 ─────── ... ──┬── p(N-1)     │
#   │    │ egress: tbf  ↓    │ egress: tbf  ↓     │              │
#   └────┼───────────────────┼────────────────────┼──────────────┘
#        │ veth              │ veth               │ veth
#   ┌────┼───────────────────┼────────────────────┼──────────────┐
#   │   s0                  s1                   s(N-1)          │
#   │    ↕ nft: fwd          ↕                    ↕   PREFIX-wire│
#   │   w0                  w1                   w(N-1)          │
#   └────┼───────────────────┼────────────────────┼──────────────┘
#        │ veth              │ veth               │ veth
#   ┌────┼───────────┐  ┌────┼───────────┐   ┌────┼───────────┐
#   │    │ egress:   │  │    │ egress:   │   │    │ egress:   │
#   │    │ tbf  ↑    │  │    │ tbf  ↑    │   │    │ tbf  ↑    │
#   │  eth0          │  │  eth0          │   │  eth0          │
#   │ 10.77.0.1/24   │  │ 10.77.0.2/24   │   │ 10.77.0.N/24   │
#   │ fd77::1/64     │  │ fd77::2/64     │   │ fd77::N/64     │
#   └────────────────┘  └────────────────┘   └────────────────┘
#       PREFIX-w0           PREFIX-w1           PREFIX-w(N-1)
#
# A link carries a UDP_SEGMENT or TSO batch whole: tbf charges it for every
# frame's headers but wakes once for it (a wake-up for each frame takes two
# cores to their limit at 16 links of 200 Mb/s).  So BURST must hold a batch:
# 64 KiB and its headers.  A batch shorter than BURST is never cut.
#
# Loss is drawn by nftables on the wire, which hands every frame on from one end to the other.
# nftables sees a batch as ONE packet, and one drop would take all its frames; so on a lossy
# link gso_max_segs is 1, and the kernel cuts each batch into wire frames behind
# tbf and before the drop.  Where they leave the wire, GRO glues those of a batch
# again, as a network card's driver does; veths do so only behind one without TSO.
#
# Run it:     netns.sh up PREFIX N RATE [BURST [LIMIT [MTU]]]
#             netns.sh loss PREFIX PERMILLE        both directions of every link
#             netns.sh noloss PREFIX               and batches whole again
#             netns.sh cut PREFIX                  batches into frames, no loss
#             netns.sh rate PREFIX INDEX RATE      another one for that worker's link
#             netns.sh mark PREFIX INDEX WHICH     CE on that worker's link: "numgen random
#                       mod 1000 < 100", "limit rate over 11 mbytes/second"
#             netns.sh counters PREFIX             "LINK DIRECTION PASSED DROPPED"
#             netns.sh exec PREFIX sw|INDEX COMMAND...
#             netns.sh down PREFIX                 safe to call twice
#             netns.sh check                       SKIPPED and 77, or 0
# or source it (". netns.sh") and call fan_net_up, fan_net_loss, ... likewise.
# RATE is tc's (200mbit) or "none" for links that are not shaped.

FAN_NET_WORKERS_MAX=64
FAN_NET_BURST=70kb      # one batch of 64 KiB with the headers of its 45 frames
FAN_NET_LIMIT=1mb       # the link's queue; a default qdisc holds 1000 frames
FAN_NET_MTU=1500
FAN_NET_SKIP=77         # Meson's and automake's exit code for "skipped"

# Say why namespaces cannot be made here and return 77; 0 when they can.
fan_net_check() {
        if [ "$(id -u)" -ne 0 ]; then
                echo "SKIPPED: needs root"
                return $FAN_NET_SKIP
        fi
        for tool in ip tc nft ethtool; do
                command -v "$tool" >/dev/null 2>&1 || {
                        echo "SKIPPED: needs $tool (Debian: iproute2, nftables, ethtool)"
                        return $FAN_NET_SKIP
                }
        done
        if ! ip netns add "fanin-probe-$$" 2>/dev/null; then
                echo "SKIPPED: network namespaces are not available here"
                return $FAN_NET_SKIP
        fi
        ip netns exec "fanin-probe-$$" true 2>/dev/null
        works=$?
        ip netns del "fanin-probe-$$"
        if [ $works -ne 0 ]; then
                echo "SKIPPED: nothing can be run in a network namespace here"
                return $FAN_NET_SKIP
        fi
}

# The whole topology, or nothing: on any error what was made is removed.
fan_net_up() { # PREFIX N RATE [BURST [LIMIT [MTU]]]
        [ $# -ge 3 ] || { echo "netns.sh: up PREFIX N RATE [BURST [LIMIT [MTU]]]" >&2; return 2; }
        if [ "$2" -lt 1 ] || [ "$2" -gt $FAN_NET_WORKERS_MAX ]; then
                echo "netns.sh: $2 workers: expected 1 to $FAN_NET_WORKERS_MAX" >&2
                return 2
        fi
        if ip netns list | grep -q "^$1-sw\b"; then
                echo "netns.sh: $1 is already up; \"netns.sh down $1\" removes it" >&2
                return 1
        fi
        fan_net__build "$1" "$2" "$3" "${4:-$FAN_NET_BURST}" "${5:-$FAN_NET_LIMIT}" \
                "${6:-$FAN_NET_MTU}" || { fan_net_down "$1"; return 1; }
}

fan_net__build() { # PREFIX N RATE BURST LIMIT MTU
        fan_net__namespace "$1-sw" || return 1
        fan_net__switch "$1-sw" "$6" || return 1
        fan_net__namespace "$1-wire" || return 1
        ip netns exec "$1-wire" sh -c '
                knob=/proc/sys/net/ipv6/conf/default/disable_ipv6
                if [ -w $knob ]; then echo 1 >$knob; fi' || return 1
        i=0
        while [ "$i" -lt "$2" ]; do
                fan_net__namespace "$1-w$i" || return 1
                fan_net__worker "$1" "$i" "$6" || return 1
                if [ "$3" != none ]; then
                        fan_net__shape "$1-w$i" eth0 "$3" "$4" "$5" || return 1
                        fan_net__shape "$1-sw" "p$i" "$3" "$4" "$5" || return 1
                fi
                i=$((i + 1))
        done
        fan_net__wires "$1"
}

# Duplicate address detection off, and no bridged packet through iptables.
fan_net__namespace() { # NAMESPACE
        ip netns add "$1" || return 1
        ip netns exec "$1" sh -c '
                for knob in ipv6/conf/all/accept_dad ipv6/conf/default/accept_dad \
                    bridge/bridge-nf-call-iptables bridge/bridge-nf-call-ip6tables \
                    bridge/bridge-nf-call-arptables; do
                        if [ -w /proc/sys/net/$knob ]; then echo 0 >/proc/sys/net/$knob; fi
                done' || return 1
        ip -n "$1" link set lo up
}

fan_net__switch() { # NAMESPACE MTU
        ip -n "$1" -batch - <<EOF
link add br0 address 02:77:00:00:00:fe mtu $2 type bridge mcast_snooping 0 stp_state 0 forward_delay 0
addr add 10.77.0.254/24 dev br0
addr add fd77::fe/64 dev br0 nodad
link set br0 up
route add 224.0.0.0/4 dev br0
EOF
}

fan_net__worker() { # PREFIX INDEX MTU
        k=$(($2 + 1))
        ip -n "$1-wire" -batch - <<EOF || return 1
link add s$2 mtu $3 type veth peer name p$2 mtu $3 netns $1-sw
link add w$2 mtu $3 type veth peer name eth0 mtu $3 address $(printf 02:77:00:00:00:%02x $k) netns $1-w$2
link set s$2 up
link set w$2 up
EOF
        ip -n "$1-sw" -batch - <<EOF || return 1
link set p$2 master br0
link set p$2 up
EOF
        ip -n "$1-w$2" -batch - <<EOF
addr add 10.77.0.$k/24 dev eth0
addr add fd77::$k/64 dev eth0 nodad
link set eth0 up
route add 224.0.0.0/4 dev eth0
EOF
}

# What comes in at one end of a wire goes out at the other; but WHICH of it, in nftables' words, is
# dropped.
fan_net__wires() { # PREFIX [WHICH]
        {
                echo flush ruleset
                for end in $(fan_net__ports "$1-wire"); do
                        fan_net__wire "$end" "${2-}"
                done
        } | ip netns exec "$1-wire" nft -f -
}

fan_net__wire() { # END WHICH
        case $1 in
        s*) other=w${1#s} ;;
        *) other=s${1#w} ;;
        esac
        cat <<EOF
table netdev fanin_$1 {
        counter dropped { }
        counter passed { }
        chain wire {
                type filter hook ingress device "$1" priority 0;
                ${2:+$2 counter name "dropped" drop}
                counter name "passed" fwd to "$other"
        }
}
EOF
}

fan_net__shape() { # NAMESPACE DEVICE RATE BURST LIMIT
        tc -n "$1" qdisc add dev "$2" root tbf rate "$3" burst "$4" limit "$5"
}

# Every link loses PERMILLE of the frames in each direction, from now on.
fan_net_loss() { # PREFIX PERMILLE
        fan_net_noloss "$1"
        fan_net_cut "$1" || return 1
        fan_net__wires "$1" "numgen random mod 1000 < $2"
}

# The link of one worker has another rate, in both directions.
fan_net_rate() { # PREFIX INDEX RATE [BURST [LIMIT]]
        fan_net__reshape "$1-w$2" eth0 "$3" "${4:-$FAN_NET_BURST}" "${5:-$FAN_NET_LIMIT}" &&
        fan_net__reshape "$1-sw" "p$2" "$3" "${4:-$FAN_NET_BURST}" "${5:-$FAN_NET_LIMIT}"
}

fan_net__reshape() { # NAMESPACE DEVICE RATE BURST LIMIT
        tc -n "$1" qdisc replace dev "$2" root tbf rate "$3" burst "$4" limit "$5"
}

# What leaves the link of worker INDEX, in both directions, says that it met congestion (CE) if
# its sender lets it: WHICH of it, as nftables puts it.  This kernel need have no qdisc that marks.
fan_net_mark() { # PREFIX INDEX WHICH...
        worker=$1-w$2 switch=$1-sw port=p$2
        shift 2
        fan_net__mark "$worker" eth0 "$*" && fan_net__mark "$switch" "$port" "$*"
}

fan_net__mark() { # NAMESPACE DEVICE WHICH
        ip netns exec "$1" nft -f - <<EOF
table netdev fanin_mark_$2 {
        counter marked { }
        chain wire {
                type filter hook ingress device "$2" priority 0; policy accept;
                ip ecn != not-ect $3 counter name "marked" ip ecn set ce
                ip6 ecn != not-ect $3 counter name "marked" ip6 ecn set ce
        }
}
EOF
}

fan_net_noloss() { # PREFIX
        for ns in $(fan_net__list "$1"); do
                ip netns exec "$ns" nft flush ruleset
        done
        fan_net__wires "$1"
        fan_net__segments "$1" 65535 off
}

# Every link carries single frames, as a lossy one does, but loses none.
fan_net_cut() { # PREFIX
        fan_net__segments "$1" 1 on
}

# Batches of at most so many frames; are they glued again?
fan_net__segments() { # PREFIX FRAMES on|off
        for ns in $(fan_net__list "$1"); do
                fan_net__ports "$ns" | while read -r dev; do
                        echo "link set $dev gso_max_segs $2"
                done | ip -n "$ns" -batch - || return 1
                fan_net__offload "$ns" gro "$3" || return 1
        done
}

fan_net__offload() { # NAMESPACE gro|tso|tx on|off
        ip netns exec "$1" sh -c "
                for dev in $(fan_net__ports "$1" | tr '\n' ' '); do
                        ethtool -K \$dev $2 $3 || exit
                done"
}

# One line for each link and direction: "0 up 9900 100".
fan_net_counters() { # PREFIX
        for end in $(fan_net__ports "$1-wire"); do
                case $end in
                s*) way=down ;;
                *) way=up ;;
                esac
                ip netns exec "$1-wire" nft list counters table netdev "fanin_$end" |
                awk -v link="${end#[sw]}" -v way=$way '
                        $1 == "counter" { name = $2 }
                        $1 == "packets" { n[name] = $2 }
                        END { print link, way, n["passed"] + 0, n["dropped"] + 0 }'
        done
}

fan_net_exec() { # PREFIX sw|INDEX COMMAND...
        case $2 in
        sw) ns=$1-sw ;;
        *) ns=$1-w$2 ;;
        esac
        shift 2
        ip netns exec "$ns" "$@"
}

fan_net_down() { # PREFIX
        for ns in "$1-wire" $(fan_net__list "$1"); do
                ip netns del "$ns" 2>/dev/null || :
        done
}

fan_net__list() { # PREFIX
        ip netns list | awk -v prefix="$1" '
                $1 == prefix "-sw" { print $1 }
                index($1, prefix "-w") == 1 &&
                    substr($1, length(prefix) + 3) ~ /^[0-9]+$/ { print $1 }'
}

# The ends of links in NAMESPACE.
fan_net__ports() { # NAMESPACE
        ip -n "$1" -o link show type veth | awk -F': |@' '{ print $2 }'
}

fan_net__main() {
        fan_net_check || exit $?
        case $1 in
        check) ;;
        up | loss | noloss | cut | rate | mark | counters | exec | down) verb=$1; shift; "fan_net_$verb" "$@" ;;
        *) echo "netns.sh: expected check, up, loss, noloss, cut, rate, mark, counters, exec or down" >&2; exit 2 ;;
        esac
}

case ${0##*/} in
netns.sh) fan_net__main "$@" ;;
esac
