#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every way to sum on a bad network, between network namespaces (netns.sh draws them): hub.c in the
# wires loses, doubles, delays, damages and repeats frames, also of a job's earlier life, in turns:
#
#     switchml    three ranks at a switch with slots of its own, which is restarted between two lives
#     atp, esa    slots in front of a server; in the second life the switch is killed, and restarted
#     atp-ahead, esa-ahead     the same, ranks run ahead of a slow one and keep sums for it
#     hosts       ranks on three hosts that sum parts, two of them share memory; by turns a switch beside them
#     rails       the same by two networks
#     elastic     a rank is killed, the others go on; by turns at a switch and with nothing named
#
# Open and sealed jobs, IPv4 and IPv6, results by multicast and by unicast, MTU 1500 and 9000, float32, int8 and fixed
# mode take turns.  Every other turn of a sealed job has
# damage that UDP's checksum does not tell.
# A turn holds when all ranks end with exit code 0 and no element of a sum is wrong.
#
#     test/net/hub.sh [-s SEED] [-t SECONDS] [-k KINDS] [-n TURN] [FANIN]
#                               SEED: today, or FAN_HUB_SEED; SECONDS of turns, in place of two turns of each kind;
#                               KINDS: some of the above; TURN: that one alone; FANIN: the program (build/fanin)
#
# Prints one line a turn, a table and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here
# (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-hu-$$
rank_timeout_s=400 # many times what a life may take
LIFE_S=1
kinds="switchml atp esa atp-ahead esa-ahead hosts rails elastic"
seed=${FAN_HUB_SEED:-$(date +%Y%m%d)}
seconds='' only='' table=''
while getopts s:t:k:n: flag; do
        case $flag in
        s) seed=$OPTARG ;;
        t) seconds=$OPTARG ;;
        k) kinds=$OPTARG ;;
        n) only=$OPTARG ;;
        *) exit 2 ;;
        esac
done
shift $((OPTIND - 1))

# A second network of the hosts, by wires as those of netns.sh: 10.78.0.N.
second_network() {
        ip -n "$prefix-sw" link add br1 mtu 9000 type bridge mcast_snooping 0 stp_state 0 forward_delay 0 &&
        ip -n "$prefix-sw" link set br1 up || return
        for i in 0 1 2; do
                ip -n "$prefix-wire" link add "t$i" mtu 9000 type veth peer name "q$i" mtu 9000 netns "$prefix-sw" &&
                ip -n "$prefix-wire" link add "x$i" mtu 9000 type veth peer name eth1 mtu 9000 netns "$prefix-w$i" &&
                ip -n "$prefix-wire" link set "t$i" up && ip -n "$prefix-wire" link set "x$i" up &&
                ip -n "$prefix-sw" link set "q$i" master br1 up &&
                ip -n "$prefix-w$i" addr add "10.78.0.$((i + 1))/24" dev eth1 &&
                ip -n "$prefix-w$i" link set eth1 up || return
        done
}

# Frames that leave a namespace are single and have finished checksums, and the hub alone hands them on.
bad_network() {
        second_network && fan_net_cut "$prefix" || return
        for space in $(fan_net__list "$prefix"); do
                fan_net__offload "$space" tx off >/dev/null || return
        done
        ip netns exec "$prefix-wire" nft flush ruleset
}

start_hub() {
        mkfifo "$dir/kept/lines" || return
        exec 3<>"$dir/kept/lines"
        ip netns exec "$prefix-wire" "$hub" s0:w0 s1:w1 s2:w2 s3:w3 t0:x0 t1:x1 t2:x2 <"$dir/kept/lines" >"$dir/kept/hub" 2>&1 &
        hub_id=$!
}

# What env takes for rank N.
own_of() { # RANK HOST
        echo "$settings"
}

start_life() { # SEED FLAGS...
        salt=$1
        shift
        unset FANIN_CONFIG
        # shellcheck disable=SC2086 # words
        [ -z "$tuned" ] || keys $tuned
        start_ranks "$meet" 7081 "$stream" -s "$salt" "$@" "$life_s" "$dir/json"
}

