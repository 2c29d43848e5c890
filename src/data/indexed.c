/* indexed.c - reading and checking <prefix>.bin/.idx. Format: Megatron-LM megatron/data/indexed_dataset.py,
 * MMapIndexedDataset. */
#include "data/indexed.h"

#include "base/alloc.h"
#include "base/log.h"
#include "data/indexed_format.h"
#include "data/indexed_meant.h"
#include "data/mock_documents.h"

static const char *const remedy = "copy the pair again or repeat preprocess-data";

static uint64_t read_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

size_t tx__indexed_dtype_bytes(int dtype)
{
    static const size_t bytes[] = { 0, 1, 1, 2, 4, 8, 0, 0, 2 };
    return dtype > 0 && dtype <= 8 ? bytes[dtype] : 0;
}

const char *tx_indexed_dtype_name(const tx_indexed *ix)
{
    static const char *const name[] = { "?", "uint8", "int8", "int16", "int32", "int64", "?", "?", "uint16" };
    return name[ix->dtype];
}

/* ---- opening ---- */

tx_status tx_indexed_exists(const char *prefix)
{
    static const char *const ending[] = { "idx", "bin" };
    tx_status st = TX_OK;
    tx_str path = { 0 }, meant = { 0 };
    for (int i = 0; i < 2; i++) {
        path.len = 0;
        TX_GOTO(tx_str_printf(&path, "%s.%s", prefix, ending[i]));
        if (tx_path_exists(path.data)) continue;
        TX_GOTO(tx_indexed_meant(&meant, prefix));
        st = TX_FAIL(TX_ERR_NOTFOUND, "Dataset does not exist: %s (no file %s); %s%s%s", prefix, path.data,
                     meant.len ? "did you mean "
                               : "the path should be a basename that both .idx and .bin can be appended to",
                     meant.len ? meant.data : "", meant.len ? "?" : "");
        goto out;
    }
out:
    tx_str_free(&meant);
    tx_str_free(&path);
    return st;
}

static tx_status open_files(tx_indexed *ix, const char *prefix)
{
    tx_status st;
    tx_str path = { 0 };
    TX_TRY(tx_indexed_exists(prefix));
    TX_GOTO(tx_str_printf(&path, "%s.bin", prefix));
    TX_GOTO(tx_map_open(&ix->bin, path.data));
    path.len = 0;
    TX_GOTO(tx_str_printf(&path, "%s.idx", prefix));
    TX_GOTO(tx_map_open(&ix->idx, path.data));
out:
    tx_str_free(&path);
    return st;
}

/* The fixed header, and that the three arrays it announces are there. */
static tx_status check_header(tx_indexed *ix)
{
    const unsigned char *h = ix->idx.data;
    size_t size = ix->idx.size;
    const char *p = ix->prefix;
    if (size >= 6 && !memcmp(h, "TNTIDX", 6))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s.idx: is of the old \"lazy\"/\"cached\" kind; repeat preprocess-data, which "
                       "writes the \"mmap\" kind",
                       p);
    if (size < sizeof TX_IDX_MAGIC || memcmp(h, TX_IDX_MAGIC, sizeof TX_IDX_MAGIC))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s.idx: does not begin with \"MMIDIDX\", so it is no dataset index; give --data-path "
                       "a dataset made by preprocess-data",
                       p);
    if (size < TX_IDX_HEADER)
        return TX_FAIL(TX_ERR_FORMAT, "%s.idx: ends inside its header, after %zu of %d bytes; %s", p, size,
                       TX_IDX_HEADER, remedy);
    uint64_t version = read_u64(h + 9), n = read_u64(h + 18), m = read_u64(h + 26);
    if (version != 1)
        return TX_FAIL(TX_ERR_FORMAT, "%s.idx: version %llu at byte 9, only 1 is known; %s", p,
                       (unsigned long long)version, remedy);
    ix->dtype = h[17];
    ix->item_bytes = tx__indexed_dtype_bytes(ix->dtype);
    if (!ix->item_bytes)
        return TX_FAIL(TX_ERR_FORMAT, "%s.idx: type code %d at byte 17 is no integer type (1-5 and 8 are); %s", p,
                       ix->dtype, remedy);
    size_t room = size - TX_IDX_HEADER;
    if (n > room / 12 || m > (room - n * 12) / 8)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s.idx: has %zu bytes, too few for the %llu items and %llu document entries of its "
                       "header: it is cut off; %s",
                       p, size, (unsigned long long)n, (unsigned long long)m, remedy);
    size_t rest = room - n * 12 - m * 8;
    if (m == 0 || (rest != 0 && rest != n)) /* Megatron-core's multimodal builder appends one byte an item */
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s.idx: %zu bytes do not fit the %llu items and %llu document entries of its header; "
                       "%s",
                       p, size, (unsigned long long)n, (unsigned long long)m, remedy);
    ix->n_items = (int64_t)n;
    ix->n_docs = (int64_t)m - 1;
    ix->sizes = h + TX_IDX_HEADER;
    ix->pointers = ix->sizes + n * 4;
    ix->doc_idx = ix->pointers + n * 8;
    return TX_OK;
}

