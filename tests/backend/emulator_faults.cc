/* emulator_faults.cc - what the emulated GPU has to find (emulate.h): each of these kernels does something wrong, in a
 * process of its own that has to die of it, with the right words where there are some. */
#include "backend/gpu/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 64
#define N       1000 /* floats, no whole page */

__global__ void touch_kernel(float *p, int at)
{
    if (threadIdx.x == 0) p[at] = 1;
}

__global__ void copy_kernel(const float *p)
{
    GPU_SHARED(shared);
    emulate_copy(shared, p, 16);
    emulate_copies_wait();
}

__global__ void dynamic_kernel(int at)
{
    GPU_SHARED(shared);
    __syncthreads();
    if (threadIdx.x == 5) shared[at] = 1;
}

__global__ void static_kernel(int at, float *p)
{
    __shared__ float part[5];
    float *alias = part;
    __syncthreads();
    if (threadIdx.x == 5) alias[at] = 1;
    __syncthreads();
    p[0] = alias[0];
}

__global__ void local_kernel(int at, float *p)
{
    float own[8] = {};
    float *alias = own;
    asm volatile("" : "+r"(alias)); /* no compiler knows what it is */
    sync_warp();
    alias[at + (int)threadIdx.x % 2] = 1;
    p[threadIdx.x] = own[at % 8];
}

__global__ void barrier_kernel(void)
{
    if (threadIdx.x % WARP < WARP / 2)
        __syncthreads();
    else
        sync_warp();
}

__global__ void returned_kernel(float *p)
{
    if (threadIdx.x % WARP == 1) return;
    p[threadIdx.x] = shfl(1.0f, 1);
}

struct fault {
    const char *name, *words; /* NULL: a signal */
    bool needs_asan;
    void (*run)(gpuStream_t s, float *p);
};

static const fault faults[] = {
    { "the host reads device memory", NULL, false, [](gpuStream_t, float *p) { (void)*(volatile float *)p; } },
    { "a kernel writes the page behind a block", NULL, false,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 0, touch_kernel, p, 1024); } },
    { "some threads miss a barrier", "a barrier is reached by some threads only", false,
      [](gpuStream_t s, float *) { emulate_launch(s, 1, THREADS, 0, barrier_kernel); } },
    { "a lane is read that has returned", "a lane is read that is not there", false,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 0, returned_kernel, p); } },
    { "a kernel writes behind a block's last number", "use-after-poison", true,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 0, touch_kernel, p, N); } },
    { "a copy reads behind a block's last number", "use-after-poison", true,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 16, copy_kernel, p + N - 1); } },
    { "a kernel writes behind the launch's shared memory", "use-after-poison", true,
      [](gpuStream_t s, float *) { GPU_LAUNCH(s, 1, THREADS, 37, dynamic_kernel, 37); } },
    { "a kernel writes behind a shared array", "global-buffer-overflow", true,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 0, static_kernel, 5, p); } },
    { "a kernel writes behind an array of its own", "stack-buffer-overflow", true,
      [](gpuStream_t s, float *p) { GPU_LAUNCH(s, 1, THREADS, 0, local_kernel, 8, p); } },
};

/* The same kernels with nothing wrong. */
static void run_right(gpuStream_t s, float *p)
{
    GPU_LAUNCH(s, 3, THREADS, 0, touch_kernel, p, N - 1);
    GPU_LAUNCH(s, 3, THREADS, 16, copy_kernel, p + N - 4);
    GPU_LAUNCH(s, 3, THREADS, 37, dynamic_kernel, 36);
    GPU_LAUNCH(s, 3, THREADS, 0, static_kernel, 4, p);
    GPU_LAUNCH(s, 3, THREADS, 0, local_kernel, 6, p);
}

/* How a process ends that runs this, and what it says. */
static int end_of(void (*run)(gpuStream_t s, float *p), char *said, size_t cap)
{
    int pipe_[2], status = 0;
    size_t n = 0;
    if (pipe(pipe_)) exit(1);
    pid_t child = fork();
    if (child == 0) {
        gpuStream_t s;
        void *p;
        dup2(pipe_[1], STDERR_FILENO);
        if (gpuStreamCreateWithPriority(&s, 0) || gpuMalloc(&p, N * sizeof(float))) _exit(2);
        run(s, (float *)p);
        gpuStreamSynchronize(s);
        gpuFree(p);
        gpuStreamDestroy(s);
        _exit(0);
    }
    close(pipe_[1]);
    for (ssize_t k; n + 1 < cap && (k = read(pipe_[0], said + n, cap - 1 - n)) > 0; n += (size_t)k) {}
    said[n] = 0;
    close(pipe_[0]);
    waitpid(child, &status, 0);
    return status;
}

int main(void)
{
    static char said[1 << 16];
    int bad = 0;
#ifdef __SANITIZE_ADDRESS__
    const bool asan = true;
#else
    const bool asan = false;
#endif
    if (end_of(run_right, said, sizeof said)) bad = 1, printf("FAILED: what is right dies: %s\n", said);
    for (const fault &f : faults) {
        if (f.needs_asan && !asan) continue;
        int status = end_of(f.run, said, sizeof said);
        bool found = asan || !f.words ? status != 0 : WIFSIGNALED(status);
        if (!found || (f.words && !strstr(said, f.words))) {
            bad = 1;
            printf("FAILED: not found: %s (status %d): %s\n", f.name, status, said);
        }
    }
    return bad;
}
