/* checkpoint_verify.c - triax inspect: whether all files are there and have their length, and with --verify every byte.
 * It reports all that is wrong, not only the first. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"

enum {
    STRETCH = 64, /* blocks that are compared, told of and forgotten together */
    MAX_SHOWN = 8 /* tensors of a block */
};

typedef struct verifier {
    const tx_checkpoint *c;
    tx_ckpt_tell *tell;
    void *user;
    int64_t n_bad, n_blocks;
    size_t n_shards;   /* of which something is bad */
    const char *first; /* the first of these */
    bool told;         /* of the shard at hand */
    tx_str line;
} verifier;

static tx_status tell(verifier *v, const tx__shard_file *s)
{
    if (!v->told) v->n_shards++;
    if (!v->first) v->first = s->file;
    v->told = true;
    return v->tell(v->user, v->line.data);
}

/* What is wrong with the file as a whole: the error at hand. */
static tx_status tell_error(verifier *v, const tx__shard_file *s)
{
    v->line.len = 0;
    TX_TRY(tx_str_printf(&v->line, "  %s", tx_last_error()));
    return tell(v, s);
}

/* The tensors of which bytes [first, end) of the file are a part. f NULL: nobody knows. */
static tx_status name_tensors(tx_str *line, const tx_safetensors *f, const tx_map *map, uint64_t first, uint64_t end)
{
    size_t n = 0, count = f ? tx_safetensors_count(f) : 0;
    uint64_t header = map->size;
    for (size_t i = 0; i < count; i++) {
        const tx_st_tensor *t = tx_safetensors_at(f, i);
        uint64_t at = (uint64_t)(t->data - map->data);
        if (at < header) header = at;
        if (at >= end || at + t->bytes <= first) continue;
        if (n++ < MAX_SHOWN) TX_TRY(tx_str_printf(line, "%s%s", n > 1 ? ", " : ": in ", t->name));
    }
    if (n > MAX_SHOWN) TX_TRY(tx_str_printf(line, " and %zu more", n - MAX_SHOWN));
    if (!f) return tx_str_puts(line, ": the file's header is damaged, too, so nobody knows which tensors lie there");
    return first < header ? tx_str_puts(line, n ? ", and the header" : ": in the header") : TX_OK;
}

static tx_status tell_block(verifier *v, const tx__shard_file *s, const tx_safetensors *f, const tx_map *map, int64_t i)
{
    uint64_t first, end;
    tx__block_bytes(s, i, &first, &end);
    v->line.len = 0;
    TX_TRY(tx_str_printf(&v->line, "  %s: block %" PRId64 " (bytes %" PRIu64 " to %" PRIu64 ") is damaged", s->file, i,
                         first, end - 1));
    TX_TRY(name_tensors(&v->line, f, map, first, end));
    v->n_bad++;
    return tell(v, s);
}

/* All blocks that are in the file. f NULL: its header cannot be read. */
static tx_status verify_blocks(verifier *v, const tx__shard_file *s, const tx_safetensors *f, const tx_map *map)
{
    int64_t n = tx__shard_blocks(s);
    if (map->size < s->bytes) n = (int64_t)(map->size / TX__BLOCK_BYTES);
    v->n_blocks += tx__shard_blocks(s);
    v->n_bad += tx__shard_blocks(s) - n;
    for (int64_t at = 0; at < n; at += STRETCH) {
        bool bad[STRETCH] = { false };
        int64_t end = n - at < STRETCH ? n : at + STRETCH;
#pragma omp parallel for schedule(dynamic, 4)
        for (int64_t i = at; i < end; i++) bad[i - at] = !tx__block_is_good(s, map, i);
        for (int64_t i = at; i < end; i++)
            if (bad[i - at]) TX_TRY(tell_block(v, s, f, map, i));
        tx_map_forget(map, (size_t)at * TX__BLOCK_BYTES, (size_t)(end - at) * TX__BLOCK_BYTES);
    }
    return TX_OK;
}

