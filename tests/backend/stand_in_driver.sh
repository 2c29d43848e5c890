#!/bin/bash
# stand_in_driver.sh DIR - makes DIR/libcuda.so.1: a CUDA driver without a device, for programs that plan what others run.
# It has every function of the toolkit's stub; those that compiling for a described device needs say that all went well,
# the others that there is no stub for them (error 34). Exit 77: what it is made of is not here.
set -euo pipefail
folder=$1
for toolkit in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr; do
    stub=$toolkit/lib64/stubs/libcuda.so
    [ -e "$stub" ] || stub=$toolkit/lib/x86_64-linux-gnu/stubs/libcuda.so
    [ -n "$toolkit" ] && [ -e "$stub" ] && break
done
[ -e "$stub" ] || { echo "skipped: no stub of libcuda.so (a part of the CUDA toolkit)"; exit 77; }
for tool in nm cc; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done

mkdir -p "$folder"
source=$folder/driver.c
cat >"$source" <<'END'
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuLibraryLoadData(void **h) { *h = (void *)0x1000; return 0; }
int cuLibraryGetKernel(void **h) { *h = (void *)0x2000; return 0; }
int cuKernelGetFunction(void **h) { *h = (void *)0x3000; return 0; }
int cuModuleLoadData(void **h) { *h = (void *)0x1000; return 0; }
int cuModuleLoadDataEx(void **h) { *h = (void *)0x1000; return 0; }
int cuModuleGetFunction(void **h) { *h = (void *)0x3000; return 0; }
int cuGetErrorString(int e, const char **s) { (void)e; *s = "stand-in driver"; return 0; }
int cuGetErrorName(int e, const char **s) { (void)e; *s = "stand-in driver"; return 0; }
int cuFuncGetAttribute(int *v) { *v = 64; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *v) { *v = 1; return 0; }
END
here=$(sed -nE 's/^int (cu[A-Za-z0-9]+)\(.*/\1/p' "$source")
nm -D --defined-only "$stub" | awk '$2 == "T" { print $3 }' | grep -vxF "$here" |
    sed 's/.*/int &(void) { return 34; }/' >>"$source"
cc -w -shared -fPIC "$source" -o "$folder/libcuda.so.1"
