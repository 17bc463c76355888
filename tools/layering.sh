#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Who may include whom.  One table; everything else is an error.
#
#     tools/layering.sh
set -eu

# Freestanding headers, string.h for mem*, and the compilers' intrinsics, which are
# instructions and link nothing.
pure='assert.h float.h limits.h stdalign.h stdbool.h stddef.h stdint.h string.h'
intrinsics='immintrin.h nmmintrin.h smmintrin.h emmintrin.h cpuid.h arm_neon.h arm_acle.h'

# FOLDER, and the folders whose headers it may include with "..."; "*" before a list
# of <...>: any.  fanin.h is the public header.
layers="
src/core/base       | core/base                                     | $pure $intrinsics
src/core/wire       | core/wire core/base                           | $pure $intrinsics
src/core/recovery   | core/recovery core/base                       | $pure $intrinsics
src/core/sum        | core/sum core/wire core/base                  | $pure $intrinsics
src/core/worker     | core/worker core/sum core/recovery core/wire core/base | $pure $intrinsics
src/core/aggregator | core/aggregator core/worker core/sum core/recovery core/wire core/base | $pure $intrinsics
src/core/switch     | core/switch core/sum core/recovery core/wire core/base | $pure $intrinsics
src/core/helper     | core/helper core/switch core/worker core/sum core/recovery core/wire core/base | $pure $intrinsics
src/core/node       | core/node core/aggregator core/switch core/wire core/base | $pure $intrinsics
src/file | file           | *
src/seal | seal file core | *
src/net  | net seal file core | *
src/lib/base | lib/base net seal file core . | *
src/lib/link | lib/link lib/base net seal file core . | *
src/lib/rank | lib/rank lib/link lib/base net seal file core . | *
src/lib/host | lib/host lib/rank lib/link lib/base net seal file core . | *
src/lib/comm | lib/comm lib/host lib/rank lib/link lib/base net seal file core . | *
src/lib/api | lib net seal file core . | *
src/mpi  | mpi lib net seal file core . | *
src/nccl | nccl lib net seal file core . | *
src/cmd  | cmd lib net seal file core . | *
planner/plan   | plan file core | *
planner/cmd    | cmd plan core . | *
simulator/sim  | sim file core  | *
simulator/cmd  | cmd sim file core . | *
simulator/lab  |                |
include  |                | stddef.h stdint.h
"

# "FOLDER FILE", of each row.
files=$(echo "$layers" | cut -d '|' -f 1 | while read -r folder; do
        [ -z "$folder" ] || [ ! -d "$folder" ] || find "$folder" -type f -name '*.[ch]' | sort | sed "s|^|$folder |"
done)

# Whatever an #include names and its row does not.
complaints=$(
        echo "$files" | awk -v layers="$layers" '
                BEGIN {
                        count = split(layers, rows, "\n")
                        for (i = 1; i <= count; i++) {
                                split(rows[i], row, "|")
                                gsub(/ /, "", row[1])
                                own[row[1]] = words(row[2])
                                system_of[row[1]] = words(row[3])
                        }
                }
                function words(text) {
                        gsub(/ +/, " ", text)
                        gsub(/^ | $/, "", text)
                        return text
                }
                function has(list, word) { return index(" " list " ", " " word " ") > 0 }
                function folder_of(path) { sub("/[^/]*$", "", path); return path }
                # src, planner and simulator are where the compiler looks: core/wire of src/core/wire.
                function inside(folder) { sub("^(src|planner|simulator)/", "", folder); return folder }
                # The folder of "NAME" as a file includes it: core/wire, net, cmd/bench...; "." for include/.
                function owner(file, name) {
                        if (name ~ /\.(skel\.h|inc)$/) # made by the build, of a file of this folder
                                return inside(folder_of(file))
                        if (name ~ "/")
                                return folder_of(name)
                        if ((folder_of(file) "/" name) in known)
                                return inside(folder_of(file))
                        return ("include/" name) in known ? "." : "?"
                }
                function read(file, of,   number, line, name, form, from, top) {
                        for (number = 1; (getline line < file) > 0; number++) {
                                if (line !~ /^[ \t]*#[ \t]*include[ \t]*[<"][^>"]*[>"]/)
                                        continue
                                form = line ~ /^[ \t]*#[ \t]*include[ \t]*</ ? "<" : "\""
                                sub(/^[ \t]*#[ \t]*include[ \t]*[<"]/, "", line)
                                sub(/[>"].*/, "", line)
                                name = line
                                sub(".*/", "", name)
                                if (form == "<") {
                                        if (!has(system_of[of], name) && system_of[of] != "*")
                                                printf "%s:%d: includes <%s>; %s may include: %s\n",
                                                       file, number, line, of, system_of[of]
                                        continue
                                }
                                from = owner(file, line)
                                top = from
                                sub("/.*", "", top)
                                if (!has(own[of], from) && !has(own[of], top))
                                        printf "%s:%d: includes \"%s\"; %s may include: %s\n",
                                               file, number, line, of, own[of] == "" ? "nothing" : own[of]
                        }
                        close(file)
                }
                { folder[NR] = $1; path[NR] = $2; known[$2] }
                END {
                        for (i = 1; i <= NR; i++)
                                read(path[i], folder[i])
                }'
        grep -rnE '^[ \t]*#[ \t]*if.*(FAN_|\b)SIM(ULAT|_|\b)' src/core 2>/dev/null |
                sed 's/$/   <- the core is the same in the simulator/'
        :
)

if [ -n "$complaints" ]; then
        echo "$complaints"
        exit 1
fi
for dir in src/*/ src/core/*/ src/lib/*/ planner/*/ simulator/*/; do
        echo "$layers" | grep -q "^${dir%/}[ /]" || {
                echo "${dir%/}: not in the table of tools/layering.sh"
                exit 1
        }
done
echo "layers hold"
