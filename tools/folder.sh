# shellcheck shell=sh disable=SC2034,SC2154 # ./check uses the list of steps; tools/steps.sh sets $logs and $step
# SPDX-License-Identifier: Apache-2.0
#
# `./check FOLDER...`: what a change of a folder is tried by while it is written.  Sourced by tools/steps.sh.

FOLDER_STEPS='changed-format changed-layers units'
folder_build=${BUILD:-build}

# core, core/base, ...: whatever of src and the trees beside it has C in it.
folders() {
        find src planner simulator -name '*.c' 2>/dev/null |
                sed -n 's|^[a-z]*/\(.*\)/[^/]*$|\1|p' | awk -F / '{ print $1 } NF > 1 { print $1 "/" $2 }' | sort -u
}

# What is meant by core, src/core/, test/unit/core/sum or src/core/sum/slot.c: core, core/sum, core/sum/slot.
folder_of() { # TEXT
        name=${1#./}
        name=${name%/}
        name=${name#test/unit/}
        case $name in
        src/* | planner/* | simulator/*) name=${name#*/} ;;
        esac
        if ! folders | grep -qxF -e "$name"; then
                [ -f "$1" ] && folders | grep -qxF -e "$(dirname "$name")" || return
        fi
        echo "${name%.[ch]}"
}

# Files that differ from where this branch left main, or from the last commit; without git, all.
changed() {
        if ! git rev-parse --verify -q HEAD >/dev/null 2>&1; then
                find . -type f | sed 's|^\./||'
                return
        fi
        from=$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null) || from=HEAD
        {
                git diff --name-only --diff-filter=d "$from"
                git ls-files --others --exclude-standard
        } | sort -u
}

changed_sources() { # PATTERN...
        changed >"$logs/changed"
        sources "$@" | grep -xF -f "$logs/changed"
}

step_changed_format() {
        # shellcheck disable=SC2046  # words are wanted
        set -- $(changed_sources '*.[ch]')
        note "$# files changed"
        [ $# -eq 0 ] && return
        judge clang-format 14 || return
        clang-format --dry-run -Werror "$@"
}

step_changed_layers() {
        # shellcheck disable=SC2046  # words are wanted
        set -- $(changed_sources '*.[ch]' '*.py' '*.sh')
        [ $# -eq 0 ] || sh tools/style-limits.sh "$@" || return
        sh tools/layering.sh
}

# Tests whose program has their own name, by the file that they test: of core/sum those that begin with
# core_sum_.  Where there is none, those of the folder above.
units_of() { # FOLDER
        of=$1
        while :; do
                found=$(python3 tools/meson-results.py --named "$folder_build" "$(echo "$of" | tr / _)") || return
                case $found$of in
                '') return ;;
                */*) [ -n "$found" ] || {
                        of=${of%/*}
                        continue
                } ;;
                esac
                echo "$found"
                return
        done
}

step_units() {
        if [ ! -f "$folder_build/build.ninja" ]; then
                configure "$folder_build" || return
        fi
        ninja -C "$folder_build" --quiet build.ninja || return # knows the tests that are new
        names=
        for folder in $FAN_CHECK_FOLDERS; do
                more=$(units_of "$folder") || return
                [ -n "$more" ] || echo "$folder: no unit program"
                names="$names $more"
        done
        # shellcheck disable=SC2046,SC2086  # words are wanted
        set -- $(printf '%s\n' $names | sort -u)
        note 'no unit program'
        [ $# -gt 0 ] || return 0
        # What uses sockets, and time that passes, does so one at a time.
        rebuild=
        [ -z "${FAN_CHECK_RUN-}" ] || rebuild=--no-rebuild
        case " $FAN_CHECK_FOLDERS" in
        *' lib'* | *' net'*) rebuild="$rebuild --num-processes 1" ;;
        esac
        rm -f "$folder_build/meson-logs/check-$step.json"
        # shellcheck disable=SC2086  # words are wanted
        meson test -C "$folder_build" $rebuild --print-errorlogs --logbase "check-$step" --timeout-multiplier 0 "$@"
        rc=$?
        results "$folder_build" unit --tests "$@" || rc=1
        return $rc
}
