#!/bin/bash
# labels: peer
# Event files next to TensorBoard's own reader. TX_PEER_PYTHON names a Python that has tensorboard.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tensorboard' 2>/dev/null; then
    echo "SKIPPED: no reading of event files; set TX_PEER_PYTHON to a Python that has tensorboard"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_tensorboard.py" "$TRIAX" "$data" "$work"
