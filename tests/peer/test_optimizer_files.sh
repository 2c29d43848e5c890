#!/bin/bash
# labels: peer
# Folders of optimizers other than AdamW, next to DeepSpeed's own engine on 1 and 2 CPU ranks, both ways. TX_PEER_PYTHON names a Python
# that has torch and deepspeed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, deepspeed' 2>/dev/null; then
    echo "SKIPPED: no comparison with DeepSpeed's engine; set TX_PEER_PYTHON to a Python that has torch and deepspeed"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_optimizer_files.py" "$TRIAX" "$work" 2>said || { tail -20 said >&2; die "an optimizer's file"; }
