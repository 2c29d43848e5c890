/* cpu_values.c - bf16 and fp16 on their way to the fp32 kernels and back. */
#include <string.h>

#include "backend/cpu/cpu.h"

tx_status tx__cpu_need_float(const char *op, tx_tensor x)
{
    if (x.dtype == TX_F32 || x.dtype == TX_BF16 || x.dtype == TX_F16) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "%s: backend cpu has no %s, only fp32, bf16 and fp16; backend ref has every type", op,
                   tx_dtype_name(x.dtype));
}

float *tx__cpu_get(const tx_ctx *c, tx_tensor x, int64_t at, int64_t n, float *room)
{
    if (!x.data) return NULL;
    if (x.dtype == TX_F32) return (float *)x.data + at;
    const tx__cpu_kernels *k = tx__cpu_k(c);
    (x.dtype == TX_BF16 ? k->of_bf16 : k->of_f16)(room, (const uint16_t *)x.data + at, n);
    return room;
}

void tx__cpu_put(const tx_ctx *c, tx_tensor y, int64_t at, int64_t n, const float *room)
{
    if (y.dtype == TX_F32) return;
    const tx__cpu_kernels *k = tx__cpu_k(c);
    (y.dtype == TX_BF16 ? k->to_bf16 : k->to_f16)((uint16_t *)y.data + at, room, n);
}

void tx__cpu_move(const tx_ctx *c, tx_tensor y, int64_t to, tx_tensor x, int64_t from, int64_t n)
{
    if (x.dtype == y.dtype) {
        size_t size = tx_dtype_size(x.dtype);
        memmove((char *)y.data + (size_t)to * size, (const char *)x.data + (size_t)from * size, (size_t)n * size);
        return;
    }
    float room[TX__CPU_STRETCH];
    for (int64_t i = 0; i < n; i += TX__CPU_STRETCH) {
        int64_t some = tx__cpu_min(n - i, TX__CPU_STRETCH);
        /* of the two at most one is fp32, and that one is the room */
        tx__cpu_put(c, y, to + i, some, tx__cpu_get(c, x, from + i, some, tx__cpu_dst(y, to + i, room)));
    }
}