/* Every tensor that the manifest has in shard `number` is there as it says. */
static tx_status verify_pieces(verifier *v, const tx__shard_file *s, size_t number, const tx_safetensors *f)
{
    const tx__manifest *m = tx__checkpoint_fields(v->c);
    for (size_t i = 0; i < m->n_saved; i++)
        for (size_t k = 0; k < m->saved[i].n_pieces; k++) {
            if (m->saved[i].piece[k].shard != number || tx__piece_is_in(f, &m->saved[i], &m->saved[i].piece[k]))
                continue;
            v->line.len = 0;
            TX_TRY(tx_str_printf(&v->line, "  %s: holds no tensor %s as the manifest describes it", s->file,
                                 m->saved[i].piece[k].key));
            TX_TRY(tell(v, s));
        }
    return TX_OK;
}

static tx_status verify_shard(verifier *v, size_t number)
{
    const tx__shard_file *s = &tx__checkpoint_fields(v->c)->shard[number];
    char path[TX__PATH_CAP];
    tx_map map = { 0 };
    tx_safetensors *f = NULL;
    v->told = false;
    TX_TRY(tx_path_join(path, sizeof path, tx_checkpoint_path(v->c), s->file));
    if (tx_map_open(&map, path)) {
        v->n_blocks += tx__shard_blocks(s);
        v->n_bad += tx__shard_blocks(s);
        return tell_error(v, s);
    }
    tx_status st = TX_OK;
    if (map.size != s->bytes) {
        (void)TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes long, the manifest says %" PRIu64 ": cut off or changed", s->file,
                      map.size, s->bytes);
        TX_GOTO(tell_error(v, s));
    }
    const tx_map seen = map; /* which f takes */
    if (tx_safetensors_open_map(&f, path, &map)) TX_GOTO(tell_error(v, s));
    TX_GOTO(verify_blocks(v, s, f, &seen));
    if (f) st = verify_pieces(v, s, number, f);
out:
    tx_safetensors_close(f);
    tx_map_close(&map);
    return st;
}

tx_status tx_checkpoint_verify(const tx_checkpoint *c, tx_ckpt_tell *line, void *user)
{
    const tx__manifest *m = tx__checkpoint_fields(c);
    verifier v = { .c = c, .tell = line, .user = user };
    tx_status st = TX_OK;
    size_t n_files = 0;
    for (size_t i = 0; i < m->n_shards; i++) TX_GOTO(verify_shard(&v, i));
    TX_GOTO(tx__tokenizer_verify(c, true, line, user, &n_files));
    if (v.n_shards)
        st = TX_FAIL(TX_ERR_FORMAT,
                     "%s: %" PRId64 " of %" PRId64 " blocks are damaged or missing, in %zu of %zu shards, the first of "
                     "them %s; load another iteration",
                     tx_checkpoint_path(c), v.n_bad, v.n_blocks, v.n_shards, m->n_shards, v.first);
    else if (n_files)
        st = TX_FAIL(TX_ERR_FORMAT,
                     "%s: %zu of the tokenizer's files are damaged or missing; name good ones, such as "
                     "--vocab-file, or load another iteration",
                     tx_checkpoint_path(c), n_files);
out:
    tx_str_free(&v.line);
    return st;
}

/* ---- without reading ---- */

static tx_status check_length(const tx_checkpoint *c, const tx__shard_file *s, bool *good)
{
    char path[TX__PATH_CAP];
    struct stat st;
    *good = false;
    TX_TRY(tx_path_join(path, sizeof path, tx_checkpoint_path(c), s->file));
    if (stat(path, &st)) return TX_FAIL(TX_ERR_FORMAT, "%s: is missing: %s", path, strerror(errno));
    *good = S_ISREG(st.st_mode) && (uint64_t)st.st_size == s->bytes;
    if (*good) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: %lld bytes long, the manifest says %" PRIu64 ": cut off or changed", path,
                   (long long)st.st_size, s->bytes);
}

tx_status tx_checkpoint_verify_sizes(const tx_checkpoint *c, tx_ckpt_tell *line, void *user)
{
    const tx__manifest *m = tx__checkpoint_fields(c);
    size_t n_bad = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        char text[2048];
        bool good;
        tx_status st = check_length(c, &m->shard[i], &good);
        if (good) continue;
        if (st != TX_ERR_FORMAT) return st;
        n_bad++;
        snprintf(text, sizeof text, "  %s", tx_last_error());
        TX_TRY(line(user, text));
    }
    TX_TRY(tx__tokenizer_verify(c, false, line, user, &n_bad));
    if (!n_bad) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: %zu of its files %s missing or cut off; load another iteration",
                   tx_checkpoint_path(c), n_bad, n_bad == 1 ? "is" : "are");
}
