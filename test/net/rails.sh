#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Hosts with two networks, between network namespaces: that of netns.sh, and another one on a bridge
# of its own.
#
#        ┌─────────── PREFIX-sw ───────────┐
#        │ br0  10.77.0.254  br1 10.78.0.254│
#        └──┬───────────────────────┬──────┘
#           │ p0, p1, p2            │ q0, q1, q2
#        ┌──┴───────────────────────┴──────┐
#        │ eth0 10.77.0.1    eth1 10.78.0.1│
#        │      fd77::1           fd78::1  │
#        └─────────── PREFIX-w0 ───────────┘  ...
#
# A case holds when every rank ends with exit code 0, rank 0 counted no wrong element, and tensors
# had as many parts as it says; or when the ranks that are left say who is gone.
#
#     test/net/rails.sh [-a] [FANIN]     FANIN: the program (build/fanin); -a: also what happens when a
#                                        network fails, in three minutes
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-ra-$$
hosts=3
port=7080
rank_timeout_s=300
ranks_of="0 1 2"
sum=1 # hosts do, or the switch alone

second_network() {
        ip -n "$prefix-sw" link add br1 type bridge mcast_snooping 0 stp_state 0 forward_delay 0 &&
        ip -n "$prefix-sw" addr add 10.78.0.254/24 dev br1 &&
        ip -n "$prefix-sw" link set br1 up || return
        for i in 0 1 2; do
                ip -n "$prefix-sw" link add "q$i" type veth peer name eth1 netns "$prefix-w$i" &&
                ip -n "$prefix-sw" link set "q$i" master br1 up &&
                fan_net__shape "$prefix-sw" "q$i" 200mbit 70kb 1mb &&
                fan_net__shape "$prefix-w$i" eth1 200mbit 70kb 1mb &&
                ip -n "$prefix-w$i" addr add "10.78.0.$((i + 1))/24" dev eth1 &&
                ip -n "$prefix-w$i" addr add "fd78::$((i + 1))/64" dev eth1 nodad &&
                ip -n "$prefix-w$i" link set eth1 up || return
        done
}

# Host 2 has the addresses of a name in another order.
names() {
        for i in 0 1 2; do
                two="10.77.0.254 10.78.0.254"
                [ $i != 2 ] || two="10.78.0.254 10.77.0.254"
                mkdir -p "/etc/netns/$prefix-w$i" || return
                for at in $two; do
                        echo "$at switch.both"
                done >"/etc/netns/$prefix-w$i/hosts"
        done
}

# A job that meets at the first host, by its address ADDRESS.
start_job() { # ADDRESS ITERATIONS FLAGS...
        address=$1 iters=$2
        shift 2
        start_ranks "$address" $port env FANIN_HOSTS=$sum \
                "$fanin" bench -b 1M -e 1M -n "$iters" -w 0 --json "$dir/json" "$@"
}

# All ranks have ended well, and what rank 0 says of the shares has PARTS parts, LOST of them lost;
# of a single part it says nothing: 0.
went() { # PARTS LOST
        wait_ranks && none_wrong || return
        shares=$(sed -n 's/^# shares[^:]*: //p' "$dir/rank0" | tr , '\n')
        [ "$(echo "$shares" | grep -c .)" = "$1" ] && [ "$(echo "$shares" | grep -c ' lost')" = "$2" ]
}

sums() { # NAME PARTS ADDRESS FLAGS...
        name=$1 parts=$2 address=$3
        shift 3
        start_job "$address" 5 "$@"
        went "$parts" 0
        ended "$name" $?
}

# Frames of host INDEX get lost beyond its card: on the first network (p, br0) or the second (q, br1).
cut() { # p|q INDEX
        ip -n "$prefix-sw" link set "$1$2" nomaster
}

mend() { # p|q INDEX
        bridge=br0
        [ "$1" = p ] || bridge=br1
        ip -n "$prefix-sw" link set "$1$2" master $bridge
}

