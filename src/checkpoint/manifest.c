/* manifest.c - building, hashing, reading and checking manifest.json.
 *
 *  The text is one line of sorted, compact JSON in which "hash" was put last:
 *
 *      {"config":{...},"format":"...","shards":{...},"state":{...},"tensors":{...},"hash":"<32 hex>"}\n
 *      |<------------------------- hashed, plus the closing '}' ----------->|
 *
 *  so the hash is over bytes as they lie in the file (no two JSON printers have to agree), and also over the compact,
 *  sorted text of everything else, which any tool can produce. */
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/file_pieces.h"
#include "checkpoint/boxes.h"
#include "checkpoint/json_text.h"

#define HASH_DIGITS 32
#define HASH_KEY    ",\"hash\":\""
#define TAIL_BYTES  (sizeof HASH_KEY - 1 + HASH_DIGITS + 3) /* "}\n behind the digits */

static tx_status no_memory(void)
{
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a checkpoint's manifest");
}

/* ---- checksums of a file that is being written ---- */

struct tx__blocks {
    XXH3_state_t *state;
    size_t in_block; /* bytes of the block under way */
    uint64_t bytes;
    json_t *list; /* finished blocks */
};

tx_status tx__blocks_create(tx__blocks **out)
{
    tx__blocks *b;
    TX_TRY(tx_alloc(&b, 1, sizeof *b, "checksums"));
    b->state = XXH3_createState();
    b->list = json_array();
    if (!b->state || !b->list) {
        tx__blocks_destroy(b);
        return no_memory();
    }
    XXH3_64bits_reset(b->state);
    *out = b;
    return TX_OK;
}

static void finish_block(tx__blocks *b)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(b->state));
    json_array_append_new(b->list, json_string(hex)); /* a failure shows as a missing block: tx__manifest_add_shard */
    XXH3_64bits_reset(b->state);
    b->in_block = 0;
}

void tx__blocks_update(void *blocks, const void *bytes, size_t n)
{
    tx__blocks *b = blocks;
    const unsigned char *p = bytes;
    b->bytes += n;
    while (n) {
        size_t room = TX__BLOCK_BYTES - b->in_block, k = n < room ? n : room;
        XXH3_64bits_update(b->state, p, k);
        b->in_block += k;
        p += k;
        n -= k;
        if (b->in_block == TX__BLOCK_BYTES) finish_block(b);
    }
}

void tx__blocks_destroy(tx__blocks *b)
{
    if (!b) return;
    XXH3_freeState(b->state);
    json_decref(b->list);
    tx_free(b);
}

static uint64_t n_blocks_of(uint64_t bytes)
{
    return bytes / TX__BLOCK_BYTES + (bytes % TX__BLOCK_BYTES != 0);
}

/* ---- writing ---- */

/* The counts of a state; its seed is a text, because JSON integers end at 2^63. */
static const struct {
    const char *name;
    size_t offset;
} counts[] = {
    { "iteration", offsetof(tx_ckpt_state, iteration) },
    { "consumed_train_samples", offsetof(tx_ckpt_state, consumed_train_samples) },
    { "consumed_valid_samples", offsetof(tx_ckpt_state, consumed_valid_samples) },
    { "consumed_train_tokens", offsetof(tx_ckpt_state, consumed_train_tokens) },
    { "schedule_samples", offsetof(tx_ckpt_state, schedule_samples) },
    { "schedule_tokens", offsetof(tx_ckpt_state, schedule_tokens) },
    { "schedule_warmup_tokens", offsetof(tx_ckpt_state, schedule_warmup_tokens) },
    { "optim_step", offsetof(tx_ckpt_state, optim_step) },
    { "skipped", offsetof(tx_ckpt_state, skipped) },
    { "vocab_size", offsetof(tx_ckpt_state, vocab_size) },
};
#define N_COUNTS (sizeof counts / sizeof counts[0])