/* Every item lies directly behind the one before, and the last ends where .bin ends. */
static tx_status check_items(tx_indexed *ix)
{
    const char *p = ix->prefix;
    uint64_t at = 0; /* cannot overflow: it never passes bin.size by more than 2^31 ids */
    for (int64_t i = 0; i < ix->n_items; i++) {
        int32_t n = tx_indexed_size(ix, i);
        if (n < 0) return TX_FAIL(TX_ERR_FORMAT, "%s.idx: item %lld has size %d; %s", p, (long long)i, n, remedy);
        uint64_t pointer = read_u64(ix->pointers + i * 8);
        if (pointer != at)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s.idx: item %lld begins at byte %llu, but the sizes before it add up to %llu; %s", p,
                           (long long)i, (unsigned long long)pointer, (unsigned long long)at, remedy);
        at += (uint64_t)n * ix->item_bytes;
        if (at > ix->bin.size)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s.bin: has %zu bytes and is cut off: item %lld of %lld ends at byte %llu; %s", p,
                           ix->bin.size, (long long)i, (long long)ix->n_items, (unsigned long long)at, remedy);
    }
    ix->n_tokens = (int64_t)(at / ix->item_bytes);
    if (at == ix->bin.size) return TX_OK;
    /* Some releases of Megatron-DeepSpeed do not count the EODs of --append-eod: one id a document is left over, and
     * every document begins one id too early for each one before it. Read as those releases read it, but say so. */
    if (ix->bin.size - at == (uint64_t)ix->n_docs * ix->item_bytes) {
        tx_warn_once(
            "%s: the index does not count the end-of-document tokens in .bin, so documents are shifted (a defect of "
            "the tool that wrote it); repeat preprocess-data to repair",
            p);
        return TX_OK;
    }
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s.bin: has %zu bytes, but the items of the index end at byte %llu: the two files do not "
                   "belong together; %s",
                   p, ix->bin.size, (unsigned long long)at, remedy);
}

static tx_status check_documents(const tx_indexed *ix)
{
    int64_t before = 0;
    for (int64_t d = 0; d <= ix->n_docs; d++) {
        int64_t i = tx_indexed_doc_begin(ix, d);
        if (i < before || i > ix->n_items || (d == 0 && i != 0))
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s.idx: document %lld begins at item %lld, it must lie within %lld..%lld; %s", ix->prefix,
                           (long long)d, (long long)i, (long long)before, d == 0 ? 0LL : (long long)ix->n_items,
                           remedy);
        before = i;
    }
    if (before != ix->n_items)
        return TX_FAIL(TX_ERR_FORMAT, "%s.idx: the documents end at item %lld, but there are %lld items; %s",
                       ix->prefix, (long long)before, (long long)ix->n_items, remedy);
    return TX_OK;
}

tx_status tx_indexed_open(tx_indexed *out, const char *prefix)
{
    tx_indexed ix = { 0 };
    tx_status st;
    TX_GOTO(tx_memdup0(&ix.prefix, prefix, strlen(prefix), "a path"));
    TX_GOTO(open_files(&ix, prefix));
    TX_GOTO(check_header(&ix));
    TX_GOTO(check_items(&ix));
    TX_GOTO(check_documents(&ix));
    *out = ix;
    return TX_OK;
out:
    tx_indexed_close(&ix);
    return st;
}

