#!/bin/bash
# gpu_modules.sh - compiles and links all device code for NVIDIA's and AMD's GPUs, and checks that the modules load and, on a
# machine without a driver, say what is missing, and that cuDNN plans all that is left to it. A vendor whose compiler is not here
# is left out aloud.
#   tools/gpu_modules.sh            in build/gpu
#   tools/gpu_modules.sh FOLDER     a build that is there gets them as well
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
build=${1:-build/gpu}
kinds=""
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc 2>/dev/null | head -1 || true)
if [ -n "$nvcc" ]; then
    kinds=cuda
    echo "CUDA: $nvcc, $("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/\1/p')"
else
    echo "CUDA: SKIPPED, there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
fi
if [ -d "${ROCM_PATH:-/opt/rocm}/include/hip" ]; then
    kinds+=";hip"
    echo "HIP: ROCm in ${ROCM_PATH:-/opt/rocm}"
elif have_packages $HIP_PACKAGES; then
    need_packages $HIP_PACKAGES
    kinds+=";hip"
    echo "HIP: clang $(clang++-19 -dumpversion)"
else
    echo "HIP: SKIPPED, there is no ROCm, and the package manager does not have all of: $HIP_PACKAGES"
fi
[ -n "$kinds" ] || exit 0
archs=()
if [ "${CI:-}" ]; then # one of those that share their code: sm_80 has what sm_90 has, gfx942 what gfx90a has
    archs=(-DTX_CUDA_ARCHS=90 "-DTX_HIP_ARCHS=gfx90a;gfx1100" -DTX_GPU_QUICK=ON)
fi
need_packages $BUILD_PACKAGES $TEST_PACKAGES
new=() # a new folder gets no more than is needed
[ -e "$build/CMakeCache.txt" ] || new=(-DCMAKE_BUILD_TYPE=Release "-DTX_ROOMS=base;config;backend")
run cmake -S . -B "$build" "${new[@]}" -DTX_GPU="${kinds#;}" -DCMAKE_RULE_MESSAGES=OFF ${CI:+-DTX_WERROR=ON} "${archs[@]}" >/dev/null
targets=(test_gpu_module)
[[ $kinds == *cuda* ]] && targets+=(triax_cuda)
[[ $kinds == *hip* ]] && targets+=(triax_hip)
run cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
run ctest --test-dir "$build" -R '^test_gpu_module$' --verbose --no-tests=error
there=$(cmake --build "$build" --target help)
if [[ $there == *"... cudnn_sdpa_plans"* ]]; then
    run cmake --build "$build" -j "$(nproc)" --target cudnn_sdpa_plans
    code=0
    CUDNN_SDPA_PLANS=$(realpath "$build")/cudnn_sdpa_plans run bash tests/backend/test_cudnn_sdpa_plans.sh || code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || exit $code
else
    echo "cuDNN's plans: SKIPPED, there are no headers of CUDA and cuDNN"
fi
