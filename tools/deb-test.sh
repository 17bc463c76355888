#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Build the Debian packages, have lintian look at them, and install and remove them on a bare
# Debian 12, where they sum, compile a program and are found by Python.
#
#     tools/deb-test.sh [FOLDER]    packages and logs are left there (build/deb)
#
# Takes about five minutes and 2 GB of disk.  Needs root, for the bare system, and Debian's
# debhelper, dh-python, lintian and debootstrap; what the packages need to be built is in
# debian/control.
set -eu
cd "$(dirname "$0")/.."

# shellcheck source=tools/bare.sh
. tools/bare.sh

out=$(realpath -m "${1:-build/deb}")
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

# In the bare system, as root of mount and process namespaces that end with it.
inside() { # COMMAND
        unshare --mount --pid --fork --kill-child chroot "$root" /bin/sh -euc \
                "mount -t proc proc /proc; export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; $1" </dev/null
}

# The files that packages may leave: users stay, and what apt keeps.
files() {
        inside 'find / -xdev ! -path "/proc/*" ! -path "/sys/*" ! -path "/dev/*" ! -path "/var/*" \
                ! -path "/tmp/*" ! -path "/run/*" ! -path "/root/*" ! -path "/debs/*" \
                ! -name "*.pyc" ! -name __pycache__ ! -path "/etc/*passwd*" ! -path "/etc/*group*" \
                ! -path "/etc/*shadow*" ! -path /etc/ld.so.cache | sort'
}

for name in debootstrap dpkg-buildpackage lintian unshare; do
        command -v $name >/dev/null || {
                echo "SKIPPED: no $name here"
                exit 77
        }
done
[ "$(id -u)" -eq 0 ] || {
        echo "SKIPPED: not root"
        exit 77
}

step 'build'
mkdir -p "$out"
rm -rf "${out:?}"/*.deb "$out/source"
mkdir "$out/source"
git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$out/source"
(cd "$out/source" && dpkg-buildpackage -b -us -uc -d) >"$out/build.log" 2>&1 || {
        tail -n 30 "$out/build.log"
        exit 1
}
rm -rf "$out/source"

step 'lintian'
lintian --allow-root --fail-on error,warning "$out"/fanin_*.changes

step "a bare $SUITE"
base=$(mktemp -d "${TMPDIR:-/var/tmp}/fanin-deb.XXXXXX")
root=$base/root
make_bare "$root" >"$out/debootstrap.log" 2>&1
copy_apt "$root"
share_packages "$root"
mkdir "$root/debs"
cp "$out"/*.deb "$root/debs"
rm -f "$root"/debs/*dbgsym*
inside 'apt-get -q update' >"$out/install.log" 2>&1
files >"$out/before"

step 'one command, then an all-reduce that is checked'
inside 'apt-get -q install -y --no-install-recommends /debs/fanin_*.deb' >>"$out/install.log" 2>&1
inside 'fanin bench --local 4 -b 1M -n 5'
inside 'id fanin; grep -q "^listen" /etc/fanin/switch.ini; fanin switch --config /etc/fanin/switch.ini & sleep 1
        fanin top --once --switch 127.0.0.1:5000 && kill $! && wait $!'

step 'all packages; what debian/tests asks'
inside 'apt-get -q install -y --no-install-recommends /debs/*.deb gcc libc6-dev pkg-config python3 systemd' \
        >>"$out/install.log" 2>&1
cp debian/tests/allreduce "$root/root"
inside 'cd /root && sh allreduce && fanin plan star:workers=2 | head -n 3'
inside 'systemd-analyze verify --man=no /lib/systemd/system/fanin-*.service'

step 'removal'
inside 'apt-get -q purge -y fanin fanin-planner libfanin0 libfanin-dev python3-fanin fanin-mpi' >>"$out/install.log" 2>&1
inside 'apt-get -q autoremove -y --purge' >>"$out/install.log" 2>&1
files >"$out/after"
left=$(comm -13 "$out/before" "$out/after" | grep fanin || :)
[ -z "$left" ] || {
        echo "left after the removal:"
        echo "$left"
        exit 1
}
step 'built, clean, installed, used, removed'
