#!/bin/bash
# labels: peer
# .pt files next to PyTorch itself, both ways. TX_PEER_PYTHON names a Python that has torch and numpy; TX_PEER_LARGE=1 adds a
# file of more than 4 GiB.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, numpy' 2>/dev/null; then
    echo "SKIPPED: no comparison of .pt files with PyTorch; set TX_PEER_PYTHON to a Python that has torch and numpy"
    exit 77
fi
PYTHONPATH="$here/../torch" "$TX_PEER_PYTHON" "$here/compare_torch.py" "$(dirname "$TRIAX")/pt_tool" "$work"
