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
src/cmd  | cmd lib net seal file core . | *
xdp            | xdp net core   | *
page           | page cmd       | *
planner/plan   | plan core      | *
planner/ctl    | ctl plan core  | *
planner/cmd    | cmd ctl plan page net file core . | *
simulator/sim  | sim file core  | *
simulator/cmd  | cmd sim page file core . | *
simulator/lab  |                |
include  |                | stddef.h stdint.h
"

# "FOLDER FILE LINE FORM NAME" for each #include of a folder; FORM is < or ".
includes() { # FOLDER
        find "$1" -type f -name '*.[ch]' | sort | while read -r file; do
                sed -n 's/^[ \t]*#[ \t]*include[ \t]*\([<"]\)\([^>"]*\)[>"].*/\1 \2/p;t
                        s/.*/-/p' "$file" |
                        awk -v file="$file" '$1 != "-" { print file, NR, $1, $2 }'
        done
}

# src, planner and simulator are where the compiler looks: core/wire of src/core/wire.
inside() { # FOLDER
        case $1 in
        src/* | planner/* | simulator/*) echo "${1#*/}" ;;
        *) echo "$1" ;;
        esac
}

# The folder of "NAME" as FILE includes it: core/wire, net, cmd/bench...; "." for include/.
owner() { # FILE NAME
        case $2 in
        *.skel.h) # made by the build, of a program of this folder
                here=$(dirname "$1")
                inside "$here"
                ;;
        */*) echo "${2%/*}" ;;
        *)
                if [ -f "$(dirname "$1")/$2" ]; then
                        here=$(dirname "$1")
                        inside "$here"
                elif [ -f "include/$2" ]; then
                        echo .
                else
                        echo "?"
                fi
                ;;
        esac
}

in_list() { # WORD WORDS
        case " $2 " in
        *" $1 "*) return 0 ;;
        esac
        return 1
}

complaints=$(
        echo "$layers" | sed 's/ *| */|/g' | while IFS='|' read -r folder own system; do
                if [ -z "$folder" ] || [ ! -d "$folder" ]; then
                        continue
                fi
                includes "$folder" | while read -r file line form name; do
                        where="$file:$line: includes"
                        if [ "$form" = "<" ]; then
                                in_list "${name##*/}" "$system" || [ "$system" = "*" ] ||
                                        echo "$where <$name>; $folder may include: $system"
                        else
                                own_folder=$(owner "$file" "$name")
                                in_list "$own_folder" "$own" || in_list "${own_folder%%/*}" "$own" ||
                                        echo "$where \"$name\"; $folder may include: ${own:-nothing}"
                        fi
                done
        done
        grep -rnE '^[ \t]*#[ \t]*if.*(FAN_|\b)SIM(ULAT|_|\b)' src/core 2>/dev/null |
                sed 's/$/   <- the core is the same in the simulator/'
        :
)

if [ -n "$complaints" ]; then
        echo "$complaints"
        exit 1
fi
for dir in src/*/ src/core/*/ src/lib/*/ page/ xdp/ planner/*/ simulator/*/; do
        echo "$layers" | grep -q "^${dir%/}[ /]" || {
                echo "${dir%/}: not in the table of tools/layering.sh"
                exit 1
        }
done
echo "layers hold"
