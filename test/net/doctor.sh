#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `fanin doctor` between network namespaces, over links whose illness is known:
# does it find that one, name its cure, and does the cure help?
#
#     test/net/doctor.sh [FANIN]             FANIN: the program (build/fanin)
#
#   ┌───────────┐         ┌──────────────────┐         ┌───────────┐
#   │ PREFIX-w0 │ 9000    │ PREFIX-mid       │ MIDDLE  │ PREFIX-sw │
#   │      eth0 ├─────────┤ w0           sw  ├─────────┤ eth0      │
#   │ 10.78.0.1 │         │ .0.2        .1.2 │         │ 10.78.1.1 │
#   │ fd78:0::1 │         │  router          │         │ fd78:1::1 │
#   └───────────┘         └──────────────────┘         └───────────┘
#
# Loss is drawn by nftables where packets enter the router from the worker.
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces
# cannot be made here (SKIPPED says why).  Takes about half a minute.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-doc-$$
other_namespaces=mid
port=7080
limit_s=300

# ---- the network -------------------------------------------------------------

# Both directions of what was forwarded are 1500 or 9000 but for `middle` below.
build() {
        for ns in w0 mid sw; do
                ip netns add "$prefix-$ns" || return 1
                ip netns exec "$prefix-$ns" sh -c '
                        for knob in all default; do
                                echo 0 >/proc/sys/net/ipv6/conf/$knob/accept_dad
                        done
                        ip link set lo up'
        done
        ip -n "$prefix-mid" link add w0 mtu 9000 type veth peer name eth0 mtu 9000 \
                netns "$prefix-w0" &&
        ip -n "$prefix-mid" link add sw mtu 9000 type veth peer name eth0 mtu 9000 \
                netns "$prefix-sw" &&
        ends w0 w0 0 && ends sw sw 1 || return 1
        ip netns exec "$prefix-mid" sh -c '
                echo 1 >/proc/sys/net/ipv4/ip_forward
                echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
}

ends() { # NAMESPACE ROUTERDEVICE SUBNET
        ip -n "$prefix-mid" -batch - <<EOF || return 1
addr add 10.78.$3.2/24 dev $2
addr add fd78:$3::2/64 dev $2 nodad
link set $2 up
EOF
        ip -n "$prefix-$1" -batch - <<EOF
addr add 10.78.$3.1/24 dev eth0
addr add fd78:$3::1/64 dev eth0 nodad
link set eth0 up
route add default via 10.78.$3.2
route add fd78::/16 via fd78:$3::2
EOF
}

middle() { # MTU: of the link between router and switch
        ip -n "$prefix-mid" link set sw mtu "$1" && ip -n "$prefix-sw" link set eth0 mtu "$1"
        for ns in w0 sw; do # what a case before has taught the kernel
                ip -n "$prefix-$ns" route flush cache
                ip -n "$prefix-$ns" -6 route flush cache
        done
}

# Frames instead of batches, which nftables would see, and drop, as one packet.
batches() { # FRAMES: the most of one batch
        for ns in w0 sw; do
                ip -n "$prefix-$ns" link set eth0 gso_max_segs "$1" || return 1
        done
}

rule() { # NFT_RULE...: for what the router forwards
        batches 1
        ip netns exec "$prefix-mid" nft -f - <<EOF
flush ruleset
table inet t {
        chain c {
                type filter hook forward priority 0; policy accept;
                $*
        }
}
EOF
}

no_rules() {
        ip netns exec "$prefix-mid" nft flush ruleset
        batches 65535
}

# ---- the cases ---------------------------------------------------------------

fresh_switch() { # ADDRESS FLAGS...
        stop
        start_switch "$@" || {
                echo "# the switch does not start: $(cat "$dir/switch")"
                return 1
        }
}

verdict() { # NAME RESULT(0: ok): with all that the doctor said when not
        report "$1" "$2" || sed 's/^/#   /' "$dir/out"
}

