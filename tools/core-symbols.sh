#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The core does no I/O, has no clock and allocates nothing: what its object files ask
# of others is mem* and the end of an assertion, nothing else.
#
#     tools/core-symbols.sh BUILD
#
# And what an object exports is declared where a reader looks for it: of NAME.c in NAME.h, in the
# room's public header ROOM.h, or, for its other files, in ROOM_priv.h; of a policy, and of what
# policies call, in policy.h; of helper/, in the headers of the two rooms that it plugs into.
#
# Looks at every object that BUILD makes from src/core/*/*.c, by the compile database;
# a source without an object is an error, so nothing slips by.  Not for builds with
# sanitizers or coverage, whose runtimes are called everywhere.
set -eu

build=${1:?"tools/core-symbols.sh: expected a build folder"}
database=$build/compile_commands.json
[ -f "$database" ] || { echo "$database: not there; build first" >&2; exit 1; }

# mem*: bcmp is clang's memcmp for equality, *_chk are _FORTIFY_SOURCE's.
# The compiler's own: stack protector, CPU dispatch, bit counts without an instruction.
allowed='memcpy memmove memset memcmp memchr bcmp __memcpy_chk __memmove_chk __memset_chk
__assert_fail __stack_chk_fail
__cpu_model __cpu_features2 __cpu_indicator_init __popcountdi2 _GLOBAL_OFFSET_TABLE_'

# "SOURCE OBJECT" for each entry of the database about src/core.
objects() {
        awk -F '"' '
                $2 == "file" { file = $4 }
                $2 == "output" { output = $4 }
                /^ *}/ {
                        if (file ~ /(^|\/)src\/core\/[a-z0-9_\/]*\.c$/)
                                print file, output
                        file = output = ""
                }' "$database"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
objects >"$work/objects"

status=0
for source in src/core/*/*.c; do
        grep -q "$source " "$work/objects" || {
                echo "$source: $build makes no object from it"
                status=1
        }
done

# shellcheck disable=SC2086  # words are wanted
printf '%s\n' $allowed >"$work/known"
while read -r _ object; do
        nm --defined-only -P "$build/$object" | cut -d ' ' -f 1 >>"$work/known"
done <"$work/objects"
sort -u -o "$work/known" "$work/known"

# The headers of its folder that may declare what SOURCE exports.
headers_of() { # SOURCE
        folder=$(dirname "$1")
        room=$(basename "$folder")
        name=$(basename "$1" .c)
        set -- "$name.h" "$room.h" "${room}_priv.h"
        case $room/$name in
        switch/policy_* | switch/switch) set -- "$@" policy.h ;;
        recovery/congestion_*) set -- "$@" congestion.h ;;
        helper/*) set -- "$@" ../worker/worker_helper.h ../switch/policy.h ;;
        esac
        for header; do
                [ ! -f "$folder/$header" ] || echo "$folder/$header"
        done
}

while read -r source object; do
        source=src/${source##*src/}
        headers=$(headers_of "$source")
        # Names with a dot are no C: clang's resolvers of functions for several processors.
        nm --extern-only --defined-only -P "$build/$object" | cut -d ' ' -f 1 |
                sed '/\./d' >"$work/exports"
        policy=$(basename "$source" .c)
        policy=${policy#*_}
        while read -r symbol; do
                # The object of a policy, or of a congestion control, is declared by its line.
                case $symbol in
                fan_policy_"$policy" | fan_congestion_"$policy")
                        ! grep -q "^	X([A-Z0-9_]*, $policy)" src/core/base/policy_kind.h \
                                src/core/recovery/congestion.h || continue
                        ;;
                esac
                # shellcheck disable=SC2086  # words are wanted
                [ -n "$headers" ] && grep -qw "$symbol" $headers || {
                        echo "$source: exports \"$symbol\", which none of these declares:" $headers
                        status=1
                }
        done <"$work/exports"
done <"$work/objects"

count=0
while read -r source object; do
        count=$((count + 1))
        nm -u -P "$build/$object" | cut -d ' ' -f 1 | sort -u >"$work/wanted"
        comm -23 "$work/wanted" "$work/known" >"$work/foreign"
        while read -r symbol; do
                echo "src/${source##*src/}: links \"$symbol\"; the core may link mem* and assert only"
                status=1
        done <"$work/foreign"
done <"$work/objects"

echo "$build: $count objects of src/core"
[ "$count" -gt 0 ] || { echo "$build: no object of src/core found"; status=1; }
exit $status
