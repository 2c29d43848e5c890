#!/bin/bash
# labels: peer
# BERT between Hugging Face and every other format, computed by transformers. TX_PEER_PYTHON names a Python that has it.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, transformers, safetensors' 2>/dev/null; then
    echo "SKIPPED: no comparison with transformers; set TX_PEER_PYTHON to a Python that has torch, transformers, safetensors"
    exit 77
fi
HF_HUB_OFFLINE=1 "$TX_PEER_PYTHON" "$here/compare_bert_conversions.py" "$TRIAX" "$data" "$work"