static json_t *state_to_json(const tx_ckpt_state *s)
{
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, s->seed);
    json_t *v = json_pack("{s:s}", "seed", seed);
    for (size_t i = 0; i < N_COUNTS; i++) {
        int64_t count;
        memcpy(&count, (const char *)s + counts[i].offset, sizeof count);
        TX_ASSERT(count >= 0);
        if (json_object_set_new(v, counts[i].name, json_integer(count))) {
            json_decref(v);
            return NULL;
        }
    }
    return v;
}

json_t *tx__manifest_begin(const tx_ckpt_state *s, const json_t *config)
{
    return json_pack("{s:s, s:o, s:o, s:{}, s:{}}", "format", TX__MANIFEST_FORMAT, "config", json_deep_copy(config),
                     "state", state_to_json(s), "shards", "tensors");
}

/* json_pack and the array calls pass NULL on, so one look at the end sees every lack of memory. */
tx_status tx__manifest_add_shard(json_t *m, const char *file, tx__blocks *b)
{
    if (b->in_block) finish_block(b);
    if (json_array_size(b->list) != n_blocks_of(b->bytes)) return no_memory();
    json_t *v =
        json_pack("{s:I, s:i, s:O}", "bytes", (json_int_t)b->bytes, "block_bytes", TX__BLOCK_BYTES, "blocks", b->list);
    return json_object_set_new(json_object_get(m, "shards"), file, v) ? no_memory() : TX_OK;
}

static json_t *sizes_to_json(const int64_t *size, int n)
{
    json_t *v = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(v, json_integer(size[i]));
    return v;
}

tx_status tx__manifest_add_piece(json_t *m, const tx__saved *s, const tx__saved_piece *p, const char *file)
{
    json_t *tensors = json_object_get(m, "tensors"), *tensor = json_object_get(tensors, s->name);
    if (!tensor) {
        tensor = json_pack("{s:s, s:o, s:[]}", "dtype", "F32", "shape", sizes_to_json(s->dim, s->n_dims), "pieces");
        if (json_object_set_new(tensors, s->name, tensor)) return no_memory();
    }
    json_t *piece = json_pack("{s:s, s:s, s:o, s:o}", "shard", file, "key", p->key, "start",
                              sizes_to_json(p->start, s->n_dims), "shape", sizes_to_json(p->size, s->n_dims));
    return json_array_append_new(json_object_get(tensor, "pieces"), piece) ? no_memory() : TX_OK;
}

json_t *tx__manifest_part(void)
{
    return json_pack("{s:{}, s:{}}", "shards", "tensors");
}

tx_status tx__manifest_merge(json_t *m, const char *text, size_t n)
{
    json_t *part = json_loadb(text, n, 0, NULL), *tensors = json_object_get(m, "tensors"), *theirs;
    const char *name;
    bool good = part && !json_object_update(json_object_get(m, "shards"), json_object_get(part, "shards"));
    json_object_foreach(json_object_get(part, "tensors"), name, theirs)
    {
        json_t *ours = json_object_get(tensors, name);
        if (!ours)
            good = good && !json_object_set(tensors, name, theirs);
        else
            good = good && !json_array_extend(json_object_get(ours, "pieces"), json_object_get(theirs, "pieces"));
    }
    json_decref(part);
    return good ? TX_OK : no_memory();
}

