#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Programs that end right after a barrier, or their last sum, on two hosts of two ranks between network
# namespaces, where nobody names a switch.  Those that return, exit or raise: all ranks get what one has, also
# with 1 % loss.  By os._exit or SIGKILL: all get it without loss; with it, whoever does not is told the rank
# in which the aggregator was, also where a third of all that is UDP is lost.
#
#     test/net/ended.sh [FANIN [RUNS [WHAT]]]   FANIN: the program (build/fanin); RUNS of each case (10), of
#                                             the last one a third; WHAT: `library`, or `both` (with PyTorch's)
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here or
# there is no PyTorch (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-en-$$
root=$here/../..
runs=${2:-10}
what=${3:-both}

# RUNS on two hosts, which begin them at about the same time.
all_end() { # RUNS NAME PORT END [lossy]
        for host in 0 1; do
                start w$host "host$host" timeout -k 2 $((600 + 600 * $1)) \
                        env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                        ENDED_KEY="$dir/key" MASTER_ADDR=10.77.0.1 "$torch" "$root/test/python/ended.py" $host 2 2 "$1" "$3" "$what" "$4" ${5:+"$5"}
                ranks="$ranks $!"
        done
        result=0
        for pid in $ranks; do
                wait "$pid" || result=1
        done
        ranks=
        report "$1 runs $2" $result "$dir"/host?
        grep -h '^ended:' "$dir"/host? | sed 's/^/#   /'
}

begin "$@"
unset FANIN_HOSTS # nothing is named
torch=$(sh "$root/tools/torch-python.sh") || exit $?
library=${FANIN_LIBRARY:-$(cd "$(dirname "$fanin")" && pwd)/src/libfanin.so.0}
fan_net_up "$prefix" 2 none || exit 1
"$fanin" key new --out "$dir/fabric" && "$fanin" key job ended --key "$dir/fabric" --out "$dir/key" || exit 1

all_end "$runs" "that end by themselves" 30000 normal
all_end "$runs" "that are killed" 31000 killed
fan_net_loss "$prefix" 10 || exit 1
all_end "$runs" "that end by themselves, with 1 % loss" 32000 normal
all_end "$runs" "that are killed, with 1 % loss" 33000 killed lossy
fan_net_noloss "$prefix"
for host in 0 1; do
        ip netns exec "$prefix-w$host" nft -f - <<EOF || exit 1
table inet fanin_ended {
        chain input {
                type filter hook input priority 0; policy accept;
                iifname "eth0" meta l4proto udp numgen random mod 3 == 0 drop
        }
}
EOF
done
all_end $(((runs + 2) / 3)) "that are killed, with a third of UDP lost" 34000 killed lossy

summary
