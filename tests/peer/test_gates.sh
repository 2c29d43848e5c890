#!/bin/bash
# labels: peer
# Gates of layers with experts next to DeepSpeed's own top1gating, top2gating and topkgating on the CPU, in 200 cases that no
# other run has had (TX_TEST_SEED repeats some). TX_PEER_PYTHON names a Python that has torch, numpy and deepspeed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import numpy, torch, deepspeed.moe.sharded_moe' >/dev/null 2>&1; then
    echo "SKIPPED: no comparison with DeepSpeed's gates; set TX_PEER_PYTHON to a Python that has torch, numpy and deepspeed"
    exit 77
fi
seed=${TX_TEST_SEED:-$(date +%s)}
"$TX_PEER_PYTHON" "$here/../data/golden/gates/make.py" "$seed" 2>err | sed -n '/^\[$/,$p' >cases.json
[ -s cases.json ] || { cat err >&2; die "make.py makes no cases"; }
"$(dirname "$TRIAX")/test_golden_gates" cases.json || die "the gates of seed $seed differ"