/* Sizes, pointers and documents lie as in an index file, in machine order. */
tx_status tx_indexed_open_mock(tx_indexed *out, int64_t vocab_size, int32_t eod)
{
    enum { N = TX_MOCK_DOCUMENTS };
    tx_indexed ix = { .dtype = 4, .item_bytes = 4, .n_items = N, .n_docs = N, .mock = { NULL, vocab_size, eod } };
    tx_status st;
    if (vocab_size < 1 || eod < 0)
        return TX_FAIL(TX_ERR_ARG, "--mock-data needs %s: give --tokenizer-type NullTokenizer and --vocab-size",
                       vocab_size < 1 ? "a vocabulary" : "a vocabulary with an end-of-document token");
    TX_GOTO(tx_memdup0(&ix.prefix, TX_MOCK_NAME, strlen(TX_MOCK_NAME), "a path"));
    TX_GOTO(tx_alloc(&ix.mock.index, 20 * (size_t)N + 8, 1, "the index of --mock-data"));
    int32_t *size = (int32_t *)(void *)(ix.mock.index + 16 * (size_t)N + 8);
    int64_t *pointer = (int64_t *)(void *)ix.mock.index, *doc = pointer + N;
    tx_mock_lengths(size, N);
    for (int64_t i = 0; i < N; i++) {
        pointer[i] = 4 * ix.n_tokens;
        doc[i] = i;
        ix.n_tokens += size[i];
    }
    doc[N] = N;
    ix.sizes = (unsigned char *)size;
    ix.pointers = (unsigned char *)pointer;
    ix.doc_idx = (unsigned char *)doc;
    *out = ix;
out:
    if (st) tx_indexed_close(&ix);
    return st;
}

void tx_indexed_close(tx_indexed *ix)
{
    tx_free(ix->mock.index);
    tx_map_close(&ix->idx);
    tx_map_close(&ix->bin);
    tx_free(ix->prefix);
    *ix = (tx_indexed){ 0 };
}

/* ---- access ---- */

int64_t tx_indexed_doc_of(const tx_indexed *ix, int64_t i)
{
    int64_t lo = 0, hi = ix->n_docs; /* doc_begin(lo) <= i < doc_begin(hi) */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (tx_indexed_doc_begin(ix, mid) <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Aligned: .bin is mapped at a page and every item begins at a multiple of item_bytes. */
static void widen(int32_t *ids, const void *p, int64_t n, int dtype)
{
    const uint8_t *u8 = p;
    const int8_t *i8 = p;
    const int16_t *i16 = p;
    const uint16_t *u16 = p;
    switch (dtype) {
    case 1:
        for (int64_t k = 0; k < n; k++) ids[k] = u8[k];
        break;
    case 2:
        for (int64_t k = 0; k < n; k++) ids[k] = i8[k];
        break;
    case 3:
        for (int64_t k = 0; k < n; k++) ids[k] = i16[k];
        break;
    case 8:
        for (int64_t k = 0; k < n; k++) ids[k] = u16[k];
        break;
    default:
        memcpy(ids, p, (size_t)n * 4);
    }
}

static tx_status narrow(const tx_indexed *ix, int32_t *ids, const unsigned char *p, int64_t i, int64_t offset,
                        int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t id = (int64_t)read_u64(p + 8 * k);
        if (id < INT32_MIN || id > INT32_MAX)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s.bin: document %lld holds token id %lld at position %lld, more than 32 bits; "
                           "repeat preprocess-data with the right vocabulary",
                           ix->prefix, (long long)tx_indexed_doc_of(ix, i), (long long)id, (long long)(offset + k));
        ids[k] = (int32_t)id;
    }
    return TX_OK;
}

tx_status tx_indexed_get(const tx_indexed *ix, int32_t *ids, int64_t i, int64_t offset, int64_t n)
{
    if (i < 0 || i >= ix->n_items || offset < 0 || n < 0 || n > tx_indexed_size(ix, i) - offset)
        return TX_FAIL(TX_ERR_ARG, "%s: %lld ids from %lld on of item %lld are not in the dataset of %lld items",
                       ix->prefix, (long long)n, (long long)offset, (long long)i, (long long)ix->n_items);
    if (!n) return TX_OK;
    if (ix->mock.index) {
        tx_mock_ids(ids, tx_indexed_size(ix, i), offset, n, ix->mock.vocab_size, ix->mock.eod);
        return TX_OK;
    }
    const unsigned char *p = ix->bin.data + read_u64(ix->pointers + i * 8) + (size_t)offset * ix->item_bytes;
    if (ix->dtype == 5) return narrow(ix, ids, p, i, offset, n);
    widen(ids, p, n, ix->dtype);
    return TX_OK;
}

tx_status tx_indexed_check_vocab(const tx_indexed *ix, const int32_t *ids, int64_t i, int64_t offset, int64_t n,
                                 int64_t vocab_size)
{
    for (int64_t k = 0; k < n; k++)
        if (ids[k] < 0 || ids[k] >= vocab_size)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: document %lld holds token id %d at position %lld, but the vocabulary has %lld "
                           "entries; train with the vocabulary that the dataset was made with",
                           ix->prefix, (long long)tx_indexed_doc_of(ix, i), ids[k], (long long)(offset + k),
                           (long long)vocab_size);
    return TX_OK;
}
