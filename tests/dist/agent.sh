#!/bin/bash
# agent.sh HOST WORDS... - in ssh's place for mpirun, on the hosts of lib.sh.
export TX_AS_SHELL=1
exec bash "$(dirname "$0")/on_host.sh" "$@"
