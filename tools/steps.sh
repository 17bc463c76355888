# shellcheck shell=sh disable=SC2034  # ./check uses the lists at the end
# SPDX-License-Identifier: Apache-2.0
#
# What ./check is made of: one function a step, "step_" and its name with _ for -.
# Sourced by tools/step.sh, which runs one of them in the repository's root, and by
# ./check, which only asks for the lists at the end.
#
# A function ends with 0 (passed), 77 (skipped; its output says why on a line that
# starts with SKIPPED) or anything else (failed).  It may leave one line about how
# it went with `note`, and several counted results in $logs/NAME.counts.

logs=${FAN_CHECK_LOGS:-build/logs}

# shellcheck source=tools/folder.sh
. tools/folder.sh

FUZZ_SECONDS=${FAN_FUZZ_SECONDS:-1} # for each target
SIM_SEEDS=${FAN_SIM_SEEDS:-500}     # of the random-fault simulation
SIM_SEEDS_ASAN=${FAN_SIM_SEEDS_ASAN:-100}
JOB_SEEDS=${FAN_SIM_SEEDS:-120} # of whole jobs, of each kind: they take ten times as long

note() { # TEXT
        echo "$*" >"$logs/$step.note"
}

run_step() { # NAME
        step=$1
        case $step in
        fuzz-?*) step_fuzz "${step#fuzz-}" ;;
        ns-?*) step_namespace "${step#ns-}" ;;
        *[!a-z-]*)
                echo "\"$step\": no such step; ./check --list names them"
                return 2
                ;;
        *)
                function=step_$(echo "$step" | tr - _)
                if ! command -v "$function" >/dev/null; then
                        echo "\"$step\": no such step; ./check --list names them"
                        return 2
                fi
                "$function"
                ;;
        esac
}

# ---- what is looked at -------------------------------------------------------

C_TREES='src planner simulator page'

sources() { # PATTERN...: files of these, include, test, bench, examples by name
        for pattern; do
                for dir in $C_TREES include test bench examples; do
                        [ -d $dir ] && find $dir -type f -name "$pattern"
                done
        done | sort
}

scripts() { # every sh script of the repository
        echo demo
        echo check
        find .ci -type f | sort
        find tools test bench -type f -name '*.sh' | sort
        find tools test bench -type f ! -name '*.*' -exec grep -l '^#!/bin/sh' {} + | sort
}

# Each version lays out, or finds, something else: one of them is the judge, which Debian 12 has.  With
# another 77, with none 1.
judge() { # TOOL VERSION
        found=$("$1" --version 2>&1 | grep -o '[0-9][0-9.]*' | head -n 1)
        case $found in
        "$2" | "$2".*) return 0 ;;
        '')
                echo "$1: not here, or it does not say its version"
                return 1
                ;;
        esac
        echo "SKIPPED: version $2 of $1 is the judge (Debian 12), $found is here"
        return 77
}

step_format() {
        judge clang-format 14 || return
        # shellcheck disable=SC2046  # words are wanted
        set -- $(sources '*.[ch]')
        note "$# files"
        clang-format --dry-run -Werror "$@"
}

step_style() { sh tools/style-limits.sh; }

step_layering() { sh tools/layering.sh && sh tools/house.sh; }

step_scripts() {
        begin_s=$(date +%s)
        bad=0
        count=0
        for script in $(scripts); do
                count=$((count + 1))
                sh -n "$script" || bad=1
                [ -x "$script" ] || grep -q '^# shellcheck shell=sh' "$script" || {
                        echo "$script: not executable"
                        bad=1
                }
        done
        note "$count scripts, shellcheck as well"
        if ! judge shellcheck 0.9; then
                note "$count scripts, syntax only"
                printf 'skipped\tshellcheck\t0\t%s\n' 'version 0.9 is the judge (Debian 12), which is not here' >"$logs/$step.counts"
                [ $bad -eq 0 ] && status=passed || status=failed
                printf '%s\tscripts\t%d\t%s\n' $status $(($(date +%s) - begin_s)) "$count scripts" >>"$logs/$step.counts"
                return $bad
        fi
        # shellcheck disable=SC2046  # words are wanted
        shellcheck -x -S warning $(scripts) src/cmd/completion/fanin.bash || bad=1
        return $bad
}

