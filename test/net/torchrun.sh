#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch and Python on two hosts, between network namespaces, with no option of fanin's: torchrun with two ranks a
# host, and local SGD that goes on when rank 0 is killed, in which the ranks have met.
#
#     test/net/torchrun.sh [FANIN]       FANIN: the program (build/fanin)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here or
# there is no PyTorch (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-tr-$$
rank_timeout_s=600
root=$here/../..

# The program's ranks on both hosts.  Debian 13's torchrun meets by a file (doc/pytorch.md).
launch() { # ARGUMENT...
        if $libuv; then
                meets='-r 9:1 -t 9:1 --master_addr=10.77.0.1 --master_port=29500'
        else
                meets="--rdzv-backend=c10d --rdzv-conf=store_type=file --rdzv-endpoint=$dir/rendezvous --rdzv-id=$$"
        fi
        for host in 0 1; do
                own=--node_rank=$host
                $libuv || own=--local-addr=10.77.0.$((host + 1))
                # shellcheck disable=SC2086  # words are wanted
                start w$host "rank$host" timeout -k 2 $rank_timeout_s \
                        env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                        TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 \
                        "$torch" -m torch.distributed.run --nnodes=2 --nproc_per_node=2 $meets $own "$@"
                ranks="$ranks $!"
        done
}

begin "$@"
unset FANIN_HOSTS # nothing is named
trap 'rm -rf "/etc/netns/$prefix-w0" "/etc/netns/$prefix-w1"; finish' EXIT
torch=$(sh "$root/tools/torch-python.sh") || exit $?
library=$(cd "$(dirname "$fanin")" && pwd)/src/libfanin.so.0
libuv=true
PYTHONPATH=$root/python "$torch" -c 'from fanin import _libuv; raise SystemExit(_libuv.is_missing())' || libuv=false
fan_net_up "$prefix" 2 none || exit 1

launch "$root/test/python/launched.py" summed
wait_ranks && grep -q 'launched: fanin: active, 4 ranks through shared memory on 2 hosts' "$dir/rank0"
ended 'two hosts of two ranks' $?

for rank in 0 1; do
        start_rank $rank env PYTHONPATH="$root/python" FANIN_LIBRARY="$library" RANK=$rank WORLD_SIZE=2 \
                MASTER_ADDR=10.77.0.1 MASTER_PORT=29502 \
                "$torch" "$root/bench/peers/sets_rank.py" --bytes 1048576 --iters 2 --warmup 0
done
wait_ranks
ended 'reduce-scatter and all-gather between two hosts' $?

# Rank 0 on host HOST0, rank 1 on the other; each says what it has summed.
pair() { # HOST0 MASTER0 MASTER1 PORT VARIABLE=VALUE...
        first=$1 master0=$2 master1=$3 pair_port=$4
        shift 4
        for rank in 0 1; do
                master=$master0
                [ $rank -eq 0 ] || master=$master1
                start_rank $(((first + rank) % 2)) env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 \
                        FANIN_LIBRARY="$library" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 \
                        MASTER_ADDR="$master" MASTER_PORT="$pair_port" "$@" \
                        "$torch" "$root/test/python/launched.py" summed
        done
        wait_ranks && grep -q 'launched: fanin: active, 2 ranks through' "$dir"/rank?
}

# torchrun from PyTorch 2.4 on: MASTER_ADDR is the host of the agents' store.
agent_store() {
        start w0 store timeout -k 2 $rank_timeout_s env PYTHONPATH="$root/python" "$torch" "$root/test/python/launched.py" store 10.77.0.1 29503
        store=$!
        pids="$pids $store"
        tries=3000
        until grep -q listens "$dir/store" || [ $tries -eq 0 ]; do
                tries=$((tries - 1))
                sleep 0.1
        done
        pair 1 10.77.0.1 10.77.0.1 29503 LOCAL_WORLD_SIZE=1 TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=run1 \
                TORCHELASTIC_RESTART_COUNT=0
        ended 'the store is on another host than rank 0' $?
}
if $libuv; then
        agent_store
else
        echo "SKIPPED: the store is on another host than rank 0: a rank's store of an agent asks for libuv, which is not here"
fi

pair 0 localhost 10.77.0.1 29504 LOCAL_WORLD_SIZE=1
ended 'localhost is the master to rank 0 alone' $?

