#!/bin/bash
# on_host.sh HOST WORDS... - runs a command on a host that lib.sh has made. Called with one string of several words, as ssh
# and mpirun's agents do, a shell takes it. A host that there is not: exit 255, as ssh; node9 never answers.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
[ "$host" = node9 ] && exec sleep 1000
[ -e "/run/netns/$TX_HOSTS_TAG${host#node}" ] || { echo "ssh: Could not resolve hostname $host" >&2; exit 255; }
[ "${TX_AS_SHELL:-}" ] && set -- sh -c "$*"
unset TX_AS_SHELL
exec nsenter --net="/run/netns/$TX_HOSTS_TAG${host#node}" unshare --uts --mount sh -c 'hostname "$0"; mount --bind "$TX_HOSTS_FILE" /etc/hosts; exec "$@"' \
    "$host" "$@"
