#!/bin/sh
# shellcheck disable=SC2034,SC2154  # the script that sources this sets and uses some
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts share in which a stranger forges something while a job runs: icmp.sh and neighbours.sh.
# Beside what cases.sh asks for and gives: a function a kind of drill, with _ for - in its name, which
# makes $dir/late where the job ended too early to show anything; `addresses FAMILY` sets them for IPv4
# or IPv6; $factor says how many times as long as usual a job has to run.  With FAN_TEST_SHOW=yes the
# last words of ranks are shown.

# shellcheck source=test/net/cases.sh
. "$here/cases.sh"

rank_timeout_s=600
PORT=7090
TRIES="1 2 4 8" # times as long as usual: what is forged has to come while the job runs

# The option -k KINDS, into $kinds.
kinds_of() {
        while getopts k: flag; do
                case $flag in
                k) kinds=$OPTARG ;;
                *) exit 2 ;;
                esac
        done
}

# Once more where what was to come while a job ran had no time to.
drill() { # KIND FAMILY
        addresses "$2"
        for factor in $TRIES; do
                rm -f "$dir"/*
                "$(echo "$1" | tr - _)"
                result=$?
                if [ $result -eq 0 ] || [ ! -e "$dir/late" ]; then break; fi
        done
        report "$1, IPv$2" "$result" "$dir"/rank? "$dir/switch"
        [ -z "${FAN_TEST_SHOW:-}" ] || tail -n 1 "$dir"/rank?
        stop
}
