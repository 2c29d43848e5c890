#!/bin/bash
# labels: peer
# tokenizer.json next to Hugging Face tokenizers and tiktoken. TX_PEER_PYTHON names a Python that has tokenizers; with
# tiktoken and regex it compares those too.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tokenizers' 2>/dev/null; then
    echo "SKIPPED: no comparison of tokenizer.json; set TX_PEER_PYTHON to a Python that has tokenizers"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_tokenizer_json.py" "$TRIAX" "$data" "$work"
