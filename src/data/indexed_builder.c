/* indexed_builder.c - writing <prefix>.bin/.idx.
 *
 *  .bin is streamed; sizes and document starts (12 bytes a document) wait in memory for the index. Publishing has two
 *  phases, so that a full disk or a crash harms neither the new nor an older pair:
 *
 *      1  both files complete and durable as  <prefix>.bin.part-<pid>, <prefix>.idx.part-<pid>
 *      2  remove old .idx,  rename .bin,  rename .idx,  sync the directory */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/indexed.h"
#include "data/indexed_format.h"

typedef struct int64_list {
    int64_t *v;
    size_t n, cap;
} int64_list;

struct tx_indexed_builder {
    char *prefix;
    char *bin_path, *idx_path, *bin_part, *idx_part; /* names of phase 2 and of phase 1 */
    char *dir;                                       /* of all of them */
    tx_writer bin;
    int dtype;
    size_t item_bytes;
    int32_t *sizes;
    size_t n_items, cap_items;
    int64_list doc_idx;
    int64_t n_tokens;
    const tx_indexed *part; /* NULL: built from items; else what is joined, borrowed */
    size_t n_parts;
    bool sealed, committed;
};

static tx_status path_of(char **out, const char *prefix, const char *ext, bool part)
{
    tx_str s = { 0 };
    tx_status st;
    TX_GOTO(tx_str_printf(&s, "%s.%s", prefix, ext));
    if (part) TX_GOTO(tx_str_printf(&s, ".part-%ld", (long)getpid()));
    TX_GOTO(tx_memdup0(out, s.data, s.len, "a path"));
out:
    tx_str_free(&s);
    return st;
}

/* All names at the start, so that publishing needs no memory. */
static tx_status make_names(tx_indexed_builder *b, const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    TX_TRY(tx_memdup0(&b->prefix, prefix, strlen(prefix), "a path"));
    TX_TRY(tx_memdup0(&b->dir, slash ? prefix : ".", slash ? (size_t)(slash - prefix) + 1 : 1, "a path"));
    TX_TRY(path_of(&b->bin_path, prefix, "bin", false));
    TX_TRY(path_of(&b->idx_path, prefix, "idx", false));
    TX_TRY(path_of(&b->bin_part, prefix, "bin", true));
    return path_of(&b->idx_part, prefix, "idx", true);
}

static tx_status push_doc(int64_list *l, int64_t v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 1024;
        TX_TRY(tx_realloc(&l->v, cap, sizeof *l->v, "the document index"));
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return TX_OK;
}

static tx_status start(tx_indexed_builder **out, const char *prefix, int dtype)
{
    tx_indexed_builder *b = NULL;
    tx_status st;
    TX_GOTO(tx_alloc(&b, 1, sizeof *b, "a dataset builder"));
    b->dtype = dtype;
    b->item_bytes = tx__indexed_dtype_bytes(b->dtype);
    TX_GOTO(make_names(b, prefix));
    TX_GOTO(push_doc(&b->doc_idx, 0));
    TX_GOTO(tx_writer_open(&b->bin, b->bin_part));
    *out = b;
    return TX_OK;
out:
    tx_indexed_destroy(b);
    return st;
}

tx_status tx_indexed_create(tx_indexed_builder **out, const char *prefix, int64_t vocab_size)
{
    return start(out, prefix, vocab_size < TX_IDX_UINT16_VOCAB ? TX_IDX_UINT16 : TX_IDX_INT32);
}

static tx_status put_u16(tx_indexed_builder *b, const int32_t *ids, int64_t n)
{
    uint16_t chunk[4096];
    for (int64_t done = 0; done < n;) {
        size_t k = sizeof chunk / 2;
        if ((int64_t)k > n - done) k = (size_t)(n - done);
        uint32_t all = 0; /* the bits of all ids */
        for (size_t i = 0; i < k; i++) {
            all |= (uint32_t)ids[done + (int64_t)i];
            chunk[i] = (uint16_t)ids[done + (int64_t)i];
        }
        for (size_t i = 0; all > UINT16_MAX && i < k; i++, done++)
            if (ids[done] < 0 || ids[done] > UINT16_MAX)
                return TX_FAIL(TX_ERR_ARG,
                               "%s: document %zu: token id %" PRId32 " does not fit the 16 bits that its "
                               "vocabulary size asks for; give the right --vocab-size",
                               b->prefix, b->doc_idx.n - 1, ids[done]);
        TX_TRY(tx_writer_put(&b->bin, chunk, k * 2));
        done += (int64_t)k;
    }
    return TX_OK;
}