# Host 1 is cut off the second network before the job begins: the other one has all parts.
begins_cut() { # NAME PARTS FLAGS...
        name=$1 parts=$2
        shift 2
        cut q 1
        sums "$name" "$parts" 10.77.0.1 "$@"
        mend q 1
}

# Host 1 is cut off a network while operations are under way: they go on by the other one, and by
# both again if it is mended SECONDS later.
fails() { # NAME p|q SECONDS ITERATIONS PARTS LOST FLAGS...
        name=$1 side=$2 after=$3 iterations=$4 parts=$5 lost=$6
        shift 6
        start_job 10.77.0.1 "$iterations" --alive 5000 "$@"
        wait_said redop
        sleep 1
        cut "$side" 1
        [ -z "$after" ] || { sleep "$after"; mend "$side" 1; }
        went "$parts" "$lost"
        result=$?
        mend "$side" 1
        ended "$name" $result
}

# Rank 2 is killed, or its host cut off both networks: the others say so, and that it is not a rail.
rank_ends() { # NAME kill|cut
        start_job 10.77.0.1 10000 --alive 5000
        wait_said redop
        sleep 0.5
        victim=$(program_of 2)
        if [ "$2" = kill ]; then
                kill -KILL "$victim"
        else
                cut p 2
                cut q 2
        fi
        result=0
        for rank in 0 1; do
                wait "$(id_of $rank)" && result=1
                grep -q "inside rank 2 stopped\|rank 2 \(stopped\|has ended\)" "$dir/rank$rank" ||
                        result=1
        done
        kill -KILL "$victim" 2>/dev/null
        wait "$(id_of 2)" 2>/dev/null
        mend p 2
        mend q 2
        ranks=
        ended "$1" $result
}

# A switch with an address in each network, by the first one, by both, or by a name that has both;
# HOSTS: they sum as well.
at_switch() { # first|both|name HOSTS COMMAND...
        start_switch 0.0.0.0:7081
        case $1 in
        first) FANIN_SWITCH=10.77.0.254:7081 ;;
        both) FANIN_SWITCH=10.77.0.254:7081,10.78.0.254:7081 ;;
        name) FANIN_SWITCH=switch.both:7081 ;;
        esac
        export FANIN_SWITCH
        sum=$2
        shift 2
        "$@"
        unset FANIN_SWITCH
        sum=1
}

# A group that forms while host 1 is cut off, which nobody has noticed, and one that forms then of
# the ranks MEMBERS: each has PARTS parts, half of which are lost.
groups_form() { # NAME MEMBERS PARTS...
        cat >"$dir/groups.py" <<EOF
import array, os, sys, time
import fanin

members = [$2]
comm = fanin.Communicator(alive=3, timeout=30)

def sums(group, ranks):
    for _ in range(3):
        data = array.array("f", [comm.rank + 1.0]) * 300000
        group.allreduce(data)
        assert set(data) == {float(sum(ranks) + len(ranks))}, data[0]
    return [part.lost for part in group.parts()]

everybody = list(range(comm.size))
assert not any(sums(comm, everybody))
print("formed", flush=True)
while not os.path.exists("$dir/cut"):
    time.sleep(0.1)
shown = [sums(comm.group("early", everybody), everybody)]
if comm.rank in members:
    shown.append(sums(comm.group("later", members), members))
for lost in filter(None, shown):
    print(len(lost), "parts,", sum(lost), "lost", flush=True)
sums(comm, everybody)
os._exit(0)
EOF
        start_ranks 10.77.0.1 $port env FANIN_HOSTS=$sum PYTHONPATH="$here/../../python" \
                FANIN_LIBRARY="$(dirname "$fanin")/src/libfanin.so.0" python3 "$dir/groups.py"
        wait_said formed
        cut q 1
        : >"$dir/cut"
        name=$1
        shift 2
        result=0
        wait_ranks || result=1
        [ "$(cat "$dir"/rank? | grep 'parts,' | sort -u | tr -d '\n')" = "$*" ] || result=1
        mend q 1
        ended "$name" $result
}

