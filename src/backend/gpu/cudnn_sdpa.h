/* cudnn_sdpa.h - scaled dot product attention by cuDNN: the library opened at run time, a plan for a case, its run. It
 * knows cuDNN and neither kernels nor the backend (fused_attention.h), so that plans can be made where there is no
 * device (tests/backend/cudnn_sdpa_plans.cc). */
#ifndef TX_BACKEND_GPU_CUDNN_SDPA_H
#define TX_BACKEND_GPU_CUDNN_SDPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What memory is given to, or a number. The first eight are [b, heads, s, d]. */
typedef enum tx__sdpa_role {
    TX__SDPA_Q,
    TX__SDPA_K,
    TX__SDPA_V,
    TX__SDPA_O,
    TX__SDPA_DO,
    TX__SDPA_DQ,
    TX__SDPA_DK,
    TX__SDPA_DV,
    TX__SDPA_N_VALUES,
    TX__SDPA_LSE = TX__SDPA_N_VALUES, /* [b, heads, s] f32, contiguous */
    TX__SDPA_N_QUERIES,               /* [b] i32 */
    TX__SDPA_N_KEYS,                  /* [b] i32 */
    TX__SDPA_ROW_SUM,                 /* [b, heads, s] f32: backward's own, Σ_d do o */
    TX__SDPA_DQ_SUM,                  /* [b, heads, s, d] f32: backward's own, unless deterministic */
    TX__SDPA_SCALE,                   /* of the host's memory: f32 */
    TX__SDPA_MASKED,                  /* likewise, -inf */
    TX__SDPA_ONE,                     /* likewise, 1 */
    TX__SDPA_N_ROLES
} tx__sdpa_role;

/* A case. Zeroed before it is filled, because cases are compared byte by byte. */
typedef struct tx__sdpa {
    bool backward, bf16 /* else fp16 */, causal, padded /* by N_QUERIES and N_KEYS */, deterministic;
    int64_t b, heads, key_heads, s, d;    /* heads is a multiple of key_heads */
    int64_t stride[TX__SDPA_N_VALUES][3]; /* of samples, heads, positions; elements */
    int64_t most_workspace;               /* bytes */
} tx__sdpa;

typedef struct tx__sdpa_plan {
    int64_t workspace; /* bytes */
    unsigned uses;     /* bit r: role r is to be given */
    void *plan;        /* cuDNN's */
    void *parts[160];  /* what it is made of */
    int n_parts;
    char trouble[256]; /* why there is none */
} tx__sdpa_plan;

typedef struct tx__cudnn tx__cudnn;

/* cuDNN 9.10 or a later 9. NULL: there is none that can be used, and why. */
tx__cudnn *tx__cudnn_open(char *trouble, size_t cap);
void tx__cudnn_close(tx__cudnn *l); /* NULL allowed */
void tx__cudnn_version(const tx__cudnn *l, char *out, size_t cap);

/* Where plans are for: this thread's device, and its stream. */
bool tx__cudnn_on_device(tx__cudnn *l, void *stream, char *trouble, size_t cap);

/* The same for one that is only described, in cuDNN's JSON, on which nothing can run.
 * for tests: plans are made where there is no GPU. */
bool tx__cudnn_on_description(tx__cudnn *l, const char *json, char *trouble, size_t cap);

/* Graph and plan, up to some seconds. False: cuDNN cannot do it, and *out has the reason. Free it in either case. */
bool tx__sdpa_make(tx__cudnn *l, const tx__sdpa *c, tx__sdpa_plan *out);
void tx__sdpa_free(tx__cudnn *l, tx__sdpa_plan *p);

/* @at: memory by role, 16-byte aligned; @workspace: p->workspace bytes. False: cuDNN's words are in trouble. */
bool tx__sdpa_run(tx__cudnn *l, const tx__sdpa_plan *p, float scale, void *const at[TX__SDPA_N_ROLES], void *workspace,
                  char *trouble, size_t cap);

#endif
