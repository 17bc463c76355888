#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# MPI programs under libfanin-mpi.so with ranks on two hosts, which are network namespaces: test/mpi/run
# has the cases.
#
#     BUILD=build test/net/mpi.sh [openmpi|mpich]
set -u

here=$(cd "$(dirname "$0")" && pwd)
. "$here/netns.sh"

FANIN_NETNS=fanin-mpi-$$
export FANIN_NETNS
fan_net_check || exit $?
trap 'fan_net_down "$FANIN_NETNS"' EXIT
trap 'exit 143' INT TERM HUP
fan_net_up "$FANIN_NETNS" 2 none || exit 1
HOSTS=2 ip netns exec "$FANIN_NETNS-sw" "$here/../mpi/run" "$@"
