#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# How src/core, src/lib and the documents stand against the bounds that they were arranged by.
#
#     tools/house.sh [BUILD]   a line each: what, how many, its bound; 1: one that has to hold does not
#
# With a build folder, arrows of src/lib are also those of undefined symbols between object files, and
# what a user can set is counted.
set -eu

TYPES_MAX=18
FILES_MAX=1280        # that git tracks, fuzzers' seeds in one archive
BASE_WORDS_MAX=7000   # of what a worker on a star reads
PROTOCOL_WORDS_MAX=18000
FIGURE_WORDS_MAX=8800
ADR_WORDS_MAX=11700
PAGES_WORDS_MAX=83000 # of all pages and manual pages
DECISION_WORDS_MAX=530 # of one page of doc/adr
ASSERTS_MIN=10        # for 1,000 lines of src/core
OTHER_ASSERTS_MIN=5   # for 1,000 lines of src/lib, and of each of these
asserting='src/net src/mpi simulator/sim'
MEMBERS_MAX=38        # of a struct of src/lib
RECORDED_MAX=4500     # lines of JSON and CSV in bench and experiments
C_MAX=70000           # lines of C of the product, tests apart
PYTHON_MAX=16200      # lines of Python in operate and research
CIRCLE_MAX=6          # files of src/lib that reach each other
COMMANDS_MAX=9        # that --help shows
FLAGS_MAX=138         # of these
VARIABLES_MAX=27
FUNCTIONS_MAX=1200    # in headers
rooms='base wire recovery sum worker aggregator switch helper node' # each may include those before it
bad=0

row() { # WHAT COUNT BOUND HOLDS
        printf '%-44s %6s  %s\n' "$1" "$2" "$3"
        [ "$4" = 1 ] || bad=1
}