# The doctors of all ranks measure both networks, and the forecast has both.
foreseen() { # NAME
        start_ranks 10.77.0.1 $port env FANIN_HOSTS=$sum \
                "$fanin" doctor --count 20 --bytes 4M --json "$dir/json"
        wait_ranks && python3 - "$dir/json" <<EOF
import json, sys

found = {check["name"]: check.get("values") for check in json.load(open(sys.argv[1]))["checks"]}
rates = [found["links"]["host_mbps"], *found["links"]["rail_mbps"]]
least = sum(min(rail) for rail in rates)
# by one network 2 (n - 1) / n times the tensor at half of that rate, by both at all of it
most_ms = 2 * found["forecast"]["bytes"] * 8e-3 / least
assert len(rates) == 2 and [len(rail) for rail in rates] == [3, 3], rates
assert found["forecast"]["ms"] < most_ms or found["forecast"]["by_window"], found
assert found["allreduce"]["wrong"] == 0
EOF
        ended "$1" $?
}

all=0
[ "${1:-}" != -a ] || { all=1; shift; }
begin "$@"
trap 'rm -rf /etc/netns/$prefix-w?; finish' EXIT
fan_net_up "$prefix" $hosts 200mbit && second_network && names || exit 1

sums "both networks carry parts" 6 10.77.0.1
sums "by IPv6" 6 fd77::1
sums "in fixed point" 6 10.77.0.1 --mode fixed
"$fanin" key new --out "$dir/fabric" && "$fanin" key job rails --key "$dir/fabric" --out "$dir/tenant"
FANIN_KEY_FILE=$dir/tenant
export FANIN_KEY_FILE
sums "in a sealed job" 6 10.77.0.1 --job rails/1
unset FANIN_KEY_FILE
keys rails=0
sums "rails=0: one does" 3 10.77.0.1
unset FANIN_CONFIG
begins_cut "a host does not reach the others by the second one: the first does" 3
ranks_of="0 0 1 2"
sums "ranks of a host share memory" 6 10.77.0.1
ranks_of="0 1 2"
at_switch first 1 sums "hosts sum by both networks beside a switch in one" 7 10.77.0.1
at_switch both 1 sums "hosts sum by both networks beside a switch in both" 8 10.77.0.1
at_switch both 1 fails "hosts beside a switch, one is cut off the first network" p "" 400 8 4
at_switch name 0 sums "a switch by a name with both addresses" 2 10.77.0.1
at_switch name 1 sums "and hosts beside it" 8 10.77.0.1
at_switch name 0 begins_cut "a host does not reach the second address: all sum by the first" 0
at_switch name 0 fails "a host is cut off the second address" q "" 200 2 1
groups_form "groups form when a host has been cut off the second network" "0, 1" "4 parts, 2 lost6 parts, 3 lost"
ranks_of="0 0 1 1"
groups_form "and where ranks share memory" "1, 3" "4 parts, 2 lost"
ranks_of="0 1 2"
foreseen "doctors measure both networks"
[ "$all" = 1 ] || { summary; exit; }

ranks_of="0 0 1 2"
fails "ranks share memory, a host is cut off the second network" q "" 400 6 3
ranks_of="0 1 2"
fails "a host is cut off the second network" q "" 400 6 3
fails "a host is cut off the first network" p "" 400 6 3
fails "a host is cut off the second network, and comes back" q 14 1500 6 0
rank_ends "a rank is killed" kill
rank_ends "a host is cut off both networks" cut
at_switch both 0 fails "at a switch in both networks, a host is cut off the second one" q "" 200 2 1
at_switch both 0 fails "at a switch in both networks, a host is cut off the first one" p "" 200 2 1
at_switch both 1 fails "hosts beside a switch, one is cut off the second network" q "" 400 8 4
summary