# The doctor's text in $dir/out, its findings in $dir/json, its status in $rc.
doctor() { # FLAGS... or VARIABLE=VALUE FLAGS...
        rm -f "$dir/json"
        ip netns exec "$prefix-w0" timeout -k 2 $limit_s env "$@" \
                --json "$dir/json" >"$dir/out" 2>&1
        rc=$?
}

is() { # CHECK STATUS[|STATUS] [TEXT]: the line of CHECK; TEXT anywhere in it or in what to do
        awk -v name="$1" -v status="$2" -v text="${3-}" '
                /^(ok|warn|FAIL|skip) / { mine = $2 == name; if (mine && index("|" status "|", "|" $1 "|")) found = 1 }
                mine && index($0, text) { told = 1 }
                END { exit !(found && told) }' "$dir/out" || {
                echo "# expected $1 to be $2${3:+, with \"$3\"}"
                return 1
        }
}

ends_with() { # STATUS VERDICT
        if [ "$rc" -ne "$1" ] || ! tail -n 1 "$dir/out" | grep -q "^$2"; then
                echo "# expected status $1 and \"$2\", got status $rc"
                return 1
        fi
}

good_path() { # ADDRESS
        fresh_switch "$1" && doctor "$fanin" doctor --switch "$1" &&
        is switch ok "$1" && is version ok && is rtt "ok|warn" && is fragments "ok|warn" " 0 of" &&
        is mtu ok "packets of 1500 bytes pass in both directions" && is sum ok " 0 elements wrong" &&
        trips_rise && is burst ok " 0 lost" && is multicast warn "behind a router" &&
        ends_with 0 "aggregation can work: " && json_has '"fails": false'
}

# The least round trip, the median and the longest of a hundred.
trips_rise() {
        sed -n 's/.* rtt min \([0-9.]*\) p50 \([0-9.]*\) p99 \([0-9.]*\) ms.*/\1 \2 \3/p' "$dir/out" |
                awk '{ ok = $1 <= $2 && $2 <= $3 && $1 < $3 } END { exit !ok }' || { echo "# times do not rise"; return 1; }
}

json_has() { # TEXT
        grep -qF "$1" "$dir/json" || { echo "# expected $1 in the JSON"; return 1; }
}

absent() {
        stop
        doctor "$fanin" doctor --switch 10.78.1.1:$port
        is switch FAIL "nothing listens on UDP port $port" && is sum skip &&
        ends_with 1 "aggregation cannot work: switch does not answer" && json_has '"fails": true'
}

firewalled() {
        fresh_switch 10.78.1.1:$port && rule udp dport $port drop &&
        { doctor "$fanin" doctor --switch 10.78.1.1:$port; no_rules; } &&
        is switch FAIL "10.78.1.1:$port answered none of" &&
        ends_with 1 "aggregation cannot work: switch does not answer"
}

# One shard's port is shut: a worker would wait for it in vain.
shard_shut() {
        fresh_switch 10.78.1.1:$port --threads 3 && rule udp dport $((port + 1)) drop &&
        { doctor "$fanin" doctor --switch 10.78.1.1:$port --timeout 8; no_rules; } &&
        is shards FAIL "silent: $((port + 1))" && is sum skip &&
        ends_with 1 "aggregation cannot work"
}

lossy() {
        fresh_switch 10.78.1.1:$port && rule numgen random mod 1000 \< 50 drop &&
        { doctor "$fanin" doctor --switch 10.78.1.1:$port --count 400; no_rules; } &&
        is rtt warn "ip -s link show dev eth0" && is fragments warn &&
        is mtu ok "packets of 1500 bytes pass in both directions" && is sum ok " 0 elements wrong" &&
        ends_with 0 "aggregation can work: " && loss_is 2 25
}