step_man() {
        count=0
        for page in doc/man/*.scd; do
                [ -f "$page" ] || return 1
                echo "$page"
                scdoc <"$page" >/dev/null || return 1
                count=$((count + 1))
        done
        note "$count pages"
}

step_links() {
        tools/pictures.py --check && tools/figures.py && tools/words.py --bounds && test/ops/paths --look && tools/site.py build/site && python3 tools/doc-links.py || return
        note "$(tail -n 1 "$logs/$step.log")"
}

# ---- builds ------------------------------------------------------------------

# A folder that exists keeps its options, but is configured anew: a package that was
# missing then (cmocka, after ./demo) would stay missing.  The planner has to be there, and warnings
# are errors here alone: a later compiler's must not stop who only wants to run fanin.
configure() { # FOLDER OPTION...
        folder=$1
        shift
        set -- -Dwerror=true -Dplanner=enabled "$@"
        if [ -f "$folder/build.ninja" ]; then
                meson setup --reconfigure "$folder" "$@"
        else
                meson setup "$folder" "$@"
        fi
}

build() { # FOLDER OPTION...
        configure "$@" && ninja -C "$1" all tests
}

# Lines for backtraces, no variables.  What fails ends the program, so nothing is compiled to go on.
# Only what computes for long is optimised (`hot` in src/meson.build), but all of it a little for fuzzers.
SANITIZE='-Dbuildtype=debugoptimized -Db_lundef=false -Dmpi=disabled'
SOME_HOT='-Doptimization=0'
SANITIZE_ARGS='-g1 -fno-sanitize-recover=all'

step_build_gcc() {
        CC=gcc build build && ninja -C build benches || return
        # Whoever changes a line of src waits for no test.
        ! ninja -C build -t inputs all | grep -E '^(test|bench)/' || return
}

# LLVM's linker takes half of the processor time of the other for a program with a sanitizer.
# What clang makes of core's loops, and what clang-tidy includes; all else, and the tests, it compiles in
# build-asan, which other runs than the whole one lack.
step_build_clang() {
        CC=clang CC_LD=lld configure build-clang $SOME_HOT || return
        if [ "${FAN_CHECK_KIND-}" = whole ]; then
                # shellcheck disable=SC2046  # words are wanted
                ninja -C build-clang src/libfancore.a $(ninja -C build-clang -t targets all |
                        sed -nE 's/^(src\/[a-z.]*\.inc): .*/\1/p')
        else
                ninja -C build-clang fanin fanin-planner
        fi
}

step_build_asan() {
        # shellcheck disable=SC2086  # words are wanted
        CC=clang CC_LD=lld build build-asan $SANITIZE $SOME_HOT -Db_sanitize=address,undefined -Dc_args="$SANITIZE_ARGS"
}

# gcc's sanitizers keep it from proving what -Wconversion asks: what builds without them may not build with
# them.  Compiled only as far as that.
step_gcc_sanitizers() {
        need build-gcc || return
        # shellcheck disable=SC2086  # words are wanted
        find $C_TREES -name '*.c' | grep -v '^src/mpi/' | xargs -P 2 -n 40 gcc -fsyntax-only -fsanitize=address,undefined -Wall -Wextra -Werror \
                -Wconversion -Wshadow -Wno-sign-conversion -std=c11 -D_GNU_SOURCE -DFAN_BUILD_VERSION='"0"' \
                -DFAN_BUILD_FEATURES='""' -Iinclude -Isrc -Iplanner -Isimulator -I. -Ibuild -Ibuild/src -isystem /usr/include/coin
}

step_build_tsan() {
        # shellcheck disable=SC2046,SC2086  # words are wanted
        CC=clang CC_LD=lld configure build-tsan $SANITIZE $SOME_HOT -Db_sanitize=thread -Dc_args=-g1 &&
                ninja -C build-tsan fanin fanin-planner $(python3 tools/meson-results.py --programs build-tsan net)
}

step_build_fuzz() {
        # shellcheck disable=SC2046,SC2086  # words are wanted
        CC=clang CC_LD=lld configure build-fuzz $SANITIZE -Doptimization=1 -Db_sanitize=address,undefined \
                -Dfuzz=true -Dc_args="$SANITIZE_ARGS -fsanitize=fuzzer-no-link" &&
                ninja -C build-fuzz test/fuzz/corpora.list $(fuzz_steps | sed 's|^fuzz-|test/fuzz/fuzz_|')
}

# In a whole run the builds were done before; alone, a step builds what it needs.
need() { # STEP: build-gcc, build-clang, ...
        if [ -z "${FAN_CHECK_RUN-}" ]; then
                step_"$(echo "$1" | tr - _)"
                return
        fi
        if ! grep -q '^passed' "$logs/$1.result" 2>/dev/null; then
                echo "Did not run: $1 failed."
                note "did not run: $1 failed"
                return 1
        fi
}

