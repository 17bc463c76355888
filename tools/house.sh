#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# How src/core and the protocol stand against the bounds that they were arranged by.
#
#     tools/house.sh       a line each: what, how many, its bound; 1: one that has to hold does not
set -eu

TYPES_MAX=18
BASE_LINES_MAX=700    # of what a worker on a star reads
ASSERTS_MIN=10        # for 1,000 lines of src/core
CORE_LINES_ASKED=10500 # not held: CHANGES has what came after it was asked
rooms='base wire recovery sum worker aggregator switch node' # each may include those before it
bad=0

row() { # WHAT COUNT BOUND HOLDS
        printf '%-44s %6s  %s\n' "$1" "$2" "$3"
        [ "$4" = 1 ] || bad=1
}

# "ROOM OTHER" for each room that includes a header of another.
arrows=$(
        for room in $rooms; do
                sed -n 's|^[ \t]*#[ \t]*include[ \t]*"core/\([a-z]*\)/.*|\1|p' src/core/"$room"/*.[ch] |
                        sort -u | while read -r other; do
                        [ "$other" = "$room" ] || echo "$room $other"
                done
        done
)
upward=$(echo "$arrows" | awk -v rooms="$rooms" '
        BEGIN { n = split(rooms, list, " "); for (i = 1; i <= n; i++) at[list[i]] = i }
        !($2 in at) || at[$2] > at[$1] { count++ }
        END { print count + 0 }')
circles=$(echo "$arrows" | tsort 2>&1 >/dev/null | grep -c 'contains a loop' || :)
types=$(grep -cE '^[[:blank:]]+X\([A-Z]+, [0-9]+,' src/core/wire/wire.h)
base=$(wc -l <doc/protocol/base.md)
core=$(cat src/core/*/*.[ch] | wc -l)
asserts=$(grep -hE '(^|[^a-zA-Z_])assert\(' src/core/*/*.[ch] | wc -l)
per=$((asserts * 10000 / core))

row 'arrows between rooms of src/core' "$(echo "$arrows" | wc -l)" '' 1
row '  upward' "$upward" 'none' "$((upward == 0))"
row '  circles' "$circles" 'none' "$((circles == 0))"
row 'message types' "$types" "at most $TYPES_MAX" "$((types <= TYPES_MAX))"
row 'lines of doc/protocol/base.md' "$base" "at most $BASE_LINES_MAX" "$((base <= BASE_LINES_MAX))"
row 'assertions for 1,000 lines of src/core' "$((per / 10)).$((per % 10))" "at least $ASSERTS_MIN" \
        "$((per >= ASSERTS_MIN * 10))"
row 'lines of src/core' "$core" "$CORE_LINES_ASKED asked, not held" 1
row '  in .c files' "$(cat src/core/*/*.c | wc -l)" '' 1
exit $bad
