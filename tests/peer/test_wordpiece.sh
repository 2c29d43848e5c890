#!/bin/bash
# labels: peer
# triax's WordPiece next to Megatron's rules in Python and to tokenizers. TX_PEER_PYTHON names a Python that has tokenizers;
# TX_PEER_MEGATRON, if set, Megatron's own bert_tokenization.py.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import tokenizers' 2>/dev/null; then
    echo "SKIPPED: no comparison with Hugging Face's WordPiece; set TX_PEER_PYTHON to a Python that has tokenizers"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_wordpiece.py" "$TRIAX" "$data/token/bert-base-uncased-vocab.txt" "$work"
