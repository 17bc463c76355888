#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Install into a folder of its own, then build and start a program against what lies
# there with nothing but pkg-config, as a stranger would.
#
#     tools/install-test.sh BUILD
set -eu

build=${1:?"tools/install-test.sh: expected a build folder"}
stage=$PWD/$build/stage
rm -rf "$stage"
DESTDIR=$stage meson install -C "$build" --no-rebuild --quiet

for name in fanin.h fanin.pc libfanin.so libfanin-mpi.so libnccl-net-fanin.so librccl-net-fanin.so fanin fanin-planner _fanin; do
        [ -n "$(find "$stage" -name "$name" | head -n 1)" ] || {
                echo "$name: not installed"
                exit 1
        }
done

pc=$(find "$stage" -name fanin.pc)
PKG_CONFIG_PATH=${pc%/*}
PKG_CONFIG_SYSROOT_DIR=$stage
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
cat >"$stage/stranger.c" <<'TEXT'
#include <fanin.h>
#include <stdio.h>

int main(void)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c = NULL;

	o.rank = 2;
	o.ranks = 2; /* out of range: says so and does not end the process */
	int e = fanin_comm_create(&o, &c);
	printf("fanin %s: %s\n", fanin_version(), fanin_strerror(e));
	fanin_comm_destroy(c);
	return e == FANIN_OK;
}
TEXT
# shellcheck disable=SC2046  # words are wanted
cc -std=c99 -Wall -Wextra -pedantic -Werror -o "$stage/stranger" "$stage/stranger.c" \
        $(pkg-config --cflags --libs fanin)
library=$(find "$stage" -name libfanin.so)
LD_LIBRARY_PATH=${library%/*} "$stage/stranger"
program=$(find "$stage" -path '*bin/fanin')
LD_LIBRARY_PATH=${library%/*}
export LD_LIBRARY_PATH
"$program" --version

# The planner is a program of its own, which is found from where fanin is.  Without it, as where
# its packages are missing, fanin says what to do.
"$program" plan star:workers=2 >/dev/null
cp "$program" "$stage/fanin"
status=0
"$stage/fanin" plan star:workers=2 2>"$stage/why" || status=$?
[ $status -eq 1 ] && grep -q 'tools/deps.sh plan' "$stage/why" || {
        echo "fanin plan without fanin-planner: exit status $status, and it said:"
        cat "$stage/why"
        exit 1
}

# fanin itself links no solver: OpenBLAS, which they bring, spins for ever where it gets no memory.
prlimit --as=100000000 timeout 100 "$stage/fanin" switch --help >"$stage/help" || {
        echo "fanin switch --help: not with 100 MB of address space"
        exit 1
}

# Figures that nobody can read are no success.
status=0
"$program" bench --local 2 -b 8 -e 8 -n 1 -w 0 >/dev/full 2>"$stage/why" || status=$?
[ $status -eq 1 ] && grep -q '^fanin: standard output: ' "$stage/why" || {
        echo "fanin bench --local 2 >/dev/full: exit status $status, and it said:"
        cat "$stage/why"
        exit 1
}
