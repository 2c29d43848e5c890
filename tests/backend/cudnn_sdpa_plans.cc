/* cudnn_sdpa_plans.cc - does cuDNN have a fused kernel for every attention that we would leave to it? Cases and graphs
 * are made by the code of the CUDA module, for a device that is only described.
 *      cudnn_sdpa_plans DEVICE.json [all]
 * Exit 77: there is no cuDNN. test_cudnn_sdpa_plans.sh runs it, with a stand-in driver. */
#include "backend/gpu/cudnn_sdpa_cuda.cu"

#define _Noreturn
extern "C" {
#include "backend/gpu/fused_attention_case.h"
}
#undef _Noreturn

#include <stdio.h>
#include <stdlib.h>

typedef struct shape {
    bool backward, bf16, causal, padded, grouped, nondeterministic;
    int64_t s, d;
} shape;

static int failures;

static void expect(bool ok, const shape *x, const char *what)
{
    if (ok) return;
    failures++;
    printf("FAILED %s %s %s%s%s%s s=%d d=%d: %s\n", x->backward ? "backward" : "forward", x->bf16 ? "bf16" : "fp16",
           x->causal ? "causal " : "", x->padded ? "padded " : "", x->grouped ? "grouped " : "",
           x->nondeterministic ? "nondeterministic " : "", (int)x->s, (int)x->d, what);
}

/* Addresses to compute with. */
static char *const memory = (char *)4096;

/* Heads `first` to first + n - 1 of each group in [s, b, groups, of, d]: with n 0 one head, without a dimension of its
 * own. */
static tx_tensor heads(const shape *x, int64_t b, int64_t groups, int64_t of, int64_t first, int64_t n)
{
    tx_tensor t = {};
    t.data = memory + 2 * first * x->d;
    t.dtype = x->bf16 ? TX_BF16 : TX_F16;
    t.n_dims = n ? 5 : 4;
    int64_t dim[5] = { x->s, b, groups, n, x->d },
            stride[5] = { b * groups * of * x->d, groups * of * x->d, of * x->d, x->d, 1 };
    if (!n) dim[3] = x->d, stride[3] = 1;
    memcpy(t.dim, dim, sizeof dim);
    memcpy(t.stride, stride, sizeof stride);
    return t;
}

/* As a layer of the model asks for it: q, k and v side by side in one tensor, and so their gradients. */
static ask ask_of(const shape *x)
{
    const int64_t b = 3, groups = x->grouped ? 2 : 4, r = x->grouped ? 4 : 1;
    tx_tensor q = heads(x, b, groups, r + 2, 0, r), k = heads(x, b, groups, r + 2, r, 0),
              v = heads(x, b, groups, r + 2, r + 1, 0), o = heads(x, b, groups, r, 0, r), lse = {}, n_keys = {};
    lse.data = memory;
    lse.dtype = TX_F32;
    if (x->padded) n_keys.data = memory;
    if (x->backward) {
        tx_attention_bwd_args a = {};
        a.q = a.dq = q;
        a.k = a.dk = k;
        a.v = a.dv = v;
        a.o = a.do_ = o;
        a.lse = lse;
        a.n_keys = n_keys;
        a.causal = x->causal;
        return ask_bwd(&a);
    }
    tx_attention_fwd_args a = {};
    a.q = q;
    a.k = k;
    a.v = v;
    a.o = o;
    a.lse = lse;
    a.n_keys = n_keys;
    a.causal = x->causal;
    return ask_fwd(&a);
}

/* cuDNN's sample and head of each of ours: at the same place in memory, and the log-sum-exp's row too. */
static void check_places(const shape *x, const ask *a, const tx__sdpa *c)
{
    const tx_tensor *q = &a->x[TX__SDPA_Q];
    int64_t b = q->dim[1], groups = q->dim[2], r = q->dim[3];
    bool same = c->b * c->heads == b * groups * r;
    for (int64_t n = 0; n < b * groups * r; n++) { /* lse's rows in order */
        int64_t i_r = n % r, g = n / r % groups, i_b = n / r / groups, sample = n / c->heads, head = n % c->heads;
        for (int role = 0; role < n_values(a); role++) {
            const tx_tensor *t = &a->x[role];
            bool of_keys = t->n_dims == 4;
            int64_t h = of_keys ? head * c->key_heads / c->heads : head;
            int64_t ours = i_b * t->stride[1] + g * t->stride[2] + (of_keys ? 0 : i_r * t->stride[3]) + t->stride[0],
                    theirs = sample * c->stride[role][0] + h * c->stride[role][1] + c->stride[role][2];
            same = same && ours == theirs;
        }
    }
    expect(same, x, "cuDNN's heads are not where ours are");
}

