#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Is each program and library that a build installs hardened as dpkg-buildflags hardening=+all has it?
#
#     tools/hardening-test.sh BUILD
#
# One line for each that is not, with what it lacks: PIE, RELRO, BIND_NOW (no lazy binding), a stack
# that is not executable, no text relocations, a stack protector, _FORTIFY_SOURCE, no path of its own
# to libraries, and of libraries with libfanin inside that they stay loaded.  Not for builds with sanitizers, which have other means.
set -eu

build=${1:?"tools/hardening-test.sh: expected a build folder"}

lacks() { # FILE WHAT
        echo "$1: $2"
        status=1
}

# What is written into an installed file, such as its RUNPATH, is not what the build folder has.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work meson install -C "$build" --no-rebuild --quiet >/dev/null

status=0
count=0
for file in $(find "$work" -type f \( -name '*.so*' -o -perm -u+x \) | sort); do
        head=$(readelf -hlW "$file" 2>/dev/null) || continue # a script
        name=${file#"$work"}
        count=$((count + 1))
        dynamic=$(readelf -dW "$file")
        symbols=$(readelf --dyn-syms -W "$file")
        echo "$head" | grep -q '^ *Type: *DYN' || lacks "$name" 'not position-independent'
        echo "$head" | grep -q 'GNU_RELRO' || lacks "$name" 'no RELRO'
        echo "$head" | grep 'GNU_STACK' | grep -q 'RW ' || lacks "$name" 'executable stack'
        echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || lacks "$name" 'lazy binding'
        ! echo "$dynamic" | grep -q 'TEXTREL' || lacks "$name" 'text relocations'
        ! echo "$dynamic" | grep -Eq 'RPATH|RUNPATH' || lacks "$name" 'a path of its own to libraries'
        case ${file##*/} in
        libfanin-mpi.so) ;; # it is in the process from its start
        *.so*) echo "$dynamic" | grep -q 'FLAGS_1.*NODELETE' || lacks "$name" 'not kept when it is closed' ;;
        esac
        echo "$symbols" | grep -q '__stack_chk_fail' || lacks "$name" 'no stack protector'
        echo "$symbols" | grep -Eq '__[a-z]*_chk(@|$)' || lacks "$name" 'no _FORTIFY_SOURCE'
done
[ $count -ge 3 ] || { # fanin, libfanin, and the preload or planner
        echo "$build: installs $count programs and libraries"
        status=1
}
echo "$count programs and libraries"
exit $status