# Add what the ranks have said and how they ended; 1 when that is wrong.  The rank KILLED does not count.
end_life() { # [KILLED]
        number=0
        for pid in $ranks; do
                wait "$pid" 2>/dev/null
                code=$?
                log=$dir/rank$number
                number=$((number + 1))
                [ "$((number - 1))" != "${1-}" ] || continue
                sums=$(sed -n 's/^# sums: \([0-9]*\), .*/\1/p' "$log")
                bad=$(sed -n 's/^# sums: .*elements: //p' "$log")
                [ "${sums:-0}" -le "$life_sums" ] || life_sums=$sums
                wrong=$((wrong + ${bad:-0}))
                case $code in
                0) [ "${sums:-0}" -gt 0 ] || errors=$((errors + 1)) ;;
                3) ;;
                124 | 137) hangs=$((hangs + 1)) ;;
                *) errors=$((errors + 1)) ;;
                esac
                [ $code -eq 0 ] || echo "# rank $((number - 1)): exit code $code"
        done
        ranks=
        operations=$((operations + life_sums)) life_sums=0
        [ $((wrong + hangs + errors)) -eq 0 ]
}

daemon() { # NAMESPACE COMMAND ADDRESS FLAGS...
        where=$1 command=$2 at=$3
        shift 3
        # shellcheck disable=SC2086  # words are wanted
        start "$where" "$command" "$fanin" "$command" --listen "$at" --mtu "$mtu" --window 64 $key "$@"
        last=$!
        pids="$pids $last"
        wait_listening $last "$command"
}

kill_last() {
        kill -KILL "$last"
        wait "$last" 2>/dev/null # until its port is free
}

named() {
        settings="$settings FANIN_SWITCH=$switch"
}

switchml() {
        named
        daemon sw switch "$switch" && start_life $((salt_of + 1)) && end_life || return
        kill_last
        daemon sw switch "$switch" && start_life $((salt_of + 2)) && end_life
}

slots() { # POLICY FLAGS...
        named
        settings="$settings FANIN_SERVER=$server FANIN_ALIVE_MS=4000"
        shared=$1
        shift
        daemon w3 server "$server" "$@" &&
        daemon sw switch "$switch" --policy "$shared" --slots 48 --server "$server" &&
        start_life $((salt_of + 1)) && end_life || return
        start_life $((salt_of + 2))
        wait_said
        sleep 0.5
        kill_last
        daemon sw switch "$switch" --policy "$shared" --slots 48 --server "$server" && end_life
}

run_ahead() { # POLICY
        tuned="$tuned ahead=1000 cache=100"
        fan_net__shape "$prefix-w2" eth0 50mbit $FAN_NET_BURST $FAN_NET_LIMIT
        slots "$1" --ahead 1000
        result=$?
        tc -n "$prefix-w2" qdisc del dev eth0 root
        return $result
}

hosts() {
        ranks_of="0 0 1 2"
        settings="$settings FANIN_HOSTS=1"
        if [ $(((seed / 3 + place + round / 2) % 2)) -eq 0 ]; then
                named && daemon sw switch "$switch" || return
        fi
        start_life $((salt_of + 1)) && end_life && start_life $((salt_of + 2)) && end_life
}

elastic() {
        settings="$settings FANIN_ALIVE_MS=8000"
        if [ $(((seed / 3 + place + round / 2) % 2)) -eq 0 ]; then
                settings="$settings FANIN_HOSTS=1"
        else
                named && daemon sw switch "$switch" || return
        fi
        life_s=10
        start_life $((salt_of + 1)) -e
        victim=$(((seed + round) % 3))
        wait_said
        sleep 0.5
        kill -KILL "$(program_of $victim)"
        end_life $victim && ! grep -L '^# 2 ranks are left' "$dir"/rank? | grep -qv "rank$victim"
}

