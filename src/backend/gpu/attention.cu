/* attention.cu - rows attention_fwd and attention_bwd: which kernels take a call. cuDNN's take the common cases where
 * there is a cuDNN. The others are flash kernels, which take fp32 and every mask as well; so there is no path that
 * keeps scores in memory, whose size would grow with s². */
#include "backend/gpu/flash.h"
#include "backend/gpu/fused_attention.h"

#define MAX_DECODED 16 /* queries behind a past that the kernel for few of them takes */

static flash_view view(tx_tensor x)
{
    flash_view v = { x.data, { 0, 0, 0, 0 } };
    for (int i = 0; i + 1 < x.n_dims; i++) v.stride[i] = x.stride[i];
    return v;
}

static bool in_packs(tx_tensor x)
{
    if (!x.data) return true;
    int64_t n = 16 / (int64_t)tx_dtype_size(x.dtype);
    bool fits = (uintptr_t)x.data % 16 == 0 && x.dim[x.n_dims - 1] % n == 0;
    for (int i = 0; i + 1 < x.n_dims; i++) fits = fits && x.stride[i] % n == 0;
    return fits;
}

/* What forward and backward have in common. */
template <class A> static flash_call call_of(const tx_ctx *c, const A *a)
{
    tx_tensor q = a->q, k = a->k;
    flash_call f = {};
    f.q = view(q), f.k = view(k), f.v = view(a->v);
    f.sq = (int)q.dim[0], f.b = (int)q.dim[1], f.groups = (int)q.dim[2], f.r = (int)q.dim[3], f.d = (int)q.dim[4];
    f.sk = (int)k.dim[0], f.slots = (int)k.dim[1];
    f.scale = (float)a->scale, f.scale_log2 = (float)(a->scale * LOG2E);
    tx__seq_part part = TX__SEQ_PART_OF(a);
    f.q_at = (int)part.q_at, f.k_at = (int)part.k_at, f.part = part.is;
    f.mask = a->mask;
    f.alibi = a->alibi;
    f.window = (int)(a->kind.window < INT32_MAX ? a->kind.window : INT32_MAX); /* more is as much */
    if (a->kind.softcap > 0) {
        f.cap_in = (float)(a->scale / a->kind.softcap);
        f.cap_out = (float)(a->kind.softcap / a->scale);
    }
    f.sink = a->kind.sink.data;
    f.has_sink = tx_has_sink(&a->kind);
    f.keep_scale = (float)tx_dropout_scale(&a->mask);
    f.fault = tx__gpu_of(c)->fault;
    return f;
}

static tx_status check(const char *op, tx_tensor q, tx_tensor k, double scale, tx__seq_part part)
{
    TX_TRY(tx__gpu_need_float(op, q));
    if (q.dim[4] > 256)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu takes heads of up to 256 numbers, not %lld", op,
                       (long long)q.dim[4]);
    if (!(scale > 0)) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu takes a scale above 0, not %g", op, scale);
    if (part.q_at + q.dim[0] > INT32_MAX / 2 || part.k_at + k.dim[0] > INT32_MAX / 2)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: more positions than a kernel counts", op);
    return TX_OK;
}

TX_GPU_ROW size_t tx__gpu_attention_fwd_scratch(const tx_ctx *c, const tx_attention_fwd_args *a)
{
    const int64_t *n = a->q.dim;
    size_t fused = tx__gpu_fused_attention_fwd_scratch(c, a);
    if (fused) return fused; /* ours need none then: there is no past */
    if (!a->past.n.dtype && !a->past.n.n_dims) return 0;
    if (n[0] > MAX_DECODED) return 0;
    return (size_t)(n[0] * n[1] * n[2] * n[3] * flash_decode_splits(a->k.dim[0]) * (n[4] + 2)) * sizeof(float);
}

TX_GPU_ROW tx_status tx__gpu_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a, void *scratch)
{
    TX_TRY(check("attention_fwd", a->q, a->k, a->scale, TX__SEQ_PART_OF(a)));
    if (!tx_numel(a->q)) return TX_OK;
    bool done;
    TX_TRY(tx__gpu_fused_attention_fwd(c, a, scratch, &done));
    if (done) return TX_OK;
    flash_call f = call_of(c, a);
    f.o = view(a->o);
    f.lse = (float *)a->lse.data;
    f.causal = a->causal;
    f.first_key = (const int32_t *)a->first_key.data;
    f.n_keys = (const int32_t *)a->n_keys.data;
    f.past_n = (const int32_t *)a->past.n.data;
    f.slot = (const int32_t *)a->past.slot.data;
    f.packs = in_packs(a->q) && in_packs(a->k) && in_packs(a->v) && in_packs(a->o);
    f.parts = (float *)scratch;
    if (f.past_n && f.sq <= MAX_DECODED) return flash_decode(c, &f, a->q.dtype);
    return flash_forward(c, &f, a->q.dtype);
}

