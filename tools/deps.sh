#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every package of Debian 12 and 13 that fanin needs, by what it is needed for, and the
# installation of those that are missing.  Touches nothing when none is.
#
#     tools/deps.sh [run]      build and run without planner  (./demo --bench)
#     tools/deps.sh train      "run", and PyTorch with data   (./demo)
#     tools/deps.sh plan       "run", and the planner's solvers
#     tools/deps.sh elsewhere  all of that, and tests of behaviour  (./check --elsewhere)
#     tools/deps.sh check      all of that, and the checks    (./check)
#     tools/deps.sh bench      "train", and the peers of bench/
#     tools/deps.sh lab        "plan", and what fanin lab needs
#     tools/deps.sh package    "run", and what builds packages and containers
#     tools/deps.sh --list WHAT    only print the names
#
# Without root it installs nothing: it says what is missing and which command to
# run as root, and exits 1.
set -eu

# meson brings python3, which a few scripts here use; it is named all the same.
run='gcc libc6-dev meson ninja-build pkg-config libinih-dev libjansson-dev libmicrohttpd-dev libgcrypt20-dev python3'

# CoinUtils' pkg-config file asks for zlib, which its package does not bring.
plan='coinor-libclp-dev coinor-libcbc-dev zlib1g-dev'

# PyTorch takes whichever BLAS there is; with OpenBLAS its linear layers take a tenth of the
# time that they take with the reference BLAS it would bring by itself.
train='python3-torch python3-numpy python3-tqdm libopenblas0-pthread dataset-fashion-mnist'
# PyTorch's inductor compiles C++ with Python's headers.
elsewhere='g++ python3-dev libcmocka-dev clang lld clang-format black shellcheck scdoc iproute2 libopenmpi-dev openmpi-bin libmpich-dev mpich gfortran
       python3-pytest python3-pip python3-venv python3-mesonpy python3-scipy zsh
       libbpf-dev bpftool'
check='libclang-rt-dev llvm clang-tidy cppcheck nftables ethtool mypy spin prometheus systemd abigail-tools chromium'
# Mininet recommends Open vSwitch, which the lab does not use.
lab='mininet iproute2 util-linux'
package='dpkg-dev debootstrap autopkgtest buildah mmdebstrap make binutils iproute2 python3-venv qemu-user'
bench='g++ valgrind linux-perf libc6-dbg libns3-dev libgloo-dev libopenmpi-dev openmpi-bin iproute2 nftables ethtool'

usage() {
        echo 'usage: tools/deps.sh [--list] [run|train|plan|elsewhere|check|bench|lab|package]'
}

packages() { # WHAT
        case $1 in
        run) echo "$run" ;;
        train) echo "$run $train" ;;
        plan) echo "$run $plan" ;;
        elsewhere) echo "$run $train $plan $elsewhere" ;;
        check) echo "$run $train $plan $elsewhere $check $lab" ;;
        bench) echo "$run $train $bench" ;;
        lab) echo "$run $plan $lab" ;;
        package) echo "$run $package" ;;
        esac
}

# Of the packages named, those that are not installed, on one line.
missing() { # PACKAGE...
        for package; do
                state=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null) || :
                case $state in
                installed*) ;;
                *) printf '%s ' "$package" ;;
                esac
        done
}

# Packages that bring a service, such as prometheus, do not start it.
apt() {
        SYSTEMD_OFFLINE=1 RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

list=false
if [ "${1-}" = --list ]; then
        list=true
        shift
fi
what=${1:-run}
case $what in
run | train | plan | elsewhere | check | bench | lab | package) ;;
-h | --help)
        usage
        exit 0
        ;;
*)
        echo "tools/deps.sh: \"$what\": expected run, train, plan, elsewhere, check, bench, lab or package" >&2
        exit 2
        ;;
esac
if [ $# -gt 1 ]; then
        echo "tools/deps.sh: \"$2\": expected one argument" >&2
        exit 2
fi

# shellcheck disable=SC2046  # words are wanted
set -- $(packages "$what")
if $list; then
        printf '%s\n' "$@"
        exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "tools/deps.sh: this is not a Debian system, so nothing is installed here." >&2
        echo "What Debian calls these is needed: $*" >&2
        exit 0
fi

lack=$(missing "$@")
lack=${lack% }
if [ -z "$lack" ]; then
        exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
        cat >&2 <<TEXT
tools/deps.sh: these packages are missing, and installing them needs root:

    $lack

Run this as root, then the same command again as yourself:

    apt-get update && apt-get install -y --no-install-recommends $lack

TEXT
        exit 1
fi

echo "Installing with apt-get: $lack"
if ! apt update; then
        echo "tools/deps.sh: apt-get update failed; trying with the lists there are" >&2
fi
# shellcheck disable=SC2086  # words are wanted
if ! apt install -y --no-install-recommends $lack; then
        echo "tools/deps.sh: apt-get could not install: $lack" >&2
        echo "The reason stands above; is there a network, and is this Debian 12 or 13?" >&2
        exit 1
fi