# What turn NUMBER has, from the seed alone.
settle() { # NUMBER
        count=$(echo "$kinds" | wc -w)
        place=$(($1 % count)) round=$(($1 / count))
        kind=$(echo "$kinds" | cut -d ' ' -f $((place + 1)))
        salt_of=$(((seed * 1000 + $1) * 10))
        ranks_of="0 1 2" life_s=$LIFE_S life_sums=0 operations=0 wrong=0 hangs=0 errors=0 key=''
        seal=open damage=seen wire=float32 mode=native mtu=1500
        [ $(((seed + place + round) % 2)) -eq 0 ] || seal=sealed
        [ $(((seed / 5 + place + round / 2 + round) % 2)) -eq 0 ] || mtu=9000
        meet=10.77.0.1 switch=10.77.0.254:7079 server=10.77.0.4:7090 family=IPv4 tuned=''
        if [ $(((seed / 7 + place + round / 2) % 2)) -eq 0 ]; then
                meet=fd77::1 switch='[fd77::fe]:7079' server='[fd77::4]:7090' family=IPv6
        fi
        [ $(((seed / 11 + place / 2 + round) % 2)) -eq 0 ] || tuned=multicast=0
        case $(((seed / 4 + place + round) % 3)) in
        1) [ "${kind%-ahead}" != "$kind" ] || mode=fixed ;;
        2) wire=int8 ;;
        esac
        settings="FANIN_JOB=hub/1 FANIN_MTU=$mtu FANIN_WIRE=$wire FANIN_MODE=$mode FANIN_WINDOW=64"
        settings="$settings FANIN_ALIVE_MS=60000 FANIN_TIMEOUT_MS=120000"
        [ "$kind" = rails ] || tuned="$tuned rails=0"
        [ $(((seed / 2 + place + round / 2) % 2)) -eq 0 ] || [ $seal = open ] || damage=unseen
        if [ $seal = sealed ]; then
                settings="$settings FANIN_KEY_FILE=$dir/kept/tenant" key="--key $dir/kept/fabric"
        fi
}

turn() { # NUMBER
        settle "$1"
        echo "$damage $salt_of" >&3
        case $kind in
        switchml) switchml ;;
        atp | esa) slots "$kind" ;;
        atp-ahead | esa-ahead) run_ahead "${kind%-ahead}" ;;
        hosts | rails) hosts ;;
        elastic) elastic ;;
        esac
        result=$?
        kill -0 $hub_id || result=1
        [ $result -eq 0 ] || [ $((wrong + hangs + errors)) -gt 0 ] || errors=1 # a daemon did not start
        stop
        table="$table$kind $seal $operations $wrong $hangs $errors
"
        report "turn $1 of seed $seed: $kind, $seal, $family${group:+ unicast}, mtu $mtu, $wire, $mode, damage $damage: $operations operations" $result \
                "$dir"/rank? "$dir"/switch "$dir"/server
        [ $result -eq 0 ] || tail -n 1 "$dir/kept/hub"
        [ $result -eq 0 ] || [ -z "${FAN_HUB_KEEP-}" ] || cp -r "$dir" "$FAN_HUB_KEEP/turn$1"
        find "$dir" -mindepth 1 -path "$dir/kept" -prune -o ! -type d -exec rm -f {} +
}

more_turns() {
        if [ -n "$seconds" ]; then
                [ "$(date +%s)" -lt $until_s ]
        else
                [ $next -lt $turns ]
        fi
}

show_table() {
        echo "$table" | sort | awk '
                BEGIN {
                        row = "# %-10s %-7s %10s %6s %6s %7s\n"
                        printf row, "policy", "job", "operations", "wrong", "hangs", "errors"
                }
                NF {
                        name = $1 " " $2
                        if (!(name in operations))
                                order[++rows] = name
                        operations[name] += $3
                        wrong[name] += $4
                        hangs[name] += $5
                        errors[name] += $6
                }
                END {
                        for (i = 1; i <= rows; i++) {
                                name = order[i]
                                split(name, part)
                                printf row, part[1], part[2], operations[name], wrong[name], hangs[name], errors[name]
                        }
                }'
}

begin "$@"
hub=$(dirname "$fanin")/test/hub stream=$(dirname "$fanin")/test/stream
mkdir "$dir/kept"
"$fanin" key new --out "$dir/kept/fabric" >/dev/null &&
        "$fanin" key job hub --key "$dir/kept/fabric" --out "$dir/kept/tenant" >/dev/null || exit 1
fan_net_up "$prefix" 4 none $FAN_NET_BURST $FAN_NET_LIMIT 9000 && bad_network && start_hub || exit 1
trap 'kill $hub_id; finish' EXIT
echo "# seed $seed"
turns=$((2 * $(echo "$kinds" | wc -w))) next=0 until_s=$(($(date +%s) + ${seconds:-0}))
if [ -n "$only" ]; then
        turn "$only"
else
        while more_turns; do
                turn $next
                next=$((next + 1))
        done
fi
show_table
summary