# What has a letter or a digit; bars of tables have none.
words() { # FILE...
        cat "$@" | tr -s '[:space:]' '\n' | grep -c '[[:alnum:]]' || :
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
base=$(words doc/protocol/base.md)
protocol=$(words doc/protocol/*.md)
figures=$(words bench/README.md experiments/README.md CHANGES.md)
adr=$(words doc/adr/*.md)
# shellcheck disable=SC2046  # words are wanted
pages=$(words README.md $(git ls-files '*.md' '*.scd' ':!README.md' 2>/dev/null)) # none of the others where there is no git
decision=$(for page in doc/adr/*.md; do words "$page"; done | sort -n | tail -n 1)
core=$(cat src/core/*/*.[ch] | wc -l)
asserts=$(grep -hE '(^|[^a-zA-Z_])assert\(' src/core/*/*.[ch] | wc -l)
per=$((asserts * 10000 / core))

row 'arrows between rooms of src/core' "$(echo "$arrows" | wc -l)" '' 1
row '  upward' "$upward" 'none' "$((upward == 0))"
row '  circles' "$circles" 'none' "$((circles == 0))"
row 'message types' "$types" "at most $TYPES_MAX" "$((types <= TYPES_MAX))"
row 'words of doc/protocol' "$protocol" "at most $PROTOCOL_WORDS_MAX" "$((protocol <= PROTOCOL_WORDS_MAX))"
row '  of base.md' "$base" "at most $BASE_WORDS_MAX" "$((base <= BASE_WORDS_MAX))"
row 'words of bench, experiments, CHANGES' "$figures" "at most $FIGURE_WORDS_MAX" "$((figures <= FIGURE_WORDS_MAX))"
row 'words of all pages and manual pages' "$pages" "at most $PAGES_WORDS_MAX" "$((pages <= PAGES_WORDS_MAX))"
row 'words of doc/adr' "$adr" "at most $ADR_WORDS_MAX" "$((adr <= ADR_WORDS_MAX))"
row '  of its longest page' "$decision" "at most $DECISION_WORDS_MAX" "$((decision <= DECISION_WORDS_MAX))"
row 'assertions for 1,000 lines of src/core' "$((per / 10)).$((per % 10))" "at least $ASSERTS_MIN" \
        "$((per >= ASSERTS_MIN * 10))"
row 'lines of src/core' "$core" '' 1
row '  in .c files' "$(cat src/core/*/*.c | wc -l)" '' 1

# src/lib: "FILE OTHER" for each file, ROOM/NAME, that includes a header of another or needs a symbol of it.
build=${1:-}
lib_rooms='base link rank host comm api'
lib_arrows() {
        for room in $lib_rooms; do
                for file in src/lib/"$room"/*.[ch]; do
                        name=$room/$(basename "${file%.*}")
                        sed -n 's|^[ \t]*#[ \t]*include[ \t]*"\([a-z_/]*\)\.h".*|\1|p' "$file" | while read -r other; do
                                case $other in
                                lib/*) other=${other#lib/} ;;
                                */*) continue ;;
                                *) other=$room/$other ;;
                                esac
                                [ "$other" = "$name" ] || echo "$name $other"
                        done
                done
        done
        [ -z "$build" ] || for room in $lib_rooms; do
                for file in src/lib/"$room"/*.c; do
                        name=$(basename "${file%.c}")
                        nm "$build/src/libfaninlib.a.p/lib_${room}_$name.c.o" | sed "s|^|$room/$name |"
                done
        done | awk '
                $(NF - 1) ~ /^[TDBR]$/ { has[$NF] = $1 }
                $(NF - 1) == "U" { needs[++n] = $1 " " $NF }
                END {
                        for (i = 1; i <= n; i++) {
                                split(needs[i], at, " ")
                                if (at[2] in has && has[at[2]] != at[1]) print at[1], has[at[2]]
                        }
                }'
}
lib=$(lib_arrows | sort -u)
lib_upward=$(echo "$lib" | awk -v rooms="$lib_rooms" '
        BEGIN { n = split(rooms, list, " "); for (i = 1; i <= n; i++) at[list[i]] = i }
        { split($1, a, "/"); split($2, b, "/"); if (at[b[1]] > at[a[1]]) count++ }
        END { print count + 0 }')
# "FILE OTHER" on standard input: the files of the largest circle, those that reach each other.
largest_circle() {
        awk '
                { next_of[$1] = next_of[$1] " " $2; file[$1]; file[$2] }
                function walk(from, at, i, list, n) {
                        n = split(next_of[at], list, " ")
                        for (i = 1; i <= n; i++)
                                if (!((from, list[i]) in reach)) { reach[from, list[i]]; walk(from, list[i]) }
                }
                END {
                        for (f in file) walk(f, f)
                        for (f in file) {
                                count = 0
                                for (g in file) if (((f, g) in reach) && ((g, f) in reach)) count++
                                if (count > most) most = count
                        }
                        print most + 0
                }'
}
lib_circle=$(echo "$lib" | largest_circle)
# "FILE OTHER" for each file of a folder that includes a header of another there.
arrows_in() { # FOLDER PARENT, from which its headers are named
        find "$1" -name '*.[ch]' | while read -r file; do
                sed -n 's|^[ \t]*#[ \t]*include[ \t]*"\([a-z0-9_/]*\)\.h".*|\1|p' "$file" | while read -r other; do
                        for header in "$(dirname "$file")/$other" "$2/$other"; do
                                [ -f "$header.h" ] || continue
                                case $header in
                                "${file%.*}") ;;
                                "$1"/*) echo "${file%.*} $header" ;;
                                esac
                                break
                        done
                done
        done
}
lib_asserts=$(grep -hE '(^|[^a-zA-Z_])assert\(' src/lib/*/*.[ch] | wc -l)
lib_lines=$(cat src/lib/*/*.[ch] | wc -l)
members=$(awk '
        /^struct [a-z_]+ \{/ { name = $2; count = 0; inside = 1; next }
        inside && /^\}/ { if (count > most) most = count; inside = 0; next }
        inside { line = $0; gsub(/\/\*[^*]*\*\//, "", line); if (line ~ /^\t[a-z_].*;/) count += gsub(/,/, ",", line) + 1 }
        END { print most + 0 }' src/lib/*/*.[ch])
row 'arrows between files of src/lib' "$(echo "$lib" | wc -l)" '' 1
row '  upward between its rooms' "$lib_upward" 'none' "$((lib_upward == 0))"
row '  files in the largest circle' "$lib_circle" "at most $CIRCLE_MAX" "$((lib_circle <= CIRCLE_MAX))"
row 'members of the largest struct of src/lib' "$members" "at most $MEMBERS_MAX" "$((members <= MEMBERS_MAX))"
lib_per=$((lib_asserts * 10000 / lib_lines))
row 'assertions for 1,000 lines of src/lib' "$((lib_per / 10)).$((lib_per % 10))" "at least $OTHER_ASSERTS_MIN" \
        "$((lib_per >= OTHER_ASSERTS_MIN * 10))"
