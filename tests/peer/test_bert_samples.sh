#!/bin/bash
# labels: peer
# Samples of BERT next to Megatron's rules in Python with NumPy's RandomState. TX_PEER_PYTHON names a Python that has numpy.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import numpy' 2>/dev/null; then
    echo "SKIPPED: no comparison of BERT's samples with NumPy; set TX_PEER_PYTHON to a Python that has numpy"
    exit 77
fi
"$TX_PEER_PYTHON" "$here/compare_bert_samples.py" "$TRIAX" "$data/dataset/tinybert_text_document" "$data/tiny/tiny-bert-vocab.txt"
