#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The shared library exports fanin_* and nothing else, exactly what include/fanin.h
# declares; and it asks for nothing that prints or exits: only programs do that.  It writes files
# that the user names (FANIN_METRICS, FANIN_TRACE), but has no name for the standard streams.
#
#     tools/lib-symbols.sh BUILD
set -eu

build=${1:?"tools/lib-symbols.sh: expected a build folder"}
# What the linker takes; a build folder may keep libraries of earlier versions beside it.
library=$(readlink -e "$build/src/libfanin.so") || { echo "$build: no src/libfanin.so there" >&2; exit 1; }
library=${library#"$PWD"/}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# Functions of the header: a name before "(" that is not in a comment.
sed -e 's:/\*.*\*/::' -e '/^\/\*/,/\*\//d' -e '/^ \*/d' include/fanin.h |
        grep -o 'fanin_[a-z0-9_]*(' | tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only -P "$library" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' |
        sort -u >"$work/exported"

for symbol in $(comm -13 "$work/declared" "$work/exported"); do
        echo "$library: exports \"$symbol\", which include/fanin.h does not declare"
        status=1
done
for symbol in $(comm -23 "$work/declared" "$work/exported"); do
        echo "include/fanin.h: declares $symbol, which $library does not export"
        status=1
done

printf '%s\n' printf vprintf puts putchar perror stdout stderr exit _exit _Exit quick_exit \
        abort raise err errx warn warnx syslog dprintf vdprintf __printf_chk __vprintf_chk \
        __dprintf_chk | sort >"$work/forbidden"
nm -D -u -P "$library" | awk '{ sub(/@.*/, "", $1); print $1 }' | sort -u >"$work/wanted"
for symbol in $(comm -12 "$work/forbidden" "$work/wanted"); do
        echo "$library: uses \"$symbol\"; the library neither prints nor exits"
        status=1
done

# A program that runs with more rights than its user may load them: its environment is the user's.
for asking in "$library" "$build"/src/mpi/*.so; do
        [ -e "$asking" ] || continue
        nm -D -u -P "$asking" | awk '{ sub(/@.*/, "", $1); print $1 }' | grep -qx getenv || continue
        echo "$asking: uses \"getenv\"; expected secure_getenv"
        status=1
done

readelf -d "$library" | grep -q 'SONAME.*libfanin\.so\.[0-9]' || {
        echo "$library: no SONAME of the form libfanin.so.N"
        status=1
}
echo "$library: $(wc -l <"$work/exported") functions"
exit $status
