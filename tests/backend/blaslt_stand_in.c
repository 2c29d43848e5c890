/* blaslt_stand_in.c - a cuBLASLt of loops, to check how it is called where there is no GPU. Strict where the real one
 * is (sizes, types, alignments, attributes), and in the stream, as the real one. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *gpuStream_t;
#include "backend/gpu/blaslt.h"
#include "blaslt_stand_in.h"

#define API __attribute__((visibility("default")))
enum { INVALID = 7, UNSUPPORTED = 15 };
static const size_t NEEDED = 64 << 10; /* workspace of each algorithm, written all over */

API blaslt_stand_in_counts blaslt_stand_in_counted;
#define counts blaslt_stand_in_counted

typedef enum kind { HANDLE = 0x4c54, DESC, LAYOUT, PREF } kind;

typedef struct desc {
    kind kind;
    int32_t trans_a, trans_b, epilogue, bias_type;
    const void *bias;
} desc;

typedef struct layout {
    kind kind;
    int type;
    int64_t rows, cols, ld;
} layout;

typedef struct pref {
    kind kind;
    uint64_t workspace;
    uint32_t reductions, align[4];
} pref;

static int make(void **out, size_t bytes, kind k)
{
    *out = calloc(1, bytes);
    *(kind *)*out = k;
    counts.objects++;
    counts.made++;
    return 0;
}

static bool is(const void *object, kind k)
{
    return object && *(const kind *)object == k;
}

static int destroy(void *object, kind k)
{
    if (!is(object, k)) return INVALID;
    counts.objects--;
    free(object);
    return 0;
}

API size_t cublasLtGetVersion(void)
{
    return 130102;
}

API int cublasLtCreate(void **out)
{
    return make(out, sizeof(kind), HANDLE);
}

API int cublasLtDestroy(void *handle)
{
    return destroy(handle, HANDLE);
}

API int cublasLtMatmulDescCreate(void **out, int compute, int scale_type)
{
    if (compute != BLASLT_COMPUTE_32F || scale_type != BLASLT_R_32F) return UNSUPPORTED;
    make(out, sizeof(desc), DESC);
    ((desc *)*out)->epilogue = BLASLT_EPILOGUE_DEFAULT;
    ((desc *)*out)->bias_type = -1;
    return 0;
}

API int cublasLtMatmulDescDestroy(void *d)
{
    return destroy(d, DESC);
}

API int cublasLtMatmulDescSetAttribute(void *object, int attribute, const void *value, size_t bytes)
{
    desc *d = object;
    void *to = attribute == BLASLT_DESC_TRANSA           ? (void *)&d->trans_a
               : attribute == BLASLT_DESC_TRANSB         ? (void *)&d->trans_b
               : attribute == BLASLT_DESC_EPILOGUE       ? (void *)&d->epilogue
               : attribute == BLASLT_DESC_BIAS_DATA_TYPE ? (void *)&d->bias_type
               : attribute == BLASLT_DESC_BIAS_POINTER   ? (void *)&d->bias
                                                         : NULL;
    if (!is(d, DESC) || !to || bytes != (attribute == BLASLT_DESC_BIAS_POINTER ? sizeof(void *) : 4)) return INVALID;
    memcpy(to, value, bytes);
    return 0;
}

API int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    if (!rows || !cols || ld < (int64_t)rows) return INVALID;
    make(out, sizeof(layout), LAYOUT);
    *(layout *)*out = (layout){ LAYOUT, type, (int64_t)rows, (int64_t)cols, ld };
    return 0;
}

API int cublasLtMatrixLayoutDestroy(void *l)
{
    return destroy(l, LAYOUT);
}

API int cublasLtMatmulPreferenceCreate(void **out)
{
    make(out, sizeof(pref), PREF);
    *(pref *)*out = (pref){ PREF, 0, 7, { 256, 256, 256, 256 } };
    return 0;
}

API int cublasLtMatmulPreferenceDestroy(void *p)
{
    return destroy(p, PREF);
}

