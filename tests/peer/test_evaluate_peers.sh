#!/bin/bash
# labels: peer
# The figures of triax evaluate next to transformers' logits, scored by another program. TX_PEER_PYTHON names a Python that
# has torch and transformers.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, transformers' 2>/dev/null; then
    echo "SKIPPED: no comparison with transformers; set TX_PEER_PYTHON to a Python that has torch and transformers"
    exit 77
fi
HF_HUB_OFFLINE=1 "$TX_PEER_PYTHON" "$here/compare_evaluate.py" "$TRIAX" "$data" "$work"