# ---- what needs a build, but does not run it ---------------------------------

step_core_symbols() {
        need build-gcc && need build-clang &&
                sh tools/core-symbols.sh build && sh tools/core-symbols.sh build-clang
}

step_hardening() { need build-gcc && sh tools/hardening-test.sh build; }

step_lib_symbols() { need build-gcc && sh tools/lib-symbols.sh build && sh tools/house.sh build; }

step_install() { need build-gcc && sh tools/install-test.sh build; }

step_abi() { sh tools/abi-test.sh; }

step_pages() {
        need build-gcc || return
        test/ops/pages build/fanin || return
        note "$(tail -n 1 "$logs/$step.log")"
        test/ops/live build/fanin
}

step_cppcheck() {
        need build-gcc || return # which makes strings of pages and styles
        judge cppcheck 2.10 || return
        # cppcheck cannot know that cmocka's macros end a function, hence no test/
        mkdir -p build/cppcheck
        # shellcheck disable=SC2086  # words are wanted
        cppcheck --enable=warning,performance,portability --std=c11 --inline-suppr --quiet \
                --error-exitcode=1 --cppcheck-build-dir=build/cppcheck \
                --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
                -D__x86_64__ -D_GNU_SOURCE -D__GNUC__=12 -DFAN_BUILD_VERSION='""' -DFAN_BUILD_FEATURES='""' \
                -I include -I src -I planner -I simulator -I . -I build -I build/src $C_TREES
}

# Of a function the analyser looks at this many states; clang's own number is 225,000.
TIDY_STATES=${FAN_TIDY_STATES:-20000}

step_clang_tidy() {
        need build-clang || return
        judge clang-tidy 14 || return
        # shellcheck disable=SC2086  # words are wanted
        files=$(find $C_TREES -name '*.c' ! -name '*.bpf.c' | sort) # which is not for this machine's compiler
        set --
        for word in -Xclang -analyzer-config -Xclang "max-nodes=$TIDY_STATES"; do
                set -- "$@" "--extra-arg=$word"
        done
        # shellcheck disable=SC2086  # words are wanted
        tools/tidy.py build-clang build/tidy $files -- "$@" || return
        note "$(tail -n 1 "$logs/$step.log")"
}

# ---- tests -------------------------------------------------------------------

# One result for each test that Meson knows in the suites, run or not.  Meson's own time-outs are of the clock,
# so what hangs is ended, and named, by the step's limit.
suites() { # FOLDER LABEL SUITE...
        folder=$1
        label=$2
        shift 2
        rm -f "$folder/meson-logs/check-$step.json"
        options=
        for suite; do
                options="$options --suite $suite"
        done
        # shellcheck disable=SC2086  # words are wanted
        meson test -C "$folder" --no-rebuild --print-errorlogs --logbase "check-$step" --timeout-multiplier 0 \
                ${TEST_OPTIONS-} $options
        rc=$?
        results "$folder" "$label" "$@" || rc=1
        return $rc
}

# What `meson test` has left in the folder, counted one by one.
results() { # FOLDER LABEL SUITE... | --tests NAME...
        from=$1
        shift
        python3 tools/meson-results.py "$from" "$from/meson-logs/check-$step.json" "$@" >"$logs/$step.counts"
        bad=$?
        note "$(awk -F '\t' '{ n[$1]++ } END { printf "%d passed, %d failed, %d skipped",
                n["passed"], n["failed"], n["skipped"] }' "$logs/$step.counts")"
        return $bad
}

# Without the suite "seeds": steps faults, scenarios and test-asan run these, and many more.
step_test_gcc() {
        need build-gcc && suites build gcc unit plan trace sim long
}

# What clang makes of the loops gives the same bytes as what gcc does: a program of gcc's objects, but for core.
# What takes long (suite "long") is run by gcc alone.
step_test_clang() {
        need build-clang || return
        program=build-clang/fanin
        if [ "${FAN_CHECK_KIND-}" = whole ]; then
                need build-gcc || return
                program=build/fanin-core-by-clang
                (cd build && eval "$(ninja -t commands fanin | tail -n 1 |
                        sed 's| -o fanin | -o fanin-core-by-clang |; s|src/libfancore\.a|../build-clang/&|g')") || return
        fi
        (cd test/scenario && ./exact.sh ../../$program recorded)
}

# What was freed last is kept aside, not all of the last 256 MB, and of who allocated it the next
# callers: a seventh of the processor time of simulations.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:quarantine_size_mb=16:malloc_context_size=6
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

