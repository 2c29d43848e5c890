#!/bin/bash
# labels: peer
# Folders of models with experts, next to DeepSpeed's own engine on 1, 2 and 4 CPU ranks, tensor-parallel ones among them, both
# ways. TX_PEER_PYTHON names a Python that has torch and deepspeed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, deepspeed' 2>/dev/null; then
    echo "SKIPPED: no comparison with DeepSpeed's engine; set TX_PEER_PYTHON to a Python that has torch and deepspeed"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_expert_files.py" "$TRIAX" "$work" 2>said || { tail -20 said >&2; die "an expert's file"; }
