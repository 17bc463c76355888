#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What clang-format does not see: functions of at most 70 lines, files of at most 600,
# a licence line at the top, no trailing blanks, a newline at the end; in programs, includes in
# their order: NAME.c's own NAME.h or NAME_priv.h, <system>, "project", a blank line between.
#
#     tools/style-limits.sh [FILE...]      all sources when none is named
set -eu

FUNCTION_LINES=70
FILE_LINES=600

if [ $# -eq 0 ]; then
        # shellcheck disable=SC2046  # words are wanted
        set -- demo check .ci/run $(find src planner simulator include test bench examples tools -type f \
                \( -name '*.[ch]' -o -name '*.cc' -o -name '*.py' -o -name '*.sh' \) \
                2>/dev/null | sort)
fi

# A C function runs from the last line that began in column 1 before its "{", up to
# its "}", both in column 1: the way clang-format lays them out.
awk -v function_lines=$FUNCTION_LINES -v file_lines=$FILE_LINES '
        function complain(line, text) {
                printf "%s:%d: %s\n", FILENAME, line, text
                bad = 1
        }
        function close_file() {
                if (file != "" && !licensed)
                        printf "%s:1: no SPDX-License-Identifier in the first lines\n", file
                if (file != "" && last > file_lines)
                        printf "%s:%d: file of %d lines, at most %d\n", file, last, last,
                               file_lines
                if (file != "" && (!licensed || last > file_lines))
                        bad = 1
        }
        FNR == 1 {
                close_file(); file = FILENAME; licensed = 0; head = 1; inside = 0; files++
                name = file
                sub(/.*\//, "", name)
                sub(/\.[a-z]+$/, "", name)
                kind = last_kind = ""
                depth = file ~ /\.c$/ ? 0 : -1 # a header is all inside its guard
        }
        { last = FNR }
        FNR <= 4 && /SPDX-License-Identifier: Apache-2.0/ { licensed = 1 }
        /[ \t]+$/ { complain(FNR, "blanks at the end") }
        FILENAME !~ /\.(c|h|cc)$/ { next }
        /^#[ \t]*if/ { depth++ }
        /^#[ \t]*endif/ { depth-- }
        /^#include/ && FILENAME ~ /^(src|planner|simulator)\// && !depth {
                kind = $2 ~ /^</ ? "system" : "project"
                if (FILENAME ~ /\.c$/ && ($2 == "\"" name ".h\"" || $2 == "\"" name "_priv.h\""))
                        kind = "own"
                if (last_kind != "" && kind == "own" && last_kind != "own")
                        complain(FNR, "its own header comes first")
                if (last_kind == "project" && kind == "system")
                        complain(FNR, "a system header comes before headers of the project")
                if (last_kind != "" && last_kind != kind && include_at == FNR - 1)
                        complain(FNR, "expected a blank line before the next kind of header")
                last_kind = kind
                include_at = FNR
        }
        !inside && /^[A-Za-z_]/ { head = FNR }
        /^\{$/ { inside = 1 }
        inside && /^\}/ {
                inside = 0
                functions++
                if (FNR - head + 1 > function_lines)
                        complain(head, sprintf("function of %d lines, at most %d",
                                               FNR - head + 1, function_lines))
        }
        END {
                close_file()
                if (!bad)
                        printf "%d files, %d functions\n", files, functions
                exit bad
        }' "$@"

status=0
for file; do
        [ -z "$(tail -c 1 "$file")" ] || {
                echo "$file: no newline at the end"
                status=1
        }
done
exit $status
