#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `meson dist` packs the last commit; what it packed builds, passes its tests, installs and sums, in a
# folder that knows nothing of git.
#
#     tools/dist-test.sh [FOLDER]     the archive and its checksum are left there (build/dist)
#
# Takes two minutes of processor time.
set -eu
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:-build/dist}")
work=
cleanup() {
        [ -z "$work" ] || rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
work=$(mktemp -d "${TMPDIR:-/var/tmp}/fanin-dist.XXXXXX")

meson setup "$work/pack" -Dtests=false -Dplanner=disabled -Dmpi=disabled >/dev/null
meson dist -C "$work/pack" --no-tests --allow-dirty --formats xztar
mkdir -p "$out"
mv "$work"/pack/meson-dist/fanin-*.tar.xz* "$out"
(cd "$out" && sha256sum -c ./*.sha256sum)

tar xJf "$out"/fanin-*.tar.xz -C "$work"
cd "$work"/fanin-*/
meson setup build -Dplanner=enabled >/dev/null
ninja -C build --quiet
meson test -C build --print-errorlogs --suite unit --suite trace
sh tools/install-test.sh build
[ "$(build/fanin --version)" = "fanin ${PWD##*-}" ]
build/fanin bench --local 4 -b 1M -n 5
echo "dist-test: $(basename "$out"/fanin-*.tar.xz): built, tested, installed"
