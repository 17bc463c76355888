#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts inside bare systems leave for ./check: lines of build/NAME.result, as tools/step.sh
# writes them.  Sourced by .ci/run and the scripts that .ci/bare runs.

result() { # STATUS NAME SECONDS NOTE
        printf '%s\t%s\t%d\t%s\n' "$1" "$2" "$3" "$4"
}

# ./demo, as NAME in build/NAME.result.
demo_result() { # NAME ARGUMENT...
        name=$1
        shift
        begin_s=$(date +%s)
        echo "ci: ./demo $*"
        status=0
        ./demo "$@" || status=$?
        if [ $status -eq 0 ]; then
                result passed "$name" $(($(date +%s) - begin_s)) ''
        else
                echo "ci: ./demo: exit status $status" >&2
                result failed "$name" $(($(date +%s) - begin_s)) "exit status $status"
        fi >"build/$name.result"
}

# Results of another system, with its name before theirs.
prefixed() { # PREFIX FILE...
        prefix=$1
        shift
        awk -F '\t' -v OFS='\t' -v prefix="$prefix" '{ $2 = prefix $2; print }' "$@"
}
