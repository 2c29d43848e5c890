#!/bin/bash
# labels: peer
# Adapters that triax trains, in PEFT, and PEFT's in triax. TX_PEER_PYTHON names a Python that has peft.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import peft' 2>/dev/null; then
    echo "SKIPPED: no comparison with PEFT; set TX_PEER_PYTHON to a Python that has peft, torch and transformers"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_adapters.py" "$TRIAX" "$data" "$work"