# The NIC hands over single frames: the cure that the doctor names is taken.
no_gro() {
        fresh_switch 10.78.1.1:$port && batches 1 && doctor "$fanin" doctor --switch 10.78.1.1:$port &&
        is burst warn "ethtool -K eth0 gro on" || return 1
        if command -v ethtool >/dev/null; then
                ip netns exec "$prefix-w0" ethtool -K eth0 gro on &&
                doctor "$fanin" doctor --switch 10.78.1.1:$port
                ip netns exec "$prefix-w0" ethtool -K eth0 gro off
        fi
        batches 65535
        command -v ethtool >/dev/null || return 0
        # a busy machine may lose some of the burst: then there is other advice
        is burst "ok|warn" " lost" && ! grep -F "gro on" "$dir/out"
}

# Of 400 packets, 5 % in each direction: about 10 %.
loss_is() { # PERCENT_MIN PERCENT_MAX
        awk -v low="$1" -v high="$2" '
                $2 == "fragments" { sub(/.*\(/, ""); ok = $1 + 0 >= low && $1 + 0 <= high }
                END { exit !ok }' "$dir/out" || { echo "# loss is not $1 to $2 %"; return 1; }
}

# One time in a hundred none of its first ten questions is answered: then it asks no more.
hopeless() {
        for _ in 1 2 3; do
                fresh_switch 10.78.1.1:$port && rule numgen random mod 1000 \< 400 drop &&
                { doctor "$fanin" doctor --switch 10.78.1.1:$port --no-join; no_rules; } || return 1
                ! is switch ok >/dev/null || break
        done
        is rtt FAIL && ends_with 1 "aggregation cannot work: packets of"
}

# The router says what it takes; with the cure, all is well.
small_middle() { # ADDRESS
        middle 1400 && fresh_switch "$1" && doctor "$fanin" doctor --switch "$1" &&
        is mtu FAIL "the largest that passes has 1400" && is mtu FAIL "export FANIN_MTU=1400" &&
        is fragments "ok|warn" " 0 of" && ends_with 1 "aggregation cannot work: fragments for MTU 1500" &&
        doctor FANIN_MTU=1400 "$fanin" doctor --switch "$1" && is mtu ok && is sum ok &&
        ends_with 0 "aggregation can work"
}

# Nobody says anything: what is too large just vanishes, in one direction.
black_hole() { # SADDR(of what vanishes) TEXT
        middle 9000
        fresh_switch 10.78.1.1:$port &&
        rule ip saddr "$1" meta length \> 1333 drop &&
        { doctor "$fanin" doctor --switch 10.78.1.1:$port; no_rules; } &&
        is mtu FAIL "$2" && is mtu FAIL "the largest that passes has 1333" &&
        is mtu FAIL "export FANIN_MTU=1333" && is burst warn " 0 lost" && is sum ok " 0 elements wrong" &&
        ends_with 1 "aggregation cannot work: fragments for MTU 1500"
}

jumbo() {
        middle 9000
        fresh_switch 10.78.1.1:$port --mtu 9000 && doctor "$fanin" doctor --switch 10.78.1.1:$port &&
        is mtu ok "packets of 9000 bytes pass" && is mtu ok "export FANIN_MTU=9000" &&
        doctor FANIN_MTU=9000 "$fanin" doctor --switch 10.78.1.1:$port &&
        is mtu ok "FANIN_MTU is 9000" && is fragments "ok|warn" "packets of 8896 bytes" &&
        is sum ok && ends_with 0 "aggregation can work"
}

# The path takes 9000, but the switch was not told.
small_slots() {
        middle 9000
        fresh_switch 10.78.1.1:$port && doctor FANIN_MTU=9000 "$fanin" doctor --switch 10.78.1.1:$port &&
        is mtu FAIL "slots are for 1500" && is mtu FAIL "fanin switch --listen 10.78.1.1:$port --mtu 9000" &&
        ends_with 1 "aggregation cannot work: the path takes MTU 9000" &&
        fresh_switch 10.78.1.1:$port --mtu 1600 && doctor FANIN_MTU=9000 "$fanin" doctor --switch 10.78.1.1:$port &&
        is mtu FAIL "slots are for 1564" # of whole blocks, the largest in 1600
}

# Somebody answers, in version 2 of the protocol, as section 5.6 wants it.
other_version() {
        stop
        : >"$dir/switch"
        PYTHONPATH=$here/../interop ip netns exec "$prefix-sw" timeout $limit_s python3 - $port \
                >"$dir/switch" 2>&1 <<'EOF' &
import socket, struct, sys, wire
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.78.1.1", int(sys.argv[1])))
print("event=start", flush=True)
asked, address = s.recvfrom(65536)
body = struct.pack("<bHII", -17, 0xFFFF, 2, 1)
answer = bytearray(wire.encode(wire.Message(
    wire.REFUSE, nonce=struct.unpack_from("<Q", asked, 16)[0], body=body)))
answer[0] = 3
answer[32:36] = struct.pack("<I", wire.crc32c(bytes(answer[:32] + answer[36:])))
s.sendto(bytes(answer), address)
EOF
        pids=$!
        wait_listening $! switch
        doctor "$fanin" doctor --switch 10.78.1.1:$port
        is switch FAIL "speaks version 3 of the protocol, this program 2" &&
        ends_with 1 "aggregation cannot work: switch 10.78.1.1:$port speaks version 3"
}

small_interface() {
        middle 9000
        ip -n "$prefix-w0" link set eth0 mtu 1300 &&
        fresh_switch 10.78.1.1:$port && doctor "$fanin" doctor --switch 10.78.1.1:$port
        ip -n "$prefix-w0" link set eth0 mtu 9000
        is mtu FAIL "too large for this machine's interface" &&
        is mtu FAIL "ip link set dev eth0 mtu 1500" && is mtu FAIL "export FANIN_MTU=1300" &&
        ends_with 1 "aggregation cannot work"
}

wrong_usage() {
        doctor "$fanin" doctor --switch 10.78.1.1
        [ $rc -eq 2 ] || return 1
        doctor "$fanin" doctor --count 0
        [ $rc -eq 2 ] || return 1
        doctor "$fanin" doctor --switch nobody.invalid:$port
        is switch FAIL '"nobody.invalid"' && ends_with 1 "aggregation cannot work: switch has no address" &&
        doctor "$fanin" doctor && is switch skip "no switch given" && [ $rc -eq 0 ] &&
        doctor FANIN_MTU=much "$fanin" doctor
        is config FAIL 'FANIN_MTU: "much"' && [ $rc -eq 1 ]
}

begin "$@"
build || { echo "not ok - the namespaces could not be linked"; exit 1; }

middle 1500
good_path 10.78.1.1:$port; verdict "a good path, IPv4" $?
good_path "[fd78:1::1]:$port"; verdict "a good path, IPv6" $?
absent; verdict "no switch there" $?
firewalled; verdict "a firewall between" $?
shard_shut; verdict "the port of one shard is shut" $?
no_gro; verdict "no receive offload" $?
lossy; verdict "5 % loss in each direction" $?
hopeless; verdict "40 % loss in each direction" $?
small_middle 10.78.1.1:$port; verdict "MTU 1400 in the middle, IPv4" $?
small_middle "[fd78:1::1]:$port"; verdict "MTU 1400 in the middle, IPv6" $?
black_hole 10.78.0.1 "vanish on the path to the switch"; verdict "a black hole towards the switch" $?
black_hole 10.78.1.1 "answers of that size vanish"; verdict "a black hole on the path back" $?
jumbo; verdict "MTU 9000" $?
small_slots; verdict "MTU 9000, but not in the switch" $?
other_version; verdict "another version of the protocol" $?
small_interface; verdict "MTU 1300 at the worker" $?
wrong_usage; verdict "no switch, no name, wrong usage" $?

summary