step_test_asan() {
        need build-asan && suites build-asan asan unit plan trace sim
}

# Within a build one at a time: these use sockets and time that passes.
step_net_gcc() {
        TEST_OPTIONS='--num-processes 1'
        need build-gcc && suites build gcc net
}

step_net_asan() {
        TEST_OPTIONS='--num-processes 1'
        need build-asan && suites build-asan asan net
}

step_net_tsan() {
        TEST_OPTIONS='--num-processes 1'
        need build-tsan && suites build-tsan tsan net
}

# Of each kind of network and ranks: how many seeds of 1000, how many of these under sanitizers for
# every 100 there, and its options.
fault_kinds='
1000 100
200 20 --stragglers
40 20 --stragglers --story liar
40 10 --story stranger
20 0 --story stranger --policy moved
20 0 --story stranger --policy tree
40 10 --story stranger --sealed
20 0 --story stranger --sealed --policy tree
20 0 --story stranger --sealed --policy esa
20 0 --story stranger --sealed --policy routed
20 0 --story stranger --sealed --policy moved
100 10 --sealed --policy moved
80 20 --story asleep
80 0 --story stopped
40 0 --story stopped --policy tree
40 0 --story stopped --sealed
200 20 --policy routed
200 20 --policy moved
100 0 --policy tree
100 10 --policy grid
100 10 --policy tree --stragglers
200 10 --policy levels --stragglers --loss 5'

# No seed twice: the first ones of a kind are those of the sanitizers, which see whatever the other
# build sees.
simulate() { # sanitized | rest
        echo "$fault_kinds" | while read -r all sanitized options; do
                [ -n "$all" ] || continue
                sanitized=$((SIM_SEEDS_ASAN * sanitized / 100))
                folder=build-asan first=1 count=$sanitized
                if [ "$1" = rest ]; then
                        folder=build first=$((sanitized + 1)) count=$((SIM_SEEDS * all / 1000 - sanitized))
                fi
                [ $count -gt 0 ] || continue
                # shellcheck disable=SC2086  # words are wanted
                "$folder/test/sim/faults" --seed $first --seeds $count $options </dev/null || exit 1
        done
}

step_faults() {
        need build-gcc || return
        note "$SIM_SEEDS seeds, and more of stragglers, routed and moved jobs, trees, and all at once"
        simulate rest
}

step_faults_asan() {
        need build-asan || return
        note "the first $SIM_SEEDS_ASAN seeds, and some of each other kind"
        simulate sanitized
}

step_model() {
        test/model/run || return
        note "$(tail -n 1 "$logs/$step.log")"
}

step_scenarios() {
        need build-gcc || return
        note "$JOB_SEEDS seeds of each kind"
        first=41 # those before are in the suites "sim", which sanitizers run, and "long"
        for kind in '' --trees --shared; do
                # shellcheck disable=SC2086 # no word for the plain ones
                test/scenario/whole_jobs.py build/fanin $kind --seed $first --seeds $((JOB_SEEDS - first + 1)) \
                        --keep "$logs" || return
        done
}

# The unpacked corpus is read; what is found goes to build-fuzz/corpus.
step_fuzz() { # TARGET
        need build-fuzz || return
        corpus=build-fuzz/test/fuzz/corpora/$1
        found=build-fuzz/corpus/$1
        mkdir -p "$found"
        if [ -z "$(ls -A "$corpus" 2>/dev/null)" ]; then
                echo "$corpus: empty; a target needs a seed to start from"
                return 1
        fi
        build-fuzz/test/fuzz/fuzz_"$1" -max_total_time="$FUZZ_SECONDS" -timeout=60 \
                -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$logs/fuzz-$1-" \
                "$found" "$corpus" || return 1
        note "$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$step.log") inputs"
}

step_mpi() {
        need build-gcc || return
        BUILD=$PWD/build test/mpi/run || return
        note "$(tail -n 1 "$logs/$step.log")"
}

# Of bench/ what needs neither root nor minutes: whether it runs and its sums hold.  Its figures are
# of a machine that does other work, and nobody looks at them.
step_bench() {
        need build-gcc || return
        for command in bench/core bench/onehost; do
                echo "$command --quick"
                "$command" --quick || return
        done
        build/bench/bench-sim --short
}

step_interop() {
        need build-gcc || return
        BUILD=$PWD/build test/interop/run
}

# ---- Python --------------------------------------------------------------------

