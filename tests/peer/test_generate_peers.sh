#!/bin/bash
# labels: peer
# triax generate next to transformers: continuations, filtered distributions and log-probabilities of random models. TX_PEER_PYTHON
# names a Python that has it. With Open MPI also on tensor and pipeline ranks.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, transformers, safetensors' 2>/dev/null; then
    echo "SKIPPED: no comparison with transformers; set TX_PEER_PYTHON to a Python that has torch, transformers, safetensors"
    exit 77
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$TX_PEER_PYTHON" "$here/compare_generate.py" "$TRIAX" "$work" alone
. "$here/../cli/mpi.sh" # without mpirun this says so and ends the test as skipped
"$TX_PEER_PYTHON" "$here/compare_generate.py" "$TRIAX" "$work" ranks
