#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run the seeds that once found a fault: again.sh FAULTS SEEDS
set -eu
while read -r seed story policy _; do
        case $seed in '#'* | '') continue ;; esac
        "$1" --seed "$seed" --story "$story" --policy "$policy"
done <"$2"
