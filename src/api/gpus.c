/* gpus.c - GPUs in the words of logs. */
#include "api/gpus.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/gpu_collectives.h"
#include "backend/gpu_module.h"
#include "base/log.h"

void tx_gpus_environment(const char *indent)
{
    static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                         "NCCL_DEBUG",           "NCCL_ALGO",           "NCCL_PROTO",
                                         "NCCL_SOCKET_IFNAME",   "TX_GPU_MODULE",       "TX_GPU_COMM",
                                         "TX_GPU_CUDNN",         "TX_GPU_GEMM_TIMING",  "TX_BLASLT_LIBRARY",
                                         "TX_NCCL_LIBRARY" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value) tx_info("%s%s=%s", indent, names[i], value);
    }
}

void tx_gpu_text(char *out, size_t cap, const tx_device *d, int n_sharing)
{
    *out = 0;
    if (!d) return;
    int n = snprintf(out, cap, "GPU %d, %s%s%s", d->number, d->name, *d->bus ? ", " : "", d->bus);
    if (n_sharing > 1 && (size_t)n < cap) snprintf(out + n, cap - (size_t)n, ", shared by %d ranks", n_sharing);
}

void tx_gpus_show_groups(const tx_grid *g)
{
    const tx_gpu_module *m;
    char library[64] = "";
    if (tx_gpu_module_get(&m) || !m->collectives || m->collectives->library(library, sizeof library)) *library = 0;
    for (int i = 0; i < TX_N_STEP_GROUPS; i++) {
        const tx_comm *group = tx_grid_group(g, i);
        if (tx_comm_size(group) < 2) continue;
        bool team = tx_comm_has_team(group);
        tx_info("    the %s group's tensors go %s%s%s", tx_comm_name(group),
                team ? "from GPU to GPU by " : "by way of the host's memory", team ? library : "",
                team && i == TX_GROUP_PIPELINE ? ", messages between stages by way of the host's memory" : "");
    }
}
