#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The same bits however ranks are laid over hosts: 8 ranks on 1, 2, 4 and 8 hosts, between network
# namespaces (netns.sh draws them), nothing named.  In mode `fixed` sums and averages of float32 are
# the same in every layout; in mode `native` each layout's ranks agree among themselves, and so do
# minima and sums of integers in all layouts.
#
#     test/net/bits.sh [FANIN]           FANIN: the program (build/fanin), its library beside it
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made
# here (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-bit-$$
count=8 # ranks, and hosts
port=7082
limit_s=600

# One rank: a line for each reduction, with a hash of the result.  Elements differ by up to 2^40,
# so that each order of additions gives other bits.
write_program() {
        cat >"$dir/rank.py" <<'EOF'
import array, hashlib, os, random, sys
import fanin

draw = random.Random(int(os.environ["RANK"]))
comm = fanin.Communicator(mode=sys.argv[1])
for kind, op, elems in (("f", "sum", 50001), ("f", "avg", 3000), ("f", "sum", 1), ("f", "min", 9999),
                        ("i", "sum", 20000)):
    if kind == "f":
        values = (draw.uniform(-1, 1) * 2.0 ** draw.randint(-20, 20) for _ in range(elems))
    else:
        values = (draw.randint(-2**31, 2**31 - 1) for _ in range(elems))
    tensor = array.array(kind, values)
    comm.allreduce(tensor, op)
    print(kind, op, elems, hashlib.sha256(tensor.tobytes()).hexdigest())
comm.close()
EOF
}

# All ranks on HOSTS hosts, neighbours on one; false if one fails, or its lines differ from rank 0's.
# Rank 0's are in $dir/MODE-HOSTS.
all_ranks() { # HOSTS MODE
        rank=0
        while [ $rank -lt $count ]; do
                start "w$((rank * $1 / count))" "rank$rank" timeout -k 2 $limit_s \
                        env MASTER_ADDR=10.77.0.1 MASTER_PORT=$port RANK=$rank WORLD_SIZE=$count \
                        PYTHONPATH="$here/../../python" FANIN_LIBRARY="$library" \
                        python3 "$dir/rank.py" "$2"
                ranks="$ranks $!"
                rank=$((rank + 1))
        done
        wait_ranks || return 1
        sed -i '/^fanin: /d' "$dir"/rank? # what a slow one has been waited for
        cp "$dir/rank0" "$dir/$2-$1"
        for log in "$dir"/rank?; do
                cmp "$log" "$dir/rank0" || return 1
        done
        [ "$(wc -l <"$dir/rank0")" -eq 5 ]
}

# Their lines with PATTERN are those of one host.
same_as_one_host() { # HOSTS MODE PATTERN
        grep "$3" "$dir/$2-1" >"$dir/wanted" && grep "$3" "$dir/$2-$1" | cmp - "$dir/wanted"
}

begin "$@"
library=$(dirname "$fanin")/src/libfanin.so.0
write_program
fan_net_up "$prefix" $count none || exit 1

for mode in fixed native; do
        pattern=.
        [ $mode = fixed ] || pattern='min\|^i'
        for hosts in 1 2 4 8; do
                all_ranks $hosts $mode && same_as_one_host $hosts $mode "$pattern"
                report "$mode, $count ranks on $hosts host(s)" $? "$dir"/rank?
        done
done

summary
