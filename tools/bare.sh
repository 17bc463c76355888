#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A bare Debian in a folder, made by debootstrap: functions for .ci/run, tools/deb-test.sh and
# test/ops/container, which source this file.

SUITE=bookworm   # Debian 12; who wants another one sets it
BARE_LIMIT_S=900 # of debootstrap

# A debootstrap there is, or is now.
have_debootstrap() {
        command -v debootstrap >/dev/null && return
        command -v apt-get >/dev/null || return
        apt-get -q update </dev/null &&
                DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
                        debootstrap </dev/null
}

# What this machine's apt has lists of: lines of origin, suite, component and site.
lists() {
        # shellcheck disable=SC2016  # apt-get's variables
        apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(SITE)' 'Created-By: Packages' 2>/dev/null
}

# Whether this machine's apt has the suite.
has_suite() {
        lists | grep -q "^Debian $SUITE main "
}

# The archive that this machine's apt has the suite from, or else another suite of Debian's, of which
# an archive has all; nothing: debootstrap's own choice.
archive() {
        lists | awk -v suite=$SUITE '
                $1 != "Debian" || $3 != "main" || $2 !~ /^[a-z]+$/ { next } # none of security or updates
                $2 == suite { print $4; found = 1; exit }
                !other { other = $4 }
                END { if (!found && other) print other }'
}

# wget, which debootstrap uses, knows a proxy by its variable.
proxy() {
        apt-config shell found Acquire::http::Proxy 2>/dev/null | sed -n "s/^found='\(.*\)'\$/\1/p"
}

# How this machine's apt reaches its archives: sources and preferences if they are of this suite,
# else what debootstrap wrote stays; credentials, keys, transport.  None of its hooks, which are about
# other packages.
copy_apt() { # ROOT
        names='auth.conf auth.conf.d trusted.gpg trusted.gpg.d keyrings'
        if has_suite; then
                rm -f "$1/etc/apt/sources.list"
                names="$names sources.list sources.list.d preferences preferences.d"
        fi
        for name in $names; do
                [ ! -e /etc/apt/$name ] || cp -RL /etc/apt/$name "$1/etc/apt" || return
        done
        apt-config dump | grep '^Acquire' >"$1/etc/apt/apt.conf.d/99host"
        for file in /usr/share/keyrings/*.gpg \
                $(sed -n 's/^Acquire.* "\(\/[^" ]*\)";$/\1/p' "$1/etc/apt/apt.conf.d/99host"); do
                [ ! -f "$file" ] || { mkdir -p "$1${file%/*}" && cp -L "$file" "$1$file"; } || return
        done
        mkdir -p "$1/etc/ssl"
        [ ! -d /etc/ssl/certs ] || cp -RL /etc/ssl/certs "$1/etc/ssl" 2>/dev/null # some lead nowhere
        cp -L /etc/resolv.conf /etc/hosts "$1/etc"
}

# What has been fetched here before need not be again.
share_packages() { # ROOT
        for file in /var/cache/apt/archives/*.deb; do
                [ ! -f "$file" ] || ln "$file" "$1/var/cache/apt/archives" 2>/dev/null ||
                        cp "$file" "$1/var/cache/apt/archives"
        done
}

make_bare() { # ROOT
        http_proxy=${http_proxy:-$(proxy)}
        [ -z "$http_proxy" ] || export http_proxy
        # shellcheck disable=SC2046  # nothing, or one word
        timeout $BARE_LIMIT_S debootstrap --variant=minbase $SUITE "$1" $(archive) </dev/null || return
        # Packages that bring a service do not start it there.
        printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"
}
