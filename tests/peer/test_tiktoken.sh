#!/bin/bash
# labels: peer
# TikTokenizer next to tiktoken. TX_PEER_PYTHON names a Python that has tiktoken, tokenizers and sentencepiece; TX_PEER_STRINGS is the number of
# random strings for each pattern.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tiktoken, tokenizers' 2>/dev/null; then
    echo "SKIPPED: no comparison of TikTokenizer; set TX_PEER_PYTHON to a Python that has tiktoken and tokenizers"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_tiktoken.py" "$TRIAX" "$data" "$work" "${TX_PEER_STRINGS:-5000}"
