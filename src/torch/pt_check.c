/* pt_check.c - whether the bytes of an archive are those that were written: the CRC-32 that it keeps of each entry.
 * torch.load compares none of them. torch writes 0 where it was told to leave them out
 * (torch.serialization.set_crc32_options) or storages are filled in later (skip_data): such an entry cannot be
 * checked. */
#include <zlib.h>

#include "base/alloc.h"
#include "torch/pt_file.h"

enum {
    PIECE = 1 << 22, /* bytes that one thread takes at a time */
    ASK_PIECES = 16  /* the disk is asked for so many at once */
};

static size_t piece_bytes(const tx__zip_entry *e, int64_t i)
{
    uint64_t at = (uint64_t)i * PIECE;
    return (size_t)(e->size - at < PIECE ? e->size - at : PIECE);
}

/* In pieces, by all threads. */
static tx_status crc_of(uint32_t *out, const tx_pt *f, const tx__zip_entry *e)
{
    int64_t n = (int64_t)((e->size + PIECE - 1) / PIECE);
    size_t place = (size_t)(e->data - f->map.data);
    uint32_t *crc;
    *out = 0;
    if (n <= 1) {
        *out = (uint32_t)crc32_z(0, e->data, (size_t)e->size);
        return TX_OK;
    }
    TX_TRY(tx_alloc(&crc, (size_t)n, sizeof *crc, "the checksums of a file"));
    tx_map_ask(&f->map, place, (size_t)ASK_PIECES * PIECE);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        size_t at = place + (size_t)i * PIECE;
        if (i % ASK_PIECES == 0) /* for the stretch behind this one */
            tx_map_ask(&f->map, at + (size_t)ASK_PIECES * PIECE, (size_t)ASK_PIECES * PIECE);
        crc[i] = (uint32_t)crc32_z(0, f->map.data + at, piece_bytes(e, i));
        tx_map_forget(&f->map, at, PIECE); /* stays in the system's cache, for reading its numbers */
    }
    for (int64_t i = 0; i < n; i++) *out = (uint32_t)crc32_combine(*out, crc[i], (z_off_t)piece_bytes(e, i));
    tx_free(crc);
    return TX_OK;
}

tx_status tx__pt_check_entry(const tx_pt *f, const tx__zip_entry *e)
{
    uint32_t crc;
    if (!e->crc) return TX_OK;
    TX_TRY(crc_of(&crc, f, e));
    if (crc == e->crc) return TX_OK;
    return TX_FAIL(
        TX_ERR_FORMAT,
        "%s: entry %.*s is damaged: its CRC-32 is %08x and %08x is stored; take another copy of the file, or "
        "another iteration (where the numbers are wanted as they are: convert or --load with "
        "--no-verify-load)",
        f->path, (int)(e->n_name < 200 ? e->n_name : 200), e->name, crc, e->crc);
}

tx_status tx__pt_check_storage(const tx_pt *f, const tx_pt_storage *s)
{
    if (!s->entry) return TX_OK;
    TX_TRY(tx__pt_check_entry(f, &f->zip.entry[s->entry - 1]));
    ((tx_pt_storage *)(uintptr_t)s)->entry = 0; /* the file's own, lent out as const */
    return TX_OK;
}

tx_status tx_pt_check(const tx_pt *f, const tx_pt_tensor *t)
{
    return tx__pt_check_storage(f, t->storage);
}

tx_status tx_pt_verify(const tx_pt *f, uint64_t *bytes)
{
    for (size_t i = 0; i < f->zip.n; i++) {
        const tx__zip_entry *e = &f->zip.entry[i];
        TX_TRY(tx__pt_check_entry(f, e));
        if (bytes && e->crc) *bytes += e->size;
    }
    return TX_OK;
}

const char *tx_pt_unchecked(const tx_pt *f)
{
    size_t with = 0, without = 0;
    for (size_t i = 0; i < f->zip.n; i++) {
        with += f->zip.entry[i].crc != 0;
        without += !f->zip.entry[i].crc && f->zip.entry[i].size;
    }
    if (!f->zip.n) return "has no checksums, as files of PyTorch before 1.6";
    if (!without) return NULL;
    return with ? "has no checksums of some of its entries" : "has no checksums: it was saved without them";
}