static void hash_text(const char *text, size_t n, char hex[HASH_DIGITS + 1])
{
    XXH128_hash_t h = XXH3_128bits(text, n);
    snprintf(hex, HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

tx_status tx__manifest_text(const json_t *m, tx_str *out)
{
    char hex[HASH_DIGITS + 1];
    char *text = json_dumps(m, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) return no_memory();
    size_t n = strlen(text);
    hash_text(text, n, hex);
    tx_status st = tx_str_append(out, text, n - 1);
    if (!st) st = tx_str_printf(out, HASH_KEY "%s\"}\n", hex);
    free(text); /* Jansson's */
    return st;
}

/* ---- reading ---- */

/* Nothing of a manifest is believed before its hash fits. */
static tx_status check_hash(const char *path, tx_str *text)
{
    char hex[HASH_DIGITS + 1], tail[TAIL_BYTES + 1];
    if (text->len <= TAIL_BYTES)
        return TX_FAIL(TX_ERR_FORMAT, "%s: cut off: %zu bytes are no manifest", path, text->len);
    char *cut = text->data + text->len - TAIL_BYTES, keep = *cut;
    *cut = '}';
    hash_text(text->data, text->len - TAIL_BYTES + 1, hex);
    *cut = keep;
    snprintf(tail, sizeof tail, HASH_KEY "%s\"}\n", hex);
    if (memcmp(cut, tail, TAIL_BYTES))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: does not match its hash: damaged, cut off or changed by hand; load another iteration",
                       path);
    return TX_OK;
}

static tx_status bad(const char *path, const char *what)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s: %s is not what a manifest of \"%s\" holds", path, what, TX__MANIFEST_FORMAT);
}

/* The same of a member of a field; what is no name is not shown. */
static tx_status bad_member(const char *path, const char *member, const char *field)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s: %s in \"%s\" is not what a manifest of \"%s\" holds", path,
                   tx__is_printable(member, TX__KEY_CAP) ? member : "a member", field, TX__MANIFEST_FORMAT);
}

static tx_status read_state(tx__manifest *m, const char *path)
{
    const json_t *s = json_object_get(m->root, "state");
    const char *seed = json_string_value(json_object_get(s, "seed"));
    char back[24] = "";
    if (seed) {
        m->state.seed = strtoull(seed, NULL, 10);
        snprintf(back, sizeof back, "%" PRIu64, m->state.seed);
    }
    if (!seed || strcmp(seed, back) != 0) return bad_member(path, "seed", "state");
    for (size_t i = 0; i < N_COUNTS; i++) {
        int64_t count = 0;
        if (!tx__json_size(json_object_get(s, counts[i].name), &count))
            return bad_member(path, counts[i].name, "state");
        memcpy((char *)&m->state + counts[i].offset, &count, sizeof count);
    }
    return json_object_size(s) == N_COUNTS + 1 ? TX_OK : bad(path, "\"state\"");
}

static int shard_by_file(const void *a, const void *b)
{
    return strcmp(((const tx__shard_file *)a)->file, ((const tx__shard_file *)b)->file);
}

static int saved_by_name(const void *a, const void *b)
{
    return strcmp(((const tx__saved *)a)->name, ((const tx__saved *)b)->name);
}

static bool is_hex64(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) == 16 && strspn(json_string_value(v), "0123456789abcdef") == 16;
}

static tx_status read_shards(tx__manifest *m, const char *path)
{
    json_t *shards = json_object_get(m->root, "shards"), *v, *block;
    const char *file;
    size_t i;
    TX_TRY(tx_alloc(&m->shard, json_object_size(shards), sizeof *m->shard, "a list of shards"));
    json_object_foreach(shards, file, v)
    {
        int64_t bytes, block_bytes;
        json_t *blocks = json_object_get(v, "blocks");
        if (!tx__is_plain_file_name(file) || json_object_size(v) != 3 ||
            !tx__json_size(json_object_get(v, "bytes"), &bytes) ||
            !tx__json_size(json_object_get(v, "block_bytes"), &block_bytes) || block_bytes != TX__BLOCK_BYTES ||
            !json_is_array(blocks) || json_array_size(blocks) != n_blocks_of((uint64_t)bytes))
            return bad_member(path, file, "shards");
        json_array_foreach(blocks, i, block)
        {
            if (!is_hex64(block)) return bad(path, "a checksum of \"shards\"");
        }
        m->shard[m->n_shards++] = (tx__shard_file){ .file = file, .bytes = (uint64_t)bytes, .block = blocks };
    }
    if (m->n_shards) qsort(m->shard, m->n_shards, sizeof *m->shard, shard_by_file);
    return TX_OK;
}