API int cublasLtMatmulPreferenceSetAttribute(void *object, int attribute, const void *value, size_t bytes)
{
    pref *p = object;
    bool align = attribute >= BLASLT_PREF_MIN_ALIGNMENT_A_BYTES && attribute <= BLASLT_PREF_MIN_ALIGNMENT_D_BYTES;
    void *to = align ? &p->align[attribute - BLASLT_PREF_MIN_ALIGNMENT_A_BYTES]
               : attribute == BLASLT_PREF_REDUCTION_SCHEME_MASK ? &p->reductions
               : attribute == BLASLT_PREF_MAX_WORKSPACE_BYTES   ? (void *)&p->workspace
                                                                : NULL;
    if (!is(p, PREF) || !to || bytes != (to == &p->workspace ? 8 : 4)) return INVALID;
    memcpy(to, value, bytes);
    return 0;
}

/* ---- products ---- */

static size_t size_of(int type)
{
    return type == BLASLT_R_32F ? 4 : 2;
}

/* Whether the matrices fit together, and the types are a row of the table in cublasLtMatmul()'s documentation. */
static int check(const desc *d, const layout *a, const layout *b, const layout *c, const layout *to)
{
    if (!is(d, DESC) || !is(a, LAYOUT) || !is(b, LAYOUT) || !is(c, LAYOUT) || !is(to, LAYOUT)) return INVALID;
    bool ta = d->trans_a == BLASLT_OP_T, tb = d->trans_b == BLASLT_OP_T;
    if ((ta ? a->cols : a->rows) != c->rows || (tb ? b->rows : b->cols) != c->cols) return INVALID;
    if ((ta ? a->rows : a->cols) != (tb ? b->cols : b->rows) || memcmp(c, to, sizeof *c)) return INVALID;
    if (a->type != b->type || (c->type != a->type && c->type != BLASLT_R_32F)) return UNSUPPORTED;
    if (d->epilogue == BLASLT_EPILOGUE_DEFAULT) return 0;
    return d->epilogue == BLASLT_EPILOGUE_BIAS && d->bias_type == c->type ? 0 : UNSUPPORTED;
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *d, void *a, void *b, void *c, void *to, void *preference,
                                       int n_wanted, blaslt_heuristic *out, int *n)
{
    const pref *p = preference;
    int status = check(d, a, b, c, to), list[8];
    *n = 0;
    counts.asked++;
    if (!is(handle, HANDLE) || !is(p, PREF) || n_wanted < 1) return INVALID;
    if (status) return status;
    if (((desc *)d)->epilogue == BLASLT_EPILOGUE_BIAS && !((desc *)d)->bias) return INVALID;
    int n_list = 0;
    if (p->reductions & 5) list[n_list++] = STAND_IN_IN_PLACE;
    list[n_list++] = STAND_IN_TOO_LARGE;
    bool packed = p->align[0] >= 16 && p->align[1] >= 16 && p->align[2] >= 16 && p->align[3] >= 16;
    list[n_list++] = STAND_IN_SLOW;
    if (packed) list[n_list++] = STAND_IN_PACKED;
    list[n_list++] = STAND_IN_BACKWARDS;
    for (int i = 0; i < n_list && *n < n_wanted; i++) {
        blaslt_heuristic *h = &out[(*n)++];
        memset(h, 0, sizeof *h);
        h->algo.data[0] = (uint64_t)list[i];
        h->algo.data[7] = 0xfedcba9876543210u ^ (uint64_t)list[i];
        bool large = list[i] == STAND_IN_TOO_LARGE || p->workspace < NEEDED;
        h->workspace_bytes = large ? p->workspace + 1 : NEEDED;
        h->state = large ? UNSUPPORTED : 0;
    }
    return *n ? 0 : UNSUPPORTED;
}

#ifdef __clang__ /* which has _Float16 with AVX-512's FP16 alone */
typedef __fp16 f16;
#else
typedef _Float16 f16;
#endif

