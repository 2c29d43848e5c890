#!/bin/bash
# labels: peer
# SentencePiece models next to the sentencepiece library. TX_PEER_PYTHON names a Python that has it.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import sentencepiece' 2>/dev/null; then
    echo "SKIPPED: no comparison of SentencePiece models; set TX_PEER_PYTHON to a Python that has sentencepiece"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_sentencepiece.py" "$TRIAX" "$data" "$work"