for folder in $asserting; do
        count=$(cat "$folder"/*.[ch] | grep -cE '(^|[^a-zA-Z_])assert\(')
        per=$((count * 10000 / $(cat "$folder"/*.[ch] | wc -l)))
        row "  of $folder" "$((per / 10)).$((per % 10))" "at least $OTHER_ASSERTS_MIN" "$((per >= OTHER_ASSERTS_MIN * 10))"
done
lines_of() { # FOLDER...
        find "$@" -name '*.[ch]' -exec cat {} + | wc -l
}
row 'lines of C in src' "$(lines_of src)" '' 1
row '  of it src/core/helper, kept apart' "$(lines_of src/core/helper)" '' 1
product=$(lines_of src planner simulator)
row '  with planner and simulator' "$product" "at most $C_MAX" "$((product <= C_MAX))"
row '  of planner; of simulator; of test' "$(lines_of planner); $(lines_of simulator); $(lines_of test)" '' 1
for folder in src/net src/mpi src/nccl src/cmd planner simulator; do
        case $folder in
        src/*) parent=src ;;
        *) parent=$folder ;;
        esac
        row "largest circle of $folder, by includes" "$(arrows_in "$folder" $parent | sort -u | largest_circle)" '' 1
done
product='src planner simulator include'
# shellcheck disable=SC2086  # words are wanted
headers=$(find $product -name '*.h')
row 'headers' "$(echo "$headers" | wc -l)" '' 1
# shellcheck disable=SC2086
count=$(cat $headers | grep -cE '^[a-z].*[a-z0-9_]\(' || :)
row '  functions in them' "$count" "at most $FUNCTIONS_MAX" "$((count <= FUNCTIONS_MAX))"
# shellcheck disable=SC2086
row 'structs' "$(find $product -name '*.[ch]' -exec cat {} + | grep -cE '^(typedef )?struct [a-z0-9_]* ?\{')" '' 1
row 'files of 570 lines and more' "$(find $product test -name '*.[ch]' -exec wc -l {} + | awk '$2 != "total" && $1 >= 570' | wc -l)" '' 1
# Names of variables that the library lists, but for those that it does not know when they are set,
# and that programs and packages read besides.
variables() {
        names=$(env -i "$build/fanin" probe --settings | grep -o '"name":"[a-z_]*"' | tr 'a-z' 'A-Z' | sed 's/.*:"\(.*\)"/FANIN_\1/')
        # shellcheck disable=SC2046  # words are wanted
        keys=$(env -i $(echo "$names" | sed 's/$/=/') "$build/fanin" probe --settings | grep -o '"name":"FANIN_[A-Z_]*"' | sed 's/.*:"\(.*\)"/\1/')
        echo "$names" | grep -vxF "$keys"
        grep -rhoE 'getenv\("FANIN_[A-Z_]+' src/cmd src/mpi src/nccl | sed 's/.*"//'
        grep -rhoE 'environ(\.get\(|\[)"FANIN_[A-Z_]+' --include='*.py' python | sed 's/.*"//'
}
if [ -n "$build" ]; then
        commands=$("$build/fanin" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
        count=$(echo "$commands" | wc -w)
        row 'subcommands shown by --help' "$count" "at most $COMMANDS_MAX" "$((count <= COMMANDS_MAX))"
        count=$(for command in $commands; do "$build/fanin" "$command" --help; done | grep -cE '^ +(-[^-], +)?--[a-z]')
        row '  flags of all subcommands' "$count" "at most $FLAGS_MAX" "$((count <= FLAGS_MAX))"
        count=$(variables | sort -u | wc -l)
        row 'variables FANIN_*' "$count" "at most $VARIABLES_MAX" "$((count <= VARIABLES_MAX))"
fi
python=$(find python/fanin/operate python/fanin/research -name '*.py' -exec cat {} + | wc -l)
row 'lines of Python in operate and research' "$python" "at most $PYTHON_MAX" "$((python <= PYTHON_MAX))"
recorded=$(find bench experiments \( -name '*.json' -o -name '*.csv' \) -exec cat {} + | wc -l)
row 'lines of recorded JSON and CSV' "$recorded" "at most $RECORDED_MAX" "$((recorded <= RECORDED_MAX))"
row 'pages of doc/adr' "$(find doc/adr -name '*.md' | wc -l)" '' 1
files=$(git ls-files 2>/dev/null | wc -l) # none where there is no git
row 'tracked files' "$files" "at most $FILES_MAX" "$((files <= FILES_MAX))"
exit $bad