/* Reads "start" and "shape" of a piece and checks that the box lies inside its tensor. */
static bool read_box(const tx__saved *s, const json_t *v, tx__saved_piece *p)
{
    int n_start, n_size;
    p->start[1] = 0;
    p->size[1] = 1;
    if (!tx__json_sizes(json_object_get(v, "start"), s->n_dims, s->n_dims, p->start, &n_start)) return false;
    if (!tx__json_sizes(json_object_get(v, "shape"), s->n_dims, s->n_dims, p->size, &n_size)) return false;
    for (int i = 0; i < 2; i++)
        if (p->size[i] < 1 || p->start[i] > s->dim[i] || p->size[i] > s->dim[i] - p->start[i]) return false;
    return true;
}

static tx_status read_pieces(const tx__manifest *m, const char *path, tx__saved *s, const json_t *pieces)
{
    size_t n = json_array_size(pieces), i;
    json_t *v;
    if (n < 1 || n > TX__MAX_PIECES) return bad(path, "a number of pieces of a tensor");
    TX_TRY(tx_alloc(&s->piece, n, sizeof *s->piece, "a list of pieces"));
    json_array_foreach(pieces, i, v)
    {
        tx__saved_piece p = { .key = json_string_value(json_object_get(v, "key")) };
        tx__shard_file want = { .file = json_string_value(json_object_get(v, "shard")) }, *hit = NULL;
        if (want.file && m->n_shards) hit = bsearch(&want, m->shard, m->n_shards, sizeof want, shard_by_file);
        if (json_object_size(v) != 4 || !hit || !p.key || !tx__is_printable(p.key, TX__KEY_CAP - 1) ||
            !read_box(s, v, &p))
            return bad(path, "a piece of a tensor");
        p.shard = (size_t)(hit - m->shard);
        s->piece[s->n_pieces++] = p;
    }
    bool covered;
    TX_TRY(tx__pieces_cover(s, &covered));
    if (covered) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: the pieces of tensor %s overlap or leave a part out", path, s->name);
}

static tx_status read_tensors(tx__manifest *m, const char *path)
{
    json_t *tensors = json_object_get(m->root, "tensors"), *v;
    const char *name;
    TX_TRY(tx_alloc(&m->saved, json_object_size(tensors), sizeof *m->saved, "a list of tensors"));
    json_object_foreach(tensors, name, v)
    {
        tx__saved *s = &m->saved[m->n_saved];
        *s = (tx__saved){ .name = name, .dim = { 1, 1 } };
        const char *dtype = json_string_value(json_object_get(v, "dtype"));
        int64_t numel;
        if (!tx__is_printable(name, TX__NAME_CAP - 1) || json_object_size(v) != 3 || !dtype || strcmp(dtype, "F32") ||
            !tx__json_sizes(json_object_get(v, "shape"), 1, 2, s->dim, &s->n_dims) || s->dim[0] < 1 || s->dim[1] < 1 ||
            __builtin_mul_overflow(s->dim[0], s->dim[1], &numel))
            return bad_member(path, name, "tensors");
        m->n_saved++; /* before its pieces: deinit frees what it finds */
        TX_TRY(read_pieces(m, path, s, json_object_get(v, "pieces")));
    }
    if (m->n_saved) qsort(m->saved, m->n_saved, sizeof *m->saved, saved_by_name);
    return TX_OK;
}