tx_status tx_indexed_add_item(tx_indexed_builder *b, const int32_t *ids, int64_t n)
{
    TX_ASSERT(!b->sealed && !b->part);
    if (n < 0 || n > INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "%s: document %zu has %lld tokens, the format ends at %d; divide the document",
                       b->prefix, b->doc_idx.n - 1, (long long)n, INT32_MAX);
    if (b->n_items == b->cap_items) {
        size_t cap = b->cap_items ? b->cap_items * 2 : 1024;
        TX_TRY(tx_realloc(&b->sizes, cap, sizeof *b->sizes, "the size index"));
        b->cap_items = cap;
    }
    if (b->dtype == TX_IDX_UINT16)
        TX_TRY(put_u16(b, ids, n));
    else
        TX_TRY(tx_writer_put(&b->bin, ids, (size_t)n * 4));
    b->sizes[b->n_items++] = (int32_t)n;
    b->n_tokens += n;
    return TX_OK;
}

tx_status tx_indexed_end_document(tx_indexed_builder *b)
{
    return push_doc(&b->doc_idx, (int64_t)b->n_items);
}

int64_t tx_indexed_builder_docs(const tx_indexed_builder *b)
{
    return (int64_t)b->doc_idx.n - 1;
}

int64_t tx_indexed_builder_tokens(const tx_indexed_builder *b)
{
    return b->n_tokens;
}

/* ---- the index ---- */

static tx_status put_header(const tx_indexed_builder *b, tx_writer *w, uint64_t n, uint64_t m)
{
    unsigned char head[TX_IDX_HEADER], code = (unsigned char)b->dtype;
    uint64_t version = 1;
    memcpy(head, TX_IDX_MAGIC, 9);
    memcpy(head + 9, &version, 8);
    memcpy(head + 17, &code, 1);
    memcpy(head + 18, &n, 8);
    memcpy(head + 26, &m, 8);
    return tx_writer_put(w, head, sizeof head);
}

static tx_status write_index(const tx_indexed_builder *b, tx_writer *w)
{
    size_t n = b->n_items, m = b->doc_idx.n;
    TX_TRY(put_header(b, w, n, m));
    TX_TRY(tx_writer_put(w, b->sizes, n * 4));
    int64_t pointer = 0;
    for (size_t i = 0; i < n; i++) {
        TX_TRY(tx_writer_put(w, &pointer, 8));
        pointer += (int64_t)b->sizes[i] * (int64_t)b->item_bytes;
    }
    return tx_writer_put(w, b->doc_idx.v, m * 8);
}

/* The same from the indices of the parts. */
static tx_status write_joined_index(const tx_indexed_builder *b, tx_writer *w)
{
    const tx_indexed *end = b->part + b->n_parts;
    int64_t n = 0, m = 1, pointer = 0, first = 0;
    for (const tx_indexed *p = b->part; p < end; p++) n += p->n_items, m += p->n_docs;
    TX_TRY(put_header(b, w, (uint64_t)n, (uint64_t)m));
    for (const tx_indexed *p = b->part; p < end; p++) TX_TRY(tx_writer_put(w, p->sizes, (size_t)p->n_items * 4));
    for (const tx_indexed *p = b->part; p < end; p++)
        for (int64_t i = 0; i < p->n_items; i++) {
            TX_TRY(tx_writer_put(w, &pointer, 8));
            pointer += tx_indexed_size(p, i) * (int64_t)b->item_bytes;
        }
    TX_TRY(tx_writer_put(w, &first, 8));
    for (const tx_indexed *p = b->part; p < end; p++) {
        for (int64_t d = 1; d <= p->n_docs; d++) {
            int64_t item = first + tx_indexed_doc_begin(p, d);
            TX_TRY(tx_writer_put(w, &item, 8));
        }
        first += p->n_items;
    }
    return TX_OK;
}