python_sources='python test/python test/gpu examples tools/wheel bench/ddp bench/fast bench/front bench/turns test/scenario/same bench/fastmodel.py bench/forecast bench/groups bench/elastic bench/local-sgd bench/sets bench/peers tools/pytest-results.py tools/results-page.py tools/pictures.py tools/figures.py tools/words.py tools/site.py
        tools/record tools/records.py experiments/pages.py experiments/run experiments/render experiments/compare experiments/planlib.py experiments/simulate.py experiments/simulated/run experiments/grid/run experiments/inart/run experiments/installs/run experiments/lab/run
        experiments/placement/run experiments/tree/run simulator/lab page test/ports.py test/model/run test/mutants/run test/fuzz/daemons/run test/fuzz/corpora test/soak test/plan/oracle test/plan/events test/net/controller test/net/many_daemons test/net/measured test/net/routed_groups test/net/metrics test/net/blame test/net/destroys test/net/traces test/ops/services test/ops/results test/ops/pages test/ops/paths test/ops/live test/ops/browser.py tools/page-text.py tools/limit.py tools/tidy.py test/ctl/lines examples/extend/experiment'

step_python_format() {
        judge black 23 || return
        # shellcheck disable=SC2086  # words are wanted
        black --check $python_sources
}

step_python_types() {
        judge mypy 1.0 || return
        # Debian's mypy looks at Debian's packages, and takes a minute the first time.
        mypy python/fanin && mypy examples/train_fashion_mnist.py examples/fashion_mnist
}

step_python() {
        need build-gcc || return
        torch=$(sh tools/torch-python.sh) || return
        BUILD=$PWD/build "$torch" -m pytest --junit-xml "$logs/$step.xml" -o cache_dir=build/pytest
        rc=$?
        python3 tools/pytest-results.py "$logs/$step.xml" >"$logs/$step.counts" || rc=1
        note "$(tail -n 1 "$logs/$step.log" | tr -d =)"
        return $rc
}

step_pip() { need build-gcc && test/ops/wheel pip; }

step_namespace() { # NAME: test/net/NAME.sh
        need build-gcc || return
        BUILD=$PWD/build test/net/"$1".sh
}

step_demo() {
        need build-gcc || return
        FAN_DEMO_STEPS=20 ./demo --no-install --epochs 1 # .ci/run has run it whole
}

step_extend() {
        need build-gcc || return
        examples/extend/run build
}

# ---- the lists ---------------------------------------------------------------

fuzz_steps() {
        sed -n "/^fuzz_targets/,/^}/s/^  '\([a-z_]*\)':.*/fuzz-\1/p" test/fuzz/meson.build 2>/dev/null
}

# Every test/net/*.sh but netns.sh, cases.sh and forging.sh, which the others source.
namespace_steps() {
        for file in test/net/*.sh; do
                name=${file##*/}
                case $name in
                netns.sh | cases.sh | forging.sh) ;;
                *) echo "ns-${name%.sh}" ;;
                esac
        done
}

static_steps='format style layering scripts man links python-format'
build_steps='build-gcc build-clang build-asan build-tsan build-fuzz'

# What mostly waits, for packets or for time-outs, two at a time.  First those that take long; a network
# that is new is behind these until it is named here.
waiting_steps() {
        long='net-tsan net-asan ns-drills interop python ns-switches ns-hub ns-hosts ns-bits ns-doctor mpi ns-ahead ns-icmp ns-lab'
        printf '%s\n' $long
        namespace_steps | grep -vxF -e "$(printf '%s\n' $long $measuring_steps)"
}

# With nothing beside them: these measure links.
measuring_steps='ns-forecast'

# Beside them, two at a time, whenever those leave a core idle; the longest first.
computing_steps() {
        printf '%s\n' test-asan faults test-gcc clang-tidy scenarios faults-asan model python-types pages
        fuzz_steps
        printf '%s\n' pip extend cppcheck bench test-clang abi install gcc-sanitizers core-symbols lib-symbols hardening
}

# Last, since it prints times.
last_steps=demo

quick_builds='build-gcc build-clang'
quick_waiting='net-gcc'
quick_computing='test-gcc seeds-gcc core-symbols lib-symbols install pip'
quick_steps='seeds-gcc net-gcc' # not of a whole run

# On another Debian than 12: the code as its compilers and libraries have it.
elsewhere_waiting='python net-gcc mpi'
elsewhere_computing='test-gcc seeds-gcc core-symbols lib-symbols install pip'

step_seeds_gcc() { need build-gcc && suites build gcc seeds; }