static void try_shape(tx__cudnn *l, shape x)
{
    ask a = ask_of(&x);
    tx__sdpa c;
    tx__sdpa_plan p;
    if (!make_case(&a, x.nondeterministic, &c)) {
        expect(false, &x, "not a case");
        return;
    }
    check_places(&x, &a, &c);
    if (!tx__sdpa_make(l, &c, &p))
        expect(false, &x, p.trouble);
    else {
        /* scores in memory are what a fused kernel does without: but for dS, which the deterministic backward keeps */
        int64_t tile = 128, s = (c.s + tile - 1) / tile * tile, scores = 2 * c.b * c.heads * s * s,
                per_head = 2 * 4 * c.b * c.heads * s * c.d, most = 4096;
        if (c.deterministic) most += scores;
        if (c.backward && x.grouped) most += per_head;
        expect(p.workspace <= most, &x, "the workspace is larger than a fused kernel's");
        expect(!c.deterministic || p.workspace >= 2 * c.b * c.heads * c.s * c.s, &x, "there is no workspace for dS");
    }
    tx__sdpa_free(l, &p);
}

/* What we leave to our own kernels, and what cuDNN refuses. */
static void try_others(tx__cudnn *l)
{
    shape x = { false, true, true, false, false, false, 1024, 64 };
    tx__sdpa c;
    ask a = ask_of(&x), b;
    expect(make_case(&a, false, &c) && !c.padded, &x, "should be a case, and nothing pads");
    b = a;
    b.dropout = true;
    expect(!make_case(&b, false, &c), &x, "dropout is a case");
    b = a;
    b.past = true;
    expect(!make_case(&b, false, &c), &x, "a past is a case");
    b = a;
    b.first_key.data = memory;
    expect(!make_case(&b, false, &c), &x, "first_key is a case");
    b = a;
    b.lse.data = NULL;
    expect(!make_case(&b, false, &c), &x, "inference is a case");
    b = a;
    b.x[TX__SDPA_K].dim[0] *= 2;
    expect(!make_case(&b, false, &c), &x, "more keys than queries are a case");
    b = a;
    b.x[TX__SDPA_V].data = memory + 8;
    expect(!make_case(&b, false, &c), &x, "an address of 8 bytes is a case");
    for (int i = 0; i < TX__SDPA_N_VALUES; i++) b.x[i].dtype = TX_F32;
    expect(!make_case(&b, false, &c), &x, "fp32 is a case");
    x.s = 1000;
    a = ask_of(&x);
    expect(make_case(&a, false, &c) && c.padded, &x, "a tile that is not full has to be masked");
    x.s = 1024;
    x.grouped = true;
    a = ask_of(&x);
    a.x[TX__SDPA_Q].stride[1] += 64; /* samples are not behind each other as groups are */
    expect(!make_case(&a, false, &c), &x, "groups that are not like samples are a case");

    tx__sdpa_plan p;
    x.grouped = false;
    x.backward = true;
    a = ask_of(&x);
    expect(make_case(&a, false, &c), &x, "should be a case");
    c.most_workspace = 1 << 20;
    expect(!tx__sdpa_make(l, &c, &p) && strstr(p.trouble, "workspace"), &x, "a workspace that is too large");
    tx__sdpa_free(l, &p);
    c.d = 4096;
    expect(!tx__sdpa_make(l, &c, &p) && *p.trouble, &x, "heads that are too large");
    tx__sdpa_free(l, &p);
}

int main(int argc, char **argv)
{
    static const int positions[] = { 128, 512, 1000, 1024, 2048 }, sizes[] = { 32, 64, 80, 96, 128 };
    static char json[1 << 16];
    char trouble[256], version[32];
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    bool all = argc > 2 && !strcmp(argv[2], "all");
    if (!f || !fread(json, 1, sizeof json - 1, f)) {
        fprintf(stderr, "cudnn_sdpa_plans DEVICE.json [all]\n");
        return 2;
    }
    fclose(f);
    tx__cudnn *l = tx__cudnn_open(trouble, sizeof trouble);
    if (!l) {
        printf("skipped: %s\n", trouble);
        return 77;
    }
    tx__cudnn_version(l, version, sizeof version);
    if (!tx__cudnn_on_description(l, json, trouble, sizeof trouble)) {
        printf("FAILED cuDNN %s does not take the description of a device: %s\n", version, trouble);
        return 1;
    }

    /* every length with a head size of its own, and the most usual pair: unless all are wanted */
    int n = 0;
    for (int i = 0; i < 16 * 25; i++) {
        int length = i / 16 % 5, size = i / 80;
        shape x = { (i & 1) != 0, (i & 2) == 0, (i & 4) != 0,      (i & 4) == 0,
                    (i & 8) != 0, false,        positions[length], sizes[size] };
        bool usual = x.s == 1024 && x.d == 64;
        if (!all && !usual && !(x.bf16 && length == size)) continue;
        try_shape(l, x);
        n++;
    }
    for (int i = 0; i < 8; i++) {
        bool grouped = i & 1, causal = i & 2, other = i & 4;
        try_shape(l, { other, true, causal, !causal && other, grouped, other, 1024, 64 });
        n++;
    }
    try_others(l);
    tx__cudnn_close(l);
    printf("cuDNN %s: %d cases, %d failures\n", version, n, failures);
    return failures > 0;
}
