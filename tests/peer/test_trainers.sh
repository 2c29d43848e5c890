#!/bin/bash
# labels: peer
# triax train-tokenizer next to Hugging Face's trainers. TX_PEER_PYTHON names a Python that has tokenizers.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tokenizers' 2>/dev/null; then
    echo "SKIPPED: no comparison with Hugging Face's trainers; set TX_PEER_PYTHON to a Python that has tokenizers"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_trainers.py" "$TRIAX" "$data" "$work"
