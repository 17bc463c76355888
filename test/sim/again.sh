#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run the seeds that once found a fault: again.sh FAULTS SEEDS
set -eu
while read -r seed story policy _; do
        case $seed in '#'* | '') continue ;; esac
        sealed=
        case $policy in sealed-*) sealed=--sealed ;; esac
        # shellcheck disable=SC2086  # none is wanted where it is empty
        "$1" --seed "$seed" --story "$story" --policy "${policy#sealed-}" $sealed
done <"$2"
