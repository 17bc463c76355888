#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Build the fuzz targets as OSS-Fuzz asks: from $SRC/fanin into $OUT, by $CC, $CFLAGS, $CXX, $CXXFLAGS and
# $LIB_FUZZING_ENGINE; with each target its seeds, TARGET_seed_corpus.zip.  Libraries that are not the C
# library's go to $OUT/lib, where targets look first: the machine that runs them has none.
set -eu

cd "$SRC/fanin"
rm -rf "$WORK/build"
meson setup "$WORK/build" -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" -Db_lundef=false -Dbuildtype=plain \
        -Dplanner=enabled -Dmpi=disabled -Dmetrics=disabled
targets=$(sed -n "/^fuzz_targets/,/^}/s/^  '\([a-z_]*\)':.*/fuzz_\1/p" test/fuzz/meson.build)
# shellcheck disable=SC2046,SC2086  # words are wanted
ninja -C "$WORK/build" $(printf 'test/fuzz/%s ' $targets)
mkdir -p "$OUT/lib"
test/fuzz/corpora unpack "$WORK/seeds"
for target in $targets; do
        cp "$WORK/build/test/fuzz/$target" "$OUT"
        ldd "$OUT/$target" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|resolv)\.so/ { print $3 }' |
                xargs -r cp -n -t "$OUT/lib"
        patchelf --force-rpath --set-rpath "\$ORIGIN/lib" "$OUT/$target"
        (cd "$WORK/seeds/${target#fuzz_}" && zip -q -r - .) >"$OUT/${target}_seed_corpus.zip"
done