static tx_status read_fields(tx__manifest *m, const char *path)
{
    const char *format = json_string_value(json_object_get(m->root, "format"));
    if (!format || strcmp(format, TX__MANIFEST_FORMAT))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: format \"%s\"; this version of triax reads \"%s\"", path,
                       format && tx__is_printable(format, 64) ? format : "", TX__MANIFEST_FORMAT);
    static const char *const field[] = { "config", "shards", "state", "tensors" };
    bool objects = json_object_size(m->root) == 6; /* these, "format" and "hash" */
    for (int i = 0; i < 4; i++) objects = objects && json_is_object(json_object_get(m->root, field[i]));
    if (!objects) return bad(path, "its list of fields");
    m->config = json_object_get(m->root, "config");
    TX_TRY(read_state(m, path));
    TX_TRY(read_shards(m, path));
    return read_tensors(m, path);
}

tx_status tx__manifest_read(tx__manifest *m, const char *path)
{
    *m = (tx__manifest){ 0 };
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_file_read(path, TX__MANIFEST_MAX, &text));
    TX_GOTO(check_hash(path, &text));
    TX_GOTO(tx__json_parse(&m->root, path, text.data, text.len));
    TX_GOTO(read_fields(m, path));
out:
    tx_str_free(&text);
    if (st) tx__manifest_deinit(m);
    return st;
}

void tx__manifest_deinit(tx__manifest *m)
{
    for (size_t i = 0; i < m->n_saved; i++) tx_free(m->saved[i].piece);
    tx_free(m->saved);
    tx_free(m->shard);
    json_decref(m->root);
    *m = (tx__manifest){ 0 };
}

const tx__saved *tx__manifest_find(const tx__manifest *m, const char *name)
{
    tx__saved want = { .name = name };
    return m->n_saved ? bsearch(&want, m->saved, m->n_saved, sizeof want, saved_by_name) : NULL;
}

int64_t tx__shard_blocks(const tx__shard_file *s)
{
    return (int64_t)n_blocks_of(s->bytes);
}

void tx__block_bytes(const tx__shard_file *s, int64_t i, uint64_t *first, uint64_t *end)
{
    *first = (uint64_t)i * TX__BLOCK_BYTES;
    *end = s->bytes - *first < TX__BLOCK_BYTES ? s->bytes : *first + TX__BLOCK_BYTES;
}

static bool matches(const tx__shard_file *s, int64_t i, const unsigned char *bytes, size_t n)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits(bytes, n));
    return !strcmp(hex, json_string_value(json_array_get(s->block, (size_t)i)));
}

bool tx__block_is_good(const tx__shard_file *s, const tx_map *map, int64_t i)
{
    uint64_t first, end;
    tx__block_bytes(s, i, &first, &end);
    return matches(s, i, map->data + first, (size_t)(end - first));
}

typedef struct comparing {
    const tx__shard_file *s;
    _Atomic int64_t first_bad;
} comparing;

static void compare_block(void *user, const unsigned char *bytes, uint64_t at, size_t n)
{
    comparing *c = user;
    int64_t i = (int64_t)(at / TX__BLOCK_BYTES), first = atomic_load(&c->first_bad);
    if (matches(c->s, i, bytes, n)) return;
    while (i < first && !atomic_compare_exchange_weak(&c->first_bad, &first, i)) continue;
}

tx_status tx__shard_verify(const tx__shard_file *s, const char *path, const tx_map *map, int64_t first, int64_t end)
{
    if (map->size != s->bytes)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes long, the manifest says %" PRIu64 ": cut off or changed", path,
                       map->size, s->bytes);
    if (first >= end) return TX_OK;
    comparing c = { .s = s, .first_bad = INT64_MAX };
    uint64_t at, to;
    tx__block_bytes(s, end - 1, &at, &to);
    TX_TRY(tx_file_pieces_read(
        &(tx_file_pieces){ path, (uint64_t)first * TX__BLOCK_BYTES, to, TX__BLOCK_BYTES, compare_block, &c }));
    if (c.first_bad == INT64_MAX) return TX_OK;
    tx__block_bytes(s, c.first_bad, &at, &to);
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: block %" PRId64 " (bytes %" PRIu64 " to %" PRIu64
                   ") does not match its checksum: the file is damaged; load another iteration",
                   path, c.first_bad, at, to - 1);
}