/* ---- joining ---- */

/* What the reader lets pass, but what would be lost or would shift every part behind it. */
static tx_status check_part(const tx_indexed *first, const tx_indexed *p)
{
    if (p->dtype != first->dtype)
        return TX_FAIL(TX_ERR_ARG,
                       "%s.idx holds %s and %s.idx %s: datasets of different types, made with different vocabularies, "
                       "cannot be merged",
                       first->prefix, tx_indexed_dtype_name(first), p->prefix, tx_indexed_dtype_name(p));
    if (p->bin.size != (size_t)p->n_tokens * p->item_bytes)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s.bin: holds end-of-document tokens that the index does not count; repeat preprocess-data "
                       "before merging",
                       p->prefix);
    if (p->idx.size != TX_IDX_HEADER + (size_t)p->n_items * 12 + ((size_t)p->n_docs + 1) * 8)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s.idx: has the modes of a multimodal dataset, which a merge would lose",
                       p->prefix);
    return TX_OK;
}

tx_status tx_indexed_join(tx_indexed_builder **out, const char *prefix, const tx_indexed *part, size_t n)
{
    tx_indexed_builder *b;
    for (size_t i = 0; i < n; i++) TX_TRY(check_part(part, &part[i]));
    TX_TRY(start(&b, prefix, part->dtype));
    b->part = part;
    b->n_parts = n;
    tx_status st = TX_OK;
    for (size_t i = 0; i < n && !st; i++) st = tx_writer_put(&b->bin, part[i].bin.data, part[i].bin.size);
    if (st)
        tx_indexed_destroy(b);
    else
        *out = b;
    return st;
}

tx_status tx_indexed_seal(tx_indexed_builder *b)
{
    if (b->sealed) return TX_OK;
    tx_writer idx;
    TX_TRY(tx_writer_commit(&b->bin));
    TX_TRY(tx_writer_open(&idx, b->idx_part));
    tx_status st = b->part ? write_joined_index(b, &idx) : write_index(b, &idx);
    if (st) {
        tx_writer_abort(&idx);
        return st;
    }
    TX_TRY(tx_writer_commit(&idx));
    b->sealed = true;
    return TX_OK;
}

static tx_status move(const char *from, const char *to)
{
    if (rename(from, to)) return TX_FAIL(TX_ERR_IO, "%s: cannot rename to %s: %s", from, to, strerror(errno));
    return TX_OK;
}

tx_status tx_indexed_commit(tx_indexed_builder *b)
{
    if (b->committed) return TX_FAIL(TX_ERR_STATE, "%s: the dataset was already committed", b->prefix);
    TX_TRY(tx_indexed_seal(b));
    if (unlink(b->idx_path) && errno != ENOENT)
        return TX_FAIL(TX_ERR_IO, "%s: cannot replace the old index: %s", b->idx_path, strerror(errno));
    TX_TRY(move(b->bin_part, b->bin_path));
    tx_status st = move(b->idx_part, b->idx_path);
    if (st) {
        unlink(b->bin_path); /* ids without an index are of no use and could meet a later one */
        return st;
    }
    b->committed = true;
    return tx_dir_sync(b->dir);
}

void tx_indexed_destroy(tx_indexed_builder *b)
{
    if (!b) return;
    tx_writer_abort(&b->bin);
    if (b->bin_part && !b->committed) unlink(b->bin_part);
    if (b->idx_part && !b->committed) unlink(b->idx_part);
    tx_free(b->prefix);
    tx_free(b->dir);
    tx_free(b->bin_path);
    tx_free(b->idx_path);
    tx_free(b->bin_part);
    tx_free(b->idx_part);
    tx_free(b->sizes);
    tx_free(b->doc_idx.v);
    tx_free(b);
}
