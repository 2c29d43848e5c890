#!/bin/bash
# labels: peer
# triax next to PyTorch, transformers and tokenizers themselves. They live outside the project: TX_PEER_PYTHON names a Python
# that has them (pip install torch transformers tokenizers safetensors numpy).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, transformers, tokenizers, safetensors' 2>/dev/null; then
    echo "SKIPPED: no comparison with PyTorch and Hugging Face; set TX_PEER_PYTHON to a Python that has them"
    exit 77
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$TX_PEER_PYTHON" "$here/compare_tokenizer.py" "$TRIAX" "$data/token/gpt2-vocab.json" "$data/token/gpt2-merges.txt"
"$TX_PEER_PYTHON" "$here/compare_models.py" "$TRIAX" "$work" 2>&1 | grep -v 'Writing model shards\|Loading weights'
