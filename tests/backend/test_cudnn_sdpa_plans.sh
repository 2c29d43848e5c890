#!/bin/bash
# labels: extended op
# test_cudnn_sdpa_plans.sh - cuDNN's plans for all attention that backend gpu leaves to it, made without a device.
set -uo pipefail
cd "$(dirname "$0")"
program=${CUDNN_SDPA_PLANS:-none}
[ "$program" != none ] && [ -x "$program" ] || { echo "skipped: built without cuDNN's headers or without a C++ compiler"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bash ./stand_in_driver.sh "$folder" || exit $?
libraries=$folder
for toolkit in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [ -n "$toolkit" ] && [ -d "$toolkit/lib64" ] && libraries=$libraries:$toolkit/lib64
done
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$program" device_h200.json "$@"
