#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run one step of ./check, keep its log and write down how it ended.
#
#     tools/step.sh NAME         a name from "./check --list"
#     tools/step.sh --inner NAME     only the work, output to the terminal
#
# build/logs/NAME.log      what it printed
# build/logs/NAME.result   lines "passed|failed|skipped<TAB>what<TAB>seconds<TAB>note",
#                          one for each thing that counts; written last, in one go
# build/logs/NAME.cpu      seconds of processor time of all that it ran
# build/logs/NAME.seconds  how long it took
#
# The work itself is a function of tools/steps.sh: status 0 passed, 77 skipped, else
# failed.  It ends after LIMIT_S seconds whatever it does; what other work on the machine
# takes does not count (tools/limit.py).
#
# FAN_CHECK_RUN=1: part of a whole run, so builds are not begun again here, and the
# result of the build that a step needs is looked up.
set -u

root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$root" || exit 1
logs=${FAN_CHECK_LOGS:-build/logs}
LIMIT_S=${FAN_STEP_LIMIT_S:-900}

# Every line of the step's end is written by one command, since two may end at once.
line() { # WORD NAME SECONDS NOTE
        printf '  %-8s %-16s %4s s %4s cpu  %s\n' "$1" "$2" "$3" "$(cat "$logs/$2.cpu")" "$4"
}

report() { # STATUS NAME SECONDS NOTE
        case $1 in
        passed) line passed "$2" "$3" "$4" ;;
        skipped) line SKIPPED "$2" "$3" "$4" ;;
        failed)
                {
                        line FAILED "$2" "$3" "$4"
                        echo "    | the end of $logs/$2.log:"
                        tail -n 40 "$logs/$2.log" | sed 's/^/    | /'
                        if [ -n "${FAN_CHECK_FOLDERS-}" ]; then
                                echo "    | again:  ./check$FAN_CHECK_FOLDERS"
                        else
                                echo "    | again, this one alone:  ./check --only $2"
                        fi
                } >"$logs/$2.report"
                cat "$logs/$2.report"
                rm -f "$logs/$2.report"
                ;;
        esac
}

# A step that counts one by one leaves NAME.counts; any other counts as one thing.
record() { # STATUS NAME SECONDS NOTE
        if [ -s "$logs/$2.counts" ]; then
                cat "$logs/$2.counts"
                if [ "$1" = failed ] && ! grep -q '^failed' "$logs/$2.counts"; then
                        printf 'failed\t%s\t%s\t%s\n' "$2" "$3" "$4"
                fi
        else
                printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"
        fi >"$logs/$2.part"
        mv "$logs/$2.part" "$logs/$2.result"
}

note_of() { # NAME STATUS
        left=$(head -n 1 "$logs/$1.note" 2>/dev/null)
        case $2 in
        0) echo "$left" ;;
        77) grep 'SKIPPED' "$logs/$1.log" | tail -n 1 | sed 's/^ *SKIPPED:* *//' ;;
        124) echo "ended after $LIMIT_S s, its limit" ;;
        *)
                why=$(grep '^FAILED' "$logs/$1.log" | tail -n 1 | cut -c 1-300)
                left=${why:-$left}
                echo "exit status $2${left:+; }$left"
                ;;
        esac
}

if [ "${1-}" = --inner ]; then
        # shellcheck source=tools/steps.sh
        . tools/steps.sh
        run_step "$2"
        exit
fi

name=${1:?"tools/step.sh: expected the name of a step"}
mkdir -p $logs || exit 1
rm -f "$logs/$name.result" "$logs/$name.counts" "$logs/$name.note"
priority=
case ${FAN_CHECK_LANE-} in
computing) priority='nice -n 10' ;; # what waits goes first; but other work on the machine lets it go on
esac
if [ -n "${FAN_CHECK_LANE-}" ]; then
        printf '  start    %s\n' "$name"
fi

# A background process would ignore SIGINT, and what it starts as well.
begin_s=$(date +%s)
# shellcheck disable=SC2086  # words are wanted
env --default-signal=INT $priority tools/limit.py "$LIMIT_S" sh tools/step.sh --inner "$name" \
        </dev/null >"$logs/$name.log" 2>&1 &
work=$!
trap 'kill -TERM $work 2>/dev/null; wait $work; exit 143' INT TERM HUP
wait $work
rc=$?
trap - INT TERM HUP
seconds=$(($(date +%s) - begin_s))

# The second line of `times` is about ended children: 1m2.34s 0m5.67s.
times >"$logs/$name.part"
echo $seconds >"$logs/$name.seconds"
awk -F '[ms ]+' 'NR == 2 { printf "%.0f\n", $1 * 60 + $2 + $3 * 60 + $4 }' "$logs/$name.part" >"$logs/$name.cpu"

note=$(note_of "$name" $rc)
case $rc in
0) status=passed ;;
77) status=skipped ;;
*) status=failed ;;
esac
record $status "$name" $seconds "$note"
report $status "$name" $seconds "$note"
[ $status != failed ]
