#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Programs that end right after a barrier, or their last sum, by os._exit, by SIGKILL, by an error or by
# themselves, on two hosts of two ranks between network namespaces, where nobody names a switch: what one
# rank has, all get, though the ranks end in which the hosts' aggregators are; also with 1 % loss, and
# where of all that is UDP a third is lost, so that in nearly every run somebody lacks the last result.
#
#     test/net/ended.sh [FANIN [RUNS]]   FANIN: the program (build/fanin); RUNS of each case (10), of
#                                      the last one a third
#
# Prints one line a case and a summary.  Exit code 0, 1, or 77 when namespaces cannot be made here or
# there is no PyTorch (SKIPPED says why).

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

prefix=fanin-en-$$
root=$here/../..
runs=${2:-10}

# RUNS on two hosts, which begin them at about the same time.
all_end() { # RUNS NAME PORT WHAT
        for host in 0 1; do
                start w$host "host$host" timeout -k 2 $((600 + 600 * $1)) \
                        env PYTHONPATH="$root/python" OMP_NUM_THREADS=1 FANIN_LIBRARY="$library" \
                        ENDED_KEY="$dir/key" MASTER_ADDR=10.77.0.1 "$torch" "$root/test/python/ended.py" $host 2 2 "$1" "$3" "$4"
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

all_end "$runs" "that end after a barrier" 30000 both
fan_net_loss "$prefix" 10 || exit 1
all_end "$runs" "with 1 % loss" 31000 both
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
all_end $(((runs + 2) / 3)) "of the library with a third of UDP lost" 32000 library

summary