TX_GPU_ROW size_t tx__gpu_attention_bwd_scratch(const tx_ctx *c, const tx_attention_bwd_args *a)
{
    size_t ours = (size_t)(tx_numel(a->q) / (a->q.dim[4] ? a->q.dim[4] : 1)) * sizeof(flash_query),
           fused = tx__gpu_fused_attention_bwd_scratch(c, a);
    return fused > ours ? fused : ours;
}

TX_GPU_ROW tx_status tx__gpu_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a, void *scratch)
{
    TX_TRY(check("attention_bwd", a->q, a->k, a->scale, TX__SEQ_PART_OF(a)));
    if (!tx_numel(a->q)) return TX_OK;
    bool done;
    TX_TRY(tx__gpu_fused_attention_bwd(c, a, scratch, &done));
    if (done) return TX_OK;
    flash_call f = call_of(c, a);
    f.o = view(a->o), f.do_ = view(a->do_);
    f.dq = view(a->dq), f.dk = view(a->dk), f.dv = view(a->dv);
    f.lse = (float *)a->lse.data;
    f.query = (flash_query *)scratch;
    f.dsink = (float *)a->dsink.data;
    f.causal = a->causal;
    f.first_key = (const int32_t *)a->first_key.data;
    f.n_keys = (const int32_t *)a->n_keys.data;
    f.packs = in_packs(a->q) && in_packs(a->k) && in_packs(a->v) && in_packs(a->do_) && in_packs(a->dq) &&
              in_packs(a->dk) && in_packs(a->dv);
    return flash_backward(c, &f, a->q.dtype);
}

/* A warp for each query of a head, in lse's order. */
template <class O, class P>
__global__ void __launch_bounds__(256)
    join_kernel(flash_view o, flash_view part, float *lse, const float *part_lse, flash_call f)
{
    int heads = f.groups * f.r;
    int64_t n = (int64_t)f.b * heads * f.sq;
    for (int64_t row = grid_warp(); row < n; row += grid_warps()) {
        int64_t i = row % f.sq, head = row / f.sq % heads, i_b = row / f.sq / heads;
        O *y = flash_at<O>(o, i, i_b, head / f.r, head % f.r);
        const P *x = flash_at<P>(part, i, i_b, head / f.r, head % f.r);
        float a = lse[row], b = part_lse[row], most = fmaxf(a, b);
        bool seen = most > -INFINITY;
        float by_a = seen ? expf(a - most) : 0, by_b = seen ? expf(b - most) : 0, sum = by_a + by_b;
        by_a = seen ? by_a / sum : 0, by_b = seen ? by_b / sum : 0;
        for (int j = lane_id(); j < f.d; j += WARP) y[j] = to<O>(by_a * f32(y[j]) + by_b * f32(x[j]));
        sync_warp(); /* lse is read */
        if (lane_id() == 0) lse[row] = most + logf(sum);
    }
}

TX_GPU_ROW tx_status tx__gpu_attention_join(tx_ctx *c, const tx_attention_join_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("attention_join", a->o));
    const int64_t *n = a->o.dim;
    flash_call f = {};
    f.sq = (int)n[0], f.b = (int)n[1], f.groups = (int)n[2], f.r = (int)n[3], f.d = (int)n[4];
    GPU_FLOAT(a->o.dtype, O,
              GPU_FLOAT(a->part.dtype, P,
                        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, n[0] * n[1] * n[2] * n[3], 256), 256, 0,
                                   (join_kernel<O, P>), view(a->o), view(a->part), (float *)a->lse.data,
                                   (const float *)a->part_lse.data, f)));
    return tx__gpu_launched(c, "attention_join");
}

TX_GPU_ROW tx_status tx__gpu_max_logits(tx_ctx *c, const tx_max_logits_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(check("max_logits", a->q, a->k, a->scale, TX__SEQ_PART_OF(a)));
    if (!tx_numel(a->q)) return TX_OK;
    tx_attention_fwd_args as = {};
    as.q = a->q, as.k = a->k, as.v = a->k, as.scale = a->scale, as.kind.window = a->window;
    as.q_at = a->q_at, as.k_at = a->k_at, as.part = a->part;
    flash_call f = call_of(c, &as);
    f.causal = a->causal;
    f.first_key = (const int32_t *)a->first_key.data;
    f.n_keys = (const int32_t *)a->n_keys.data;
    f.packs = in_packs(a->q) && in_packs(a->k);
    return flash_max_logits(c, &f, a->q.dtype, (float *)a->max.data);
}
