#!/bin/bash
# labels: peer
# A tokenizer.json of every kind next to Hugging Face tokenizers, which trains them. TX_PEER_PYTHON names a Python that has tokenizers and
# sentencepiece; TX_PEER_STRINGS is the number of random strings for each kind.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tokenizers, sentencepiece' 2>/dev/null; then
    echo "SKIPPED: no comparison of tokenizer.json's kinds; set TX_PEER_PYTHON to a Python that has tokenizers and sentencepiece"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_json_kinds.py" "$TRIAX" "$data" "$work" "${TX_PEER_STRINGS:-3000}"