pair 0 localhost 10.77.0.1 23456 KUBERNETES_SERVICE_HOST=10.96.0.1 PYTHONUNBUFFERED=0
ended 'localhost to rank 0 alone, and nobody counts the ranks of a host (Kubeflow)' $?

# Ranks go on at the first one's host, which is loopback to itself: rank 0's, then that of a new process.
reconfigure() {
        mkdir "$dir/handles"
        number=0
        for place in '0 first localhost' '1 first 10.77.0.1' '0 first localhost' '1 again localhost'; do
                # shellcheck disable=SC2086  # words are wanted
                set -- $place
                start w$1 "rank$number" timeout -k 2 $rank_timeout_s \
                        env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                        RANK=$number WORLD_SIZE=3 LOCAL_WORLD_SIZE=1 MASTER_ADDR="$3" MASTER_PORT=29508 \
                        "$torch" "$root/test/python/reconfigured.py" "$dir/handles" "$2"
                ranks="$ranks $!"
                number=$((number + 1))
        done
        wait_ranks # rank 2 has killed itself
        for number in 0 1 3; do
                grep -q '^2: rank . of 3; fanin: active, 3 ranks' "$dir/rank$number" || return 1
        done
}
if PYTHONPATH=$root/python "$torch" -c 'from fanin import _elastic; _elastic.check()' 2>"$dir/rank0"; then
        reconfigure
        ended 'reconfigure() at a host whose MASTER_ADDR is loopback' $?
else
        echo "SKIPPED: reconfigure(): $(tail -n 1 "$dir/rank0")"
fi

for host in 0 1; do
        mkdir -p "/etc/netns/$prefix-w$host"
        echo '127.0.0.1 localhost' >"/etc/netns/$prefix-w$host/hosts"
done

# Ranks without MASTER_ADDR, of hosts with names of their own, which only they know, and for loopback as Debian has it.
by_tcp() { # HOST PORT
        for rank in 0 1; do
                echo "127.0.1.1 own$rank" >>"/etc/netns/$prefix-w$rank/hosts"
                # shellcheck disable=SC2016  # the inner shell expands it
                start w$rank "rank$rank" unshare -u sh -c 'hostname "$1"; shift; exec "$@"' sh own$rank \
                        timeout -k 2 $rank_timeout_s env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                        RANK=$rank WORLD_SIZE=2 "$torch" "$root/test/python/launched.py" summed "tcp://$1:$2"
                ranks="$ranks $!"
        done
        wait_ranks && grep -q 'launched: fanin: active, 2 ranks through' "$dir/rank0"
}
by_tcp 10.77.0.1 29506
ended 'tcp://, to an address of rank 0, whose name others do not know' $?
echo 10.77.0.1 own0 >>"/etc/netns/$prefix-w1/hosts"
by_tcp own0 29507
ended 'tcp://, to the name of rank 0, which is loopback to itself' $?

# Rank 0's name gets known once both ranks wait for it, as a pod's does when the pod is there.
for rank in 0 1; do
        start_rank $rank env MASTER_ADDR=rank0.late MASTER_PORT=29505 RANK=$rank WORLD_SIZE=2 \
                "$fanin" bench -b 64K -e 64K -n 2 -w 0
done
for rank in 0 1; do
        tries=3000
        until grep -q 'waits for the address of "rank0.late:29505"' "$dir/rank$rank" || [ $tries -eq 0 ]; do
                tries=$((tries - 1))
                sleep 0.1
        done
        echo '10.77.0.1 rank0.late' >>"/etc/netns/$prefix-w$rank/hosts"
done
wait_ranks && grep -q 'waits for the address' "$dir/rank0" && grep -q 'waits for the address' "$dir/rank1"
ended 'a name that is known later' $?

number=0
for host in 0 0 1; do
        start w$host "rank$number" timeout -k 2 $rank_timeout_s \
                env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                RANK=$number WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29501 \
                "$torch" "$root/examples/local_sgd.py" --rounds 4 --steps 1 --batch 2 --alive 1 --die 0:3
        ranks="$ranks $!"
        number=$((number + 1))
done
wait_ranks # rank 0 has failed
grep -q '^rank 0 .*; rank 0 of 2 goes on' "$dir/rank1" && grep -q '; rank 1 of 2 goes on' "$dir/rank2" &&
        grep -q 'all ranks hold the same parameters' "$dir/rank1"
ended 'local SGD without rank 0' $?

summary