static float get(const void *x, int type, int64_t i)
{
    uint32_t bits;
    float f;
    if (type == BLASLT_R_32F) return ((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    if (type == BLASLT_R_16BF) {
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, 4);
        return f;
    }
    f16 h;
    memcpy(&h, &half, 2);
    return (float)h;
}

static void put(void *x, int type, int64_t i, float v)
{
    if (type == BLASLT_R_32F) {
        ((float *)x)[i] = v;
    } else if (type == BLASLT_R_16BF) {
        uint32_t bits;
        memcpy(&bits, &v, 4);
        ((uint16_t *)x)[i] = isnan(v) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    } else {
        ((f16 *)x)[i] = (f16)v;
    }
}

/* All that a product is, as it was when it was asked for. */
typedef struct job {
    desc d;
    layout la, lb, lc;
    const void *a, *b, *c;
    void *to, *workspace;
    float alpha, beta;
    int algo;
} job;

static void run(void *arg)
{
    job *j = arg;
    const char *sleep = getenv("BLASLT_STAND_IN_SLEEP_US");
    bool ta = j->d.trans_a == BLASLT_OP_T, tb = j->d.trans_b == BLASLT_OP_T, back = j->algo == STAND_IN_BACKWARDS;
    int64_t k = ta ? j->la.rows : j->la.cols;
    if (j->algo == STAND_IN_SLOW && sleep) usleep((useconds_t)atoi(sleep));
    memset(j->workspace, 0xaa, NEEDED);
    for (int64_t col = 0; col < j->lc.cols; col++)
        for (int64_t row = 0; row < j->lc.rows; row++) {
            float sum = 0;
            for (int64_t i = 0; i < k; i++) {
                int64_t p = back ? k - 1 - i : i;
                sum += get(j->a, j->la.type, ta ? row * j->la.ld + p : p * j->la.ld + row) *
                       get(j->b, j->lb.type, tb ? p * j->lb.ld + col : col * j->lb.ld + p);
            }
            int64_t at = col * j->lc.ld + row;
            sum *= j->alpha;
            if (j->beta != 0) sum += j->beta * get(j->c, j->lc.type, at);
            if (j->d.epilogue == BLASLT_EPILOGUE_BIAS) sum += get(j->d.bias, j->d.bias_type, row);
            put(j->to, j->lc.type, at, j->algo == STAND_IN_IN_PLACE ? NAN : sum);
        }
    free(j);
}

static bool aligned(const void *p, size_t bytes)
{
    return (uintptr_t)p % bytes == 0;
}

API int cublasLtMatmul(void *handle, void *d, const void *alpha, const void *a, void *la, const void *b, void *lb,
                       const void *beta, const void *c, void *lc, void *to, void *lto, const blaslt_algo *algo,
                       void *workspace, size_t workspace_bytes, gpuStream_t stream)
{
    union {
        void *data;
        void (*call)(gpuStream_t, void (*)(void *), void *);
    } enqueue = { dlsym(dlopen(getenv("TX_GPU_MODULE"), RTLD_NOW | RTLD_NOLOAD), "emulate_enqueue") };
    int status = check(d, la, lb, lc, lto), name = (int)algo->data[0];
    if (!is(handle, HANDLE) || !enqueue.data) return INVALID;
    if (status) return status;
    if (algo->data[7] != (0xfedcba9876543210u ^ (uint64_t)name)) return INVALID;
    if (!aligned(workspace, 256) || workspace_bytes < NEEDED) return INVALID;
    if (!aligned(a, size_of(((layout *)la)->type)) || !aligned(b, size_of(((layout *)lb)->type))) return INVALID;
    if (name == STAND_IN_PACKED && !(aligned(a, 16) && aligned(b, 16) && aligned(c, 16) && aligned(to, 16)))
        return INVALID;
    job *j = malloc(sizeof *j);
    *j = (job){ *(desc *)d, *(layout *)la, *(layout *)lb,         *(layout *)lc,        a,   b, c,
                to,         workspace,     *(const float *)alpha, *(const float *)beta, name };
    counts.products++;
    counts.last_algo = name;
    enqueue.call(stream, run, j);
    return 0;
}
