#!/bin/bash
# run.sh - the README's two commands, ./quickstart.sh and ./test.sh, as a user with sudo in a fresh Debian 12, where nothing is
# that they do not install themselves. A root made by debootstrap from this machine's own package sources, with a clone of
# this repository in it; removed at the end.
#   tests/fresh/run.sh [COMMAND [ROOT'S]]   COMMAND: instead of the two; ROOT'S: after it, as root
#   FRESH_ROOT=DIR                        keeps the root there, and takes the one that is there
# Exit code 77: roots cannot be made here, and why.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/packages.sh
skip() { echo "NOT RUN on a fresh Debian: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "making a root takes root"
. /etc/os-release
[ "${ID:-}" = debian ] || skip "this is ${ID:-no Debian}, whose package sources are not Debian's"
unshare --mount true 2>/dev/null || skip "mounts are not allowed"
[ "${MOUNTS_ARE_PRIVATE:-}" ] || MOUNTS_ARE_PRIVATE=1 exec unshare --mount --propagation private bash "$0" "$@"

need_packages debootstrap
root=${FRESH_ROOT:-$(mktemp -d /var/tmp/fresh-XXXXXX)}
mkdir -p "$root"
chmod 755 "$root"
finish() { umount -l "$root"/{proc,dev,sys} "$root" 2>/dev/null || true; [ "${FRESH_ROOT:-}" ] || rm -rf --one-file-system "$root"; }
trap finish EXIT
if [ ! -x "$root/usr/bin/git" ]; then
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -nE '/security/d; s,^(URIs:|deb ).*[ ]([a-z+]+://[^ ]+).*,\2,p' | sed -n 1p) || true
    [ "$mirror" ] || skip "no package source in /etc/apt"
    debootstrap --variant=minbase --include=ca-certificates,git,sudo bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -3 "$root.log"; skip "debootstrap has failed"; }
    rm -f "$root.log"
    # how this machine reaches its package sources
    for file in apt/sources.list apt/sources.list.d apt/apt.conf.d ssl/certs/ca-certificates.crt; do
        [ ! -e "/etc/$file" ] || { rm -rf "${root:?}/etc/$file" && cp -aL "/etc/$file" "$root/etc/$file"; }
    done
    mkdir -p "$root/usr/share/keyrings"
    cp -aL /usr/share/keyrings/. "$root/usr/share/keyrings/"
    chroot "$root" useradd -m -s /bin/sh newcomer
    echo 'newcomer ALL=(ALL) NOPASSWD:ALL' >"$root/etc/sudoers.d/newcomer"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
# the root too: tests that make mounts of their own need / to be one
mount --bind "$root" "$root" && mount --bind /proc "$root/proc" && mount --rbind /dev "$root/dev" &&
    mount --bind /sys "$root/sys" || skip "mounts are not allowed"
rm -rf "$root/home/newcomer/triax"
git clone -q . "$root/home/newcomer/triax"
chroot "$root" chown -R newcomer /home/newcomer/triax
settings=$(env | grep -iE '^((https?|no)_proxy|MINUTES|CI|TX_[A-Z_]*)=' || true)
# as_user USER COMMAND
as_user() {
    local start=$SECONDS
    env -i PATH="$PATH" TERM="${TERM:-dumb}" LANG=C.UTF-8 $settings chroot "$root" su "$1" \
        --whitelist-environment="$(cut -d= -f1 <<<"$settings" | paste -sd,)" -l -c "cd /home/newcomer/triax && $2"
    echo "On a fresh Debian 12, as $1: $2 ($((SECONDS - start)) s)"
}
as_user newcomer "${1:-./quickstart.sh && ./test.sh}"
[ -z "${2:-}" ] || as_user root "git config --global --add safe.directory /home/newcomer/triax && $2"
