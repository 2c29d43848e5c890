/* fuzz_safetensors.c - a hostile safetensors file. Every byte of every tensor that it claims to hold is read. */
#include "checkpoint/safetensors.h"

#include "fuzz.h"

static void read_tensor(const tx_safetensors *f, const tx_st_tensor *t)
{
    char described[64]; /* shorter than some shapes */
    float *x = malloc(t->bytes * 4 + 4);
    FUZZ_CHECK(x && tx_safetensors_find(f, t->name) == t);
    tx_st_describe(t, described, sizeof described);
    fuzz_check_sentence(described, false);
    for (int transpose = 0; transpose < 2; transpose++) fuzz_ok(tx_st_read_f32(t, x, transpose));
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_safetensors *f;
    if (!fuzz_ok(tx_safetensors_open(&f, fuzz_file("model.safetensors", data, size)))) return 0;
    size_t bytes = 0;
    for (size_t i = 0; i < tx_safetensors_count(f); i++) {
        read_tensor(f, tx_safetensors_at(f, i));
        bytes += tx_safetensors_at(f, i)->bytes;
    }
    FUZZ_CHECK(bytes < size);
    tx_safetensors_close(f);
    return 0;
}
