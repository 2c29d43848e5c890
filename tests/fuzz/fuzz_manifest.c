/* fuzz_manifest.c - a checkpoint's manifest.json, given without its end: ,"hash":"..."} with the hash that fits is put
 * behind it, because nothing else gets past that check. Every piece that is accepted lies inside its tensor. */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <xxhash.h>

#include "fuzz.h"

static void check_saved(const tx__manifest *m, const tx__saved *s)
{
    int64_t covered = 0, whole = s->dim[0] * (s->n_dims == 2 ? s->dim[1] : 1);
    FUZZ_CHECK(tx__manifest_find(m, s->name) == s && (s->n_dims == 1 || s->n_dims == 2));
    for (size_t i = 0; i < s->n_pieces; i++) {
        const tx__saved_piece *p = &s->piece[i];
        FUZZ_CHECK(p->shard < m->n_shards);
        for (int k = 0; k < s->n_dims; k++)
            FUZZ_CHECK(p->start[k] >= 0 && p->size[k] >= 0 && p->start[k] <= s->dim[k] - p->size[k]);
        covered += p->size[0] * p->size[1];
    }
    FUZZ_CHECK(covered == whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_str text = { 0 };
    FUZZ_CHECK(!tx_str_append(&text, data, size) && !tx_str_puts(&text, "}"));
    XXH128_hash_t h = XXH3_128bits(text.data, text.len);
    text.len--;
    FUZZ_CHECK(
        !tx_str_printf(&text, ",\"hash\":\"%016" PRIx64 "%016" PRIx64 "\"}\n", (uint64_t)h.high64, (uint64_t)h.low64));
    tx__manifest m;
    if (fuzz_ok(tx__manifest_read(&m, fuzz_file("manifest.json", text.data, text.len)))) {
        for (size_t i = 0; i < m.n_shards; i++) FUZZ_CHECK(!strchr(m.shard[i].file, '/') && *m.shard[i].file != '.');
        for (size_t i = 0; i < m.n_saved; i++) check_saved(&m, &m.saved[i]);
        tx__manifest_deinit(&m);
    }
    tx_str_free(&text);
    return 0;
}
