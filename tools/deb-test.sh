#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Build the Debian packages on a bare Debian with what debian/control asks for and nothing else,
# have lintian look at them, and install and remove them on another, where they sum and
# autopkgtest runs debian/tests: among them, on Debian 13, that `import torch` knows "fanin".  Then what
# `meson install` brings comes beside them, and the wheel of build-wheel/dist if there is one: each
# program and each Python says which library it has, and they sum together.
#
#     tools/deb-test.sh [FOLDER [SUITE]]    packages and logs are left there (build/deb); SUITE:
#                                           bookworm, which is Debian 12, or another one
#
# Takes about three minutes and 4 GB of disk.  Needs root, for the bare systems, and Debian's
# debootstrap and autopkgtest (tools/deps.sh package).
set -eu
cd "$(dirname "$0")/.."

# shellcheck source=tools/bare.sh
. tools/bare.sh

out=$(realpath -m "${1:-build/deb}")
SUITE=${2:-$SUITE}
base=

cleanup() {
        [ -z "$base" ] || rm -rf --one-file-system "$base"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

step() { # TEXT
        echo "deb-test: $1"
}

# In a bare system, as root of mount and process namespaces that end with it.
within() { # SYSTEM COMMAND
        unshare --mount --pid --fork --kill-child chroot "$1" /bin/sh -euc \
                "mount -t proc proc /proc; export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; $2" </dev/null
}

# In the one where the packages are installed.
inside() { # COMMAND
        within "$root" "$1"
}

# Says the end of a log, and gives up.
fail() { # LOG
        tail -n 30 "$1"
        exit 1
}

# The files that packages may leave: users stay, and what apt keeps.
files() {
        inside 'find / -xdev ! -path "/proc/*" ! -path "/sys/*" ! -path "/dev/*" ! -path "/var/*" \
                ! -path "/tmp/*" ! -path "/run/*" ! -path "/root/*" ! -path "/debs/*" \
                ! -name "*.pyc" ! -name __pycache__ ! -path "/etc/*passwd*" ! -path "/etc/*group*" \
                ! -path "/etc/*shadow*" ! -path /etc/ld.so.cache | sort'
}

for name in debootstrap autopkgtest unshare; do
        command -v $name >/dev/null || {
                echo "SKIPPED: no $name here"
                exit 77
        }
done
[ "$(id -u)" -eq 0 ] || {
        echo "SKIPPED: not root"
        exit 77
}

step "a bare $SUITE"
mkdir -p "$out"
rm -f "${out:?}"/*.deb "$out"/fanin_*
base=$(mktemp -d "${TMPDIR:-/var/tmp}/fanin-deb.XXXXXX")
unset TMPDIR # which no bare system has
root=$base/root
builder=$base/builder
make_bare "$root" >"$out/debootstrap.log" 2>&1 || fail "$out/debootstrap.log"
copy_apt "$root"
share_packages "$root"
inside 'apt-get -q update' >"$out/install.log" 2>&1 || fail "$out/install.log"
cp -a "$root" "$builder"
files >"$out/before"

step 'build'
mkdir -p "$builder/build/source"
git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$builder/build/source"
cp -a "$builder/build/source" "$base/source" # autopkgtest reads debian/tests there
within "$builder" 'cd /build/source
        apt-get -q install -y --no-install-recommends lintian
        apt-get -q build-dep -y --no-install-recommends .
        dpkg-buildpackage -b -us -uc' >"$out/build.log" 2>&1 || fail "$out/build.log"

step 'lintian'
within "$builder" 'lintian --allow-root --info --display-info --fail-on error,warning /build/fanin_*.changes' >"$out/lintian.log" 2>&1 ||
        fail "$out/lintian.log"
grep -c '^[EW]:' "$out/lintian.log" | sed 's/$/ errors and warnings/'
within "$builder" 'cd /build/source
        meson setup local --prefix=/usr/local -Dbuildtype=release -Dtests=false -Dplanner=disabled -Dmpi=disabled
        DESTDIR=/build/local meson install -C local' >>"$out/build.log" 2>&1 || fail "$out/build.log"
cp -a "$builder/build/local" "$base/local"
cp "$builder"/build/*.deb "$builder"/build/fanin_*.changes "$builder"/build/fanin_*.buildinfo "$out"
rm -rf --one-file-system "$builder"

mkdir "$root/debs"
cp "$out"/*.deb "$root/debs"
rm -f "$root"/debs/*dbgsym*

step 'one command, then an all-reduce that is checked'
inside 'apt-get -q install -y --no-install-recommends /debs/fanin_*.deb' >>"$out/install.log" 2>&1
inside 'fanin bench --local 4 -b 1M -n 5'
inside 'id fanin; grep -q "^listen" /etc/fanin/switch.ini; FANIN_CONFIG=/etc/fanin/switch.ini fanin switch & sleep 1
        fanin top --once --switch 127.0.0.1:5000 && kill $! && wait $!'

step 'autopkgtest'
autopkgtest -q --no-built-binaries --output-dir="$base/autopkgtest" "$root"/debs/*.deb "$base/source" -- chroot "$root" \
        >"$out/autopkgtest.log" 2>&1 || [ $? -eq 2 ] || fail "$out/autopkgtest.log" # 2: some were skipped
cat "$base/autopkgtest/summary"

step 'all packages; the units, in place'
inside 'apt-get -q install -y --no-install-recommends /debs/*.deb systemd' >>"$out/install.log" 2>&1 || fail "$out/install.log"
inside 'fanin plan star:workers=2 | head -n 3'
inside 'systemd-analyze verify --man=no /lib/systemd/system/fanin-*.service'
for unit in switch server controller; do
        inside "systemd-analyze security --offline=true --no-pager --threshold=30 /lib/systemd/system/fanin-$unit.service | tail -n 1"
done

step 'beside them what meson install brings, and a wheel'
says() { # WANTED COMMAND: a line of what it prints begins so
        inside "$2" >"$out/says" 2>&1
        grep -q "^$1" "$out/says" || {
                echo "$2: expected $1"
                fail "$out/says"
        }
}
# The loader looks in /usr/local first.
triplet=$(inside 'ls -d /usr/lib/*-linux-gnu' | sed 's|.*/||')
says "library  libfanin [0-9.]*: /.*$triplet/libfanin.so.0$" 'python3 -m fanin'
says 'program   /usr/bin/fanin, ' 'fanin info'
cp -a "$base/local/." "$root/"
inside ldconfig
says "library  libfanin [0-9.]*: /usr/local/lib/$triplet/libfanin.so.0$" 'python3 -m fanin'
says "library   /usr/local/lib/$triplet/libfanin.so.0, " '/usr/bin/fanin info'
says 'program   /usr/bin/fanin, ' '/usr/bin/fanin info'
says 'program   /usr/local/bin/fanin, ' 'fanin info'
others='/usr/bin/python3'
set -- build-wheel/dist/fanin-*manylinux*_"$(uname -m)".whl
if [ -f "$1" ]; then
        mkdir "$root/root/wheel"
        cp "$1" "$root/root/wheel"
        inside 'apt-get -q install -y --no-install-recommends python3-venv' >>"$out/install.log" 2>&1 || fail "$out/install.log"
        inside 'python3 -m venv /root/env; /root/env/bin/pip -q install --no-index /root/wheel/*.whl'
        says 'library  libfanin [0-9.]*: /root/env/lib/.*/fanin/libfanin.so.0$' '/root/env/bin/python3 -m fanin'
        says 'library   /root/env/lib/.*/fanin/libfanin.so.0, ' '/root/env/bin/fanin info'
        says 'program   /root/env/lib/.*/fanin/bin/fanin, ' '/root/env/bin/fanin info'
        says "library   /usr/local/lib/$triplet/libfanin.so.0, " '/usr/bin/fanin info'
        inside '/root/env/bin/fanin bench --local 2 -b 64K -n 3' >/dev/null
        others=/root/env/bin/python3
else
        echo 'SKIPPED: no wheel in build-wheel/dist (tools/wheel build-wheel/dist)'
fi
cat >"$root/root/rank.py" <<'PYTHON'
import array, sys, fanin
with fanin.Communicator(rank=int(sys.argv[1]), ranks=2, timeout=300) as comm:
    assert comm.allreduce(array.array("f", [comm.rank + 1] * 1000)) == array.array("f", [3] * 1000)
PYTHON
inside "export MASTER_ADDR=127.0.0.1 MASTER_PORT=29533; $others /root/rank.py 0 & FANIN_LIBRARY=/usr/lib/$triplet/libfanin.so.0 python3 /root/rank.py 1; wait \$!"
(cd "$base/local" && find . ! -type d) | sed "s|^\.|$root|" | tr '\n' '\0' | xargs -0 rm
rm -rf "$root"/usr/local/*/fanin # folders, empty now

step 'removal'
inside 'apt-get -q purge -y fanin fanin-planner libfanin0 libfanin-dev python3-fanin fanin-mpi fanin-nccl' >>"$out/install.log" 2>&1
inside 'apt-get -q autoremove -y --purge' >>"$out/install.log" 2>&1
files >"$out/after"
left=$(comm -13 "$out/before" "$out/after" | grep fanin || :)
[ -z "$left" ] || {
        echo "left after the removal:"
        echo "$left"
        exit 1
}
step 'built, clean, installed, tested, removed'
