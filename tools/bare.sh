#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A bare Debian 12 in a folder, made by debootstrap: functions for .ci/run and tools/deb-test.sh,
# which source this file.

SUITE=bookworm
BARE_LIMIT_S=900 # of debootstrap

# A debootstrap there is, or is now.
have_debootstrap() {
        command -v debootstrap >/dev/null && return
        command -v apt-get >/dev/null || return
        apt-get -q update </dev/null &&
                DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
                        debootstrap </dev/null
}

# The archive of the suite that this machine's apt uses; nothing: debootstrap's own choice.
archive() {
        # shellcheck disable=SC2016  # apt-get's variables
        apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(SITE)' 'Created-By: Packages' \
                2>/dev/null | awk -v suite=$SUITE '$1 == suite && $2 == "main" { print $3; exit }'
}

# wget, which debootstrap uses, knows a proxy by its variable.
proxy() {
        apt-config shell found Acquire::http::Proxy 2>/dev/null | sed -n "s/^found='\(.*\)'\$/\1/p"
}

# How this machine's apt reaches its archives: sources, credentials, keys, transport.  None of its
# hooks, which are about other packages.
copy_apt() { # ROOT
        rm -f "$1/etc/apt/sources.list"
        for name in sources.list sources.list.d auth.conf auth.conf.d preferences preferences.d \
                trusted.gpg trusted.gpg.d keyrings; do
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
