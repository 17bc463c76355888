#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Programs that were compiled with an earlier release run with today's library: libabigail compares what
# they see of it with test/data/abi/libfanin-VERSION.abi.  Functions may be added, and structs that begin
# with their size may grow (test/data/abi/fanin.supp).
#
#     tools/abi-test.sh               exit status 77: no abidiff here
#     tools/abi-test.sh --record      at a release: keep what its library looks like
#
# A small build with names for debuggers is kept in build-abi.
set -eu
cd "$(dirname "$0")/.."

command -v abidiff >/dev/null || {
        echo 'SKIPPED: no abidiff here (Debian: abigail-tools)'
        exit 77
}

[ -f build-abi/build.ninja ] || meson setup build-abi --buildtype=debug -Dplanner=disabled -Dmetrics=disabled \
        -Dmpi=disabled -Dtests=false >/dev/null
version=$(meson introspect --projectinfo build-abi | python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
library=build-abi/src/libfanin.so.$version
ninja -C build-abi --quiet "src/libfanin.so.$version"

if [ "${1-}" = --record ]; then
        out=test/data/abi/libfanin-${version%.*}.abi
        abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path \
                --no-comp-dir-path --out-file "$out" "$library"
        echo "$out: recorded"
        exit
fi

for old in test/data/abi/libfanin-*.abi; do
        echo "$old and $library:"
        abidiff --headers-dir2 include --drop-private-types --suppressions test/data/abi/fanin.supp \
                --no-added-syms "$old" "$library" || {
                echo "$library: programs compiled with $(basename "$old" .abi) would not run with it as before"
                exit 1
        }
done
