/* checkpoint_load.c - opening, verifying and reading a native checkpoint. Nothing is read from a folder before its
 * checksums are verified, and nothing is written to the caller's buffers before all shapes are, on any rank. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"

struct tx_checkpoint {
    char *path;
    tx__manifest m;
    tx_map *map;            /* m.n_shards; taken by shard[i] when that is opened */
    tx_safetensors **shard; /* m.n_shards */
    tx_comm *group;
};

/* ---- opening ---- */

const tx__manifest *tx__checkpoint_fields(const tx_checkpoint *c)
{
    return &c->m;
}

static tx_status shard_path(char path[TX__PATH_CAP], const tx_checkpoint *c, size_t i)
{
    return tx_path_join(path, TX__PATH_CAP, c->path, c->m.shard[i].file);
}

/* Maps all shards and compares the blocks from `first` to before `end` of those of all. */
static tx_status verify_blocks(tx_checkpoint *c, int64_t first, int64_t end)
{
    char path[TX__PATH_CAP];
    int64_t at = 0;
    for (size_t i = 0; i < c->m.n_shards; i++) {
        const tx__shard_file *s = &c->m.shard[i];
        int64_t blocks = tx__shard_blocks(s), from = first - at, to = end - at;
        TX_TRY(shard_path(path, c, i));
        TX_TRY(tx_map_open(&c->map[i], path));
        TX_TRY(tx__shard_verify(s, path, &c->map[i], from < 0 ? 0 : from, to < blocks ? to : blocks));
        at += blocks;
    }
    return TX_OK;
}

/* This rank's part. */
static tx_status verify(tx_checkpoint *c)
{
    int64_t n = 0, size = tx_comm_size(c->group), rank = tx_comm_rank(c->group);
    for (size_t i = 0; i < c->m.n_shards; i++) n += tx__shard_blocks(&c->m.shard[i]);
    return verify_blocks(c, n * rank / size, n * (rank + 1) / size);
}

bool tx__piece_is_in(const tx_safetensors *f, const tx__saved *s, const tx__saved_piece *p)
{
    const tx_st_tensor *t = tx_safetensors_find(f, p->key);
    return t && t->dtype == TX_ST_F32 && t->n_dims == s->n_dims && t->dim[0] == p->size[0] &&
           (t->n_dims == 1 || t->dim[1] == p->size[1]);
}

/* Every piece that the manifest promises is there, as promised. */
static tx_status check_pieces(const tx_checkpoint *c)
{
    for (size_t i = 0; i < c->m.n_saved; i++)
        for (size_t k = 0; k < c->m.saved[i].n_pieces; k++) {
            const tx__saved *s = &c->m.saved[i];
            const tx__saved_piece *p = &s->piece[k];
            if (!tx__piece_is_in(c->shard[p->shard], s, p))
                return TX_FAIL(TX_ERR_FORMAT, "%s/%s: holds no tensor %s as the manifest describes it", c->path,
                               c->m.shard[p->shard].file, p->key);
        }
    return TX_OK;
}

static tx_status open_shards(tx_checkpoint *c)
{
    char path[TX__PATH_CAP];
    for (size_t i = 0; i < c->m.n_shards; i++) {
        TX_TRY(shard_path(path, c, i));
        TX_TRY(tx_safetensors_open_map(&c->shard[i], path, &c->map[i]));
    }
    return check_pieces(c);
}

/* iteration < 0: the folder may have any name. */
static tx_status read_manifest(tx_checkpoint *c, const char *folder, int64_t iteration)
{
    char path[TX__PATH_CAP];
    TX_TRY(tx_memdup0(&c->path, folder, strlen(folder), "a path"));
    TX_TRY(tx_path_join(path, sizeof path, folder, TX__MANIFEST_FILE));
    TX_TRY(tx__manifest_read(&c->m, path));
    if (iteration >= 0 && iteration != c->m.state.iteration)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds iteration %" PRId64 ", not the one in its folder's name", path,
                       c->m.state.iteration);
    TX_TRY(tx_alloc(&c->map, c->m.n_shards, sizeof *c->map, "a list of shards"));
    return tx_alloc(&c->shard, c->m.n_shards, sizeof *c->shard, "a list of shards");
}

/* Hosts with a folder of their own under that name have different checkpoints, or none. */
static tx_status compare_with_first(const tx_checkpoint *c)
{
    char first[33] = "", mine[33];
    snprintf(mine, sizeof mine, "%s", json_string_value(json_object_get(c->m.root, "hash")));
    memcpy(first, mine, sizeof first);
    TX_TRY(tx_comm_spread(c->group, first, sizeof first, 0));
    if (!strcmp(first, mine)) return TX_OK;
    return TX_FAIL(
        TX_ERR_IO,
        "%s: is another checkpoint for rank %d than for rank %d; load from a file system that all hosts share", c->path,
        tx_comm_world_rank(c->group, tx_comm_rank(c->group)), tx_comm_world_rank(c->group, 0));
}

/* Damage is to be called damage, so no rank looks into a shard before all are verified. */
static tx_status open_folder(tx_checkpoint **out, const char *folder, int64_t iteration, tx_comm *group)
{
    tx_checkpoint *c = NULL;
    tx_status st = tx_alloc(&c, 1, sizeof *c, "a checkpoint");
    if (!st) st = read_manifest(c, folder, iteration);
    TX_GOTO(tx_comm_agree(group, st));
    c->group = group;
    TX_GOTO(tx_comm_agree(group, compare_with_first(c)));
    TX_GOTO(tx_comm_agree(group, verify(c)));
    TX_GOTO(tx_comm_agree(group, open_shards(c)));
    *out = c;
    c = NULL;
out:
    tx_checkpoint_close(c);
    return st;
}

/* Which folder of DIR; asked of rank 0's file system, so that ranks cannot come to different answers. */
static tx_status find_place(tx__found_checkpoint *place, const char *dir, tx_comm *group)
{
    tx_status st = TX_OK;
    if (tx_comm_rank(group) == 0) {
        if (!tx_path_is_dir(dir))
            st = TX_FAIL(TX_ERR_NOTFOUND, "%s: is not a folder; no checkpoint to load", dir);
        else
            st = tx__checkpoint_find(dir, place);
        if (!st && !place->path[0]) st = TX_FAIL(TX_ERR_NOTFOUND, "%s: holds no checkpoint of triax", dir);
        if (!st && place->note[0]) tx_warn("%s", place->note);
    }
    TX_TRY(tx_comm_agree(group, st));
    return tx_comm_spread(group, place, sizeof *place, 0);
}

tx_status tx_checkpoint_open(tx_checkpoint **out, const char *dir, tx_comm *group)
{
    tx__found_checkpoint place = { 0 };
    TX_TRY(find_place(&place, dir, group));
    return open_folder(out, place.path, place.iteration, group);
}

tx_status tx_checkpoint_open_manifest(tx_checkpoint **out, const char *dir)
{
    tx__found_checkpoint place = { 0 };
    tx_checkpoint *c = NULL;
    TX_TRY(find_place(&place, dir, &tx_comm_self));
    tx_status st = tx_alloc(&c, 1, sizeof *c, "a checkpoint");
    if (!st) st = read_manifest(c, place.path, place.iteration);
    if (st)
        tx_checkpoint_close(c);
    else
        *out = c;
    return st;
}

tx_status tx_checkpoint_open_just_written(tx_checkpoint **out, const char *dir)
{
    tx__found_checkpoint place = { 0 };
    tx_checkpoint *c = NULL;
    TX_TRY(find_place(&place, dir, &tx_comm_self));
    tx_status st = tx_alloc(&c, 1, sizeof *c, "a checkpoint");
    if (!st) st = read_manifest(c, place.path, place.iteration);
    if (!st) st = verify_blocks(c, 0, 0); /* maps the shards */
    if (!st) st = open_shards(c);
    if (st) {
        tx_checkpoint_close(c);
        return st;
    }
    c->group = &tx_comm_self;
    *out = c;
    return TX_OK;
}

/* The newest iteration < below, but `not`, that has a manifest; -1: there is none. */
static tx_status find_below(tx__found_checkpoint *place, const char *dir, int64_t below, int64_t not )
{
    tx_names names = { 0 };
    *place = (tx__found_checkpoint){ .iteration = -1 };
    TX_TRY(tx_dir_list(dir, &names));
    for (size_t i = 0; i < names.n; i++) { /* names of 8 digits sort before those of 7: go by number */
        char path[TX__PATH_CAP];
        int64_t iteration;
        if (!tx__iter_parse(names.name[i], &iteration) || iteration >= below || iteration <= place->iteration) continue;
        if (iteration == not || !tx__has_manifest(dir, names.name[i], path)) continue;
        memcpy(place->path, path, sizeof path);
        place->iteration = iteration;
    }
    tx_names_free(&names);
    return TX_OK;
}

tx_status tx_checkpoint_open_newest_good(tx_checkpoint **out, const char *dir, tx_comm *group)
{
    char first[1024];
    bool speaks = tx_comm_rank(group) == 0;
    tx__found_checkpoint named = { .iteration = -1 }, place = { .iteration = INT64_MAX };
    tx_status why = find_place(&named, dir, group);
    if (why) named.iteration = -1;
    if (!why) why = open_folder(out, named.path, named.iteration, group);
    if (!why) return TX_OK;
    snprintf(first, sizeof first, "%s", tx_last_error());
    TX_TRY(tx_comm_agree(group, why == TX_ERR_NOMEM || !tx_path_is_dir(dir) ? why : TX_OK));
    if (speaks) tx_warn("%s; looking for another one", first);
    for (;;) {
        TX_TRY(tx_comm_agree(group, speaks ? find_below(&place, dir, place.iteration, named.iteration) : TX_OK));
        TX_TRY(tx_comm_spread(group, &place, sizeof place, 0));
        if (place.iteration < 0) return TX_FAIL(why, "%s", first);
        if (!open_folder(out, place.path, place.iteration, group)) break;
        if (speaks) tx_warn("%s", tx_last_error());
    }
    if (speaks) tx_warn("loading %s instead, the newest checkpoint that is whole", (*out)->path);
    return TX_OK;
}

/* All but the bytes of its blocks: what is asked is only worth a hint, and there may be many bytes. */
static bool looks_whole(const tx__found_checkpoint *place)
{
    tx_checkpoint *c = NULL;
    tx_status st = tx_alloc(&c, 1, sizeof *c, "a checkpoint");
    if (!st) st = read_manifest(c, place->path, place->iteration);
    if (!st) st = verify_blocks(c, 0, 0);
    if (!st) st = open_shards(c);
    tx_checkpoint_close(c);
    return !st;
}

bool tx_checkpoint_other(char *path, size_t cap, const char *dir)
{
    tx__found_checkpoint named, place = { .iteration = INT64_MAX };
    if (!tx_path_is_dir(dir)) return false;
    if (tx__checkpoint_find(dir, &named)) named.iteration = -1;
    do {
        if (find_below(&place, dir, place.iteration, named.iteration) || place.iteration < 0) return false;
    } while (!looks_whole(&place));
    snprintf(path, cap, "%s", place.path);
    return true;
}

void tx_checkpoint_close(tx_checkpoint *c)
{
    if (!c) return;
    for (size_t i = 0; c->map && i < c->m.n_shards; i++) tx_map_close(&c->map[i]);
    for (size_t i = 0; c->shard && i < c->m.n_shards; i++) tx_safetensors_close(c->shard[i]);
    tx_free(c->map);
    tx_free(c->shard);
    tx__manifest_deinit(&c->m);
    tx_free(c->path);
    tx_free(c);
}

const char *tx_checkpoint_path(const tx_checkpoint *c)
{
    return c->path;
}

const tx_ckpt_state *tx_checkpoint_state(const tx_checkpoint *c)
{
    return &c->m.state;
}

const json_t *tx_checkpoint_config(const tx_checkpoint *c)
{
    return c->m.config;
}

const json_t *tx_checkpoint_manifest(const tx_checkpoint *c)
{
    return c->m.root;
}

/* ---- do model and checkpoint fit? ---- */

typedef struct difference {
    char name[TX__NAME_CAP]; /* numbers replaced by '*', so that 24 layers make one line */
    char saved[64], model[64];
    int count;
} difference;

typedef struct differences {
    difference *list;
    size_t n, cap;
    tx_hash_table by_name;
} differences;

static void shape_text(char buf[64], const int64_t *dim, int n_dims)
{
    if (n_dims == 1)
        snprintf(buf, 64, "[%" PRId64 "]", dim[0]);
    else
        snprintf(buf, 64, "[%" PRId64 ",%" PRId64 "]", dim[0], dim[1]);
}

/* "encoder.layers.11.mlp.bias" -> "encoder.layers.*.mlp.bias" */
static void pattern_of(char *to, size_t cap, const char *name)
{
    size_t n = 0;
    for (const char *s = name; *s && n + 1 < cap; s++) {
        size_t digits = s == name || s[-1] == '.' ? strspn(s, "0123456789") : 0;
        bool number = digits && (s[digits] == '.' || !s[digits]);
        to[n++] = number ? '*' : *s;
        if (number) s += digits - 1;
    }
    to[n] = 0;
}

/* saved or param NULL: only the other side has the tensor. */
static tx_status note_difference(differences *d, const char *name, const tx__saved *saved, const tx_param *param)
{
    difference row = { .saved = "absent", .model = "absent", .count = 1 };
    pattern_of(row.name, sizeof row.name, name);
    if (saved) shape_text(row.saved, saved->dim, saved->n_dims);
    if (param) shape_text(row.model, (int64_t[2]){ param->whole_logical, param->whole[1] }, param->n_dims);
    uint64_t hash = tx_hash(row.name, strlen(row.name), 0);
    size_t at = 0, i;
    while (tx_hash_next(&d->by_name, hash, &at, &i)) {
        difference *e = &d->list[i];
        if (strcmp(e->name, row.name) || strcmp(e->saved, row.saved) || strcmp(e->model, row.model)) continue;
        e->count++;
        return TX_OK;
    }
    if (d->n == d->cap) {
        size_t cap = 2 * d->cap + 16;
        TX_TRY(tx_realloc(&d->list, cap, sizeof *d->list, "a list of differences"));
        d->cap = cap;
    }
    TX_TRY(tx_hash_add(&d->by_name, hash, d->n));
    d->list[d->n++] = row;
    return TX_OK;
}

/* One error of many lines, a table; it ends where the room for an error's text does. */
static tx_status report(const tx_checkpoint *c, const differences *d)
{
    char text[7400] = "", row[3 * TX_PARAM_NAME_MAX], times[16];
    size_t at = 0, i = 0;
    int wide[2] = { 6, 17 }; /* the heading's words */
    for (size_t k = 0; k < d->n; k++) {
        int name = (int)strlen(d->list[k].name), saved = (int)strlen(d->list[k].saved);
        if (name > wide[0]) wide[0] = name;
        if (saved > wide[1]) wide[1] = saved;
    }
    for (; i < d->n; i++) {
        const difference *e = &d->list[i];
        snprintf(times, sizeof times, "  x%d", e->count);
        int len = snprintf(row, sizeof row, "\n  %-*s  %-*s  %s%s", wide[0], e->name, wide[1], e->saved, e->model,
                           e->count > 1 ? times : "");
        if (at + (size_t)len + 32 > sizeof text) break;
        memcpy(text + at, row, (size_t)len + 1);
        at += (size_t)len;
    }
    if (i < d->n) snprintf(text + at, sizeof text - at, "\n  and %zu more", d->n - i);
    return TX_FAIL_LINES(
        TX_ERR_SHAPE, "%.200s: a checkpoint of another shape; give the sizes it was trained with\n  %-*s  %-*s  %s%s",
        c->path, wide[0], "tensor", wide[1], "in the checkpoint", "in this model", text);
}

static bool fits(const tx__saved *s, const tx_param *p)
{
    return s->n_dims == p->n_dims && s->dim[0] == p->whole_logical && (p->n_dims == 1 || s->dim[1] == p->whole[1]);
}

static bool is_of_group(const tx__saved *s, const char *group)
{
    size_t n = strlen(group);
    return !strncmp(s->name, group, n) && s->name[n] == '.';
}

/* Sets seen[i] for every saved tensor i of a parameter that this rank has a shard of. A part of only some parameters
 * may have been saved of all, as once Muon's second one was: what it has more is not read. */
static void mark_seen(const tx_checkpoint *c, const tx_params *ps, const char *group, unsigned char *seen)
{
    char key[TX__NAME_CAP];
    for (int i = 0; i < ps->n; i++) {
        snprintf(key, sizeof key, "%s.%s", group, ps->param[i].name);
        const tx__saved *s = tx__manifest_find(&c->m, key);
        if (s) seen[s - c->m.saved] = 1;
    }
}

/* seen: by any rank. */
static tx_status compare_group(const tx_checkpoint *c, const tx_params *ps, const char *group,
                               const unsigned char *seen, differences *d)
{
    char key[TX__NAME_CAP];
    for (int i = 0; i < ps->n; i++) {
        snprintf(key, sizeof key, "%s.%s", group, ps->param[i].name);
        const tx__saved *s = tx__manifest_find(&c->m, key);
        if (!s || !fits(s, &ps->param[i])) TX_TRY(note_difference(d, key, s, &ps->param[i]));
    }
    for (size_t i = 0; i < c->m.n_saved; i++)
        if (is_of_group(&c->m.saved[i], group) && !seen[i])
            TX_TRY(note_difference(d, c->m.saved[i].name, &c->m.saved[i], NULL));
    return TX_OK;
}

static tx_status has_part(const tx_checkpoint *c, const char *name)
{
    bool other = false;
    for (size_t i = 0; i < c->m.n_saved; i++) {
        if (is_of_group(&c->m.saved[i], name)) return TX_OK;
        if (!is_of_group(&c->m.saved[i], TX_CKPT_MODEL)) other = true;
    }
    const char *what = other ? "holds the state of another optimizer" : "was saved without optimizer state";
    return TX_FAIL(TX_ERR_NOTFOUND, "%s: %s (there is no %s); give --no-load-optim or --finetune to go on without it%s",
                   c->path, what, name, other ? ", or the --optimizer it was saved with" : "");
}

static bool is_of_rank(const tx__saved *s)
{
    return !strncmp(s->name, TX_CKPT_WORKER, strlen(TX_CKPT_WORKER)) ||
           !strncmp(s->name, TX_CKPT_SERVER, strlen(TX_CKPT_SERVER));
}

/* An optimizer's state is all that there is beside the weights: another's may have the same names and more. */
static tx_status has_no_others(const tx_checkpoint *c, const tx_ckpt_part *part, int n_parts)
{
    for (size_t i = 0; i < c->m.n_saved; i++) {
        const tx__saved *s = &c->m.saved[i];
        bool known = is_of_group(s, TX_CKPT_MODEL) || is_of_rank(s);
        for (int k = 0; k < n_parts; k++) known = known || is_of_group(s, part[k].name);
        if (!known)
            return TX_FAIL(TX_ERR_NOTFOUND,
                           "%s: holds the state of another optimizer (there is %.*s, too); give --no-load-optim or "
                           "--finetune to go on without it, or the --optimizer it was saved with",
                           c->path, (int)strcspn(s->name, "."), s->name);
    }
    return TX_OK;
}

static tx_status compare(const tx_checkpoint *c, const tx_params *ps, const tx_ckpt_part *part, int n_parts,
                         const unsigned char *seen)
{
    differences d = { 0 };
    bool with_state = false;
    tx_status st = TX_OK;
    for (int i = 0; i < n_parts; i++) {
        if (!strcmp(part[i].name, TX_CKPT_MODEL)) continue;
        with_state = true;
        if (tx__part_rows(&part[i], ps)->n) TX_TRY(has_part(c, part[i].name));
    }
    if (with_state) TX_TRY(has_no_others(c, part, n_parts));
    for (int i = 0; i < n_parts && !d.n; i++) /* when the model differs, its optimizer state does so in the same way */
        TX_GOTO(compare_group(c, tx__part_rows(&part[i], ps), part[i].name, seen, &d));
    if (d.n) st = report(c, &d);
out:
    tx_free(d.list);
    tx_hash_free(&d.by_name);
    return st;
}

/* seen [n_saved]: the saved tensors that some rank has a shard of. With the others' behind it, room for all ranks'. */
static tx_status gather_seen(const tx_checkpoint *c, const tx_params *ps, const tx_ckpt_part *part, int n_parts,
                             unsigned char **seen)
{
    size_t n = c->m.n_saved, ranks = (size_t)tx_comm_size(c->group);
    tx_status st = tx_alloc(seen, n + 1, 1 + ranks, "a list of tensors");
    TX_TRY(tx_comm_agree(c->group, st));
    for (int i = 0; i < n_parts; i++) mark_seen(c, ps, part[i].name, *seen);
    unsigned char *all = *seen + n;
    TX_TRY(tx_comm_gather(c->group, all, *seen, n));
    for (size_t i = 0; i < n * ranks; i++) (*seen)[i % n] |= all[i];
    return TX_OK;
}

/* ---- reading ---- */

/* What a saved piece of a tensor has for a box of this rank's shard. @x is element `first` of the shard */
static void copy_common(const tx_checkpoint *c, const tx__saved_piece *from, const tx_param *p,
                        const tx_param_piece *to, int64_t first, float *x)
{
    int64_t lo[2], n[2], width = p->n_dims == 2 ? p->dim[1] : 1;
    for (int k = 0; k < 2; k++) {
        int64_t end_from = from->start[k] + from->size[k], end_to = to->start[k] + to->size[k];
        lo[k] = from->start[k] > to->start[k] ? from->start[k] : to->start[k];
        n[k] = (end_from < end_to ? end_from : end_to) - lo[k];
        if (n[k] <= 0) return;
    }
    const unsigned char *src = tx_safetensors_find(c->shard[from->shard], from->key)->data;
    src += (size_t)((lo[0] - from->start[0]) * from->size[1] + lo[1] - from->start[1]) * sizeof *x;
    float *dst = x + (to->at[0] + lo[0] - to->start[0]) * width + to->at[1] + lo[1] - to->start[1] - first;
    int64_t rows = n[0], cols = n[1];
    if (cols == width && cols == from->size[1]) { /* whole rows lie together */
        cols *= rows;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(dst + r * width, src + (size_t)(r * from->size[1]) * sizeof *x, (size_t)cols * sizeof *x);
}

/* Elements [first, first + n) of a parameter's shard into x. */
static void read_elements(const tx_checkpoint *c, const char *part, const tx_param *p, int64_t first, int64_t n,
                          float *x)
{
    char name[TX__NAME_CAP];
    tx_param_piece piece[TX_PARAM_MAX_PIECES], box[TX__CUT_MAX];
    snprintf(name, sizeof name, "%s.%s", part, p->name);
    const tx__saved *s = tx__manifest_find(&c->m, name);
    for (int n_pieces = tx_param_pieces(p, piece), i = 0; i < n_pieces; i++)
        for (int n_cut = tx__piece_cut(box, p, &piece[i], first, first + n), j = 0; j < n_cut; j++)
            for (size_t k = 0; k < s->n_pieces; k++) copy_common(c, &s->piece[k], p, &box[j], first, x);
    int64_t real = p->numel / p->dim[0] * p->rows_logical - first;
    if (real < n) memset(x + (real > 0 ? real : 0), 0, (size_t)(n - (real > 0 ? real : 0)) * sizeof *x);
}

static void read_flat(const tx_checkpoint *c, const tx_params *all, const tx_fragments *of_all,
                      const tx_ckpt_part *part)
{
    const tx_params *ps = tx__part_rows(part, all);
    const tx_fragments *kept = tx__part_kept(part, of_all);
    int n = tx__fragment_count(ps, kept);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < n; i++) {
        tx_fragment s = tx__fragment_at(ps, kept, i);
        read_elements(c, part->name, &ps->param[s.row], s.first, s.numel, tx__fragment_element(part, ps, &s, s.first));
    }
}

/* @window [TX_CKPT_WINDOW] */
static tx_status read_moved(const tx_checkpoint *c, const tx_params *all, const tx_fragments *of_all,
                            const tx_ckpt_part *part, int part_number, float *window)
{
    const tx_params *ps = tx__part_rows(part, all);
    const tx_fragments *kept = tx__part_kept(part, of_all);
    for (int n = tx__fragment_count(ps, kept), i = 0; i < n; i++) {
        tx_fragment s = tx__fragment_at(ps, kept, i);
        for (int64_t at = s.first, end = s.first + s.numel; at < end; at += TX_CKPT_WINDOW) {
            int64_t k = end - at < TX_CKPT_WINDOW ? end - at : TX_CKPT_WINDOW;
            read_elements(c, part->name, &ps->param[s.row], at, k, window);
            const tx_ckpt_window w = { part_number, &s, at, k, window };
            TX_TRY(part->move(part->user, &w, true));
        }
    }
    return TX_OK;
}

/* The window that numbers go through, if there are any that do. */
static tx_status get_window(float **window, const tx_ckpt_part *part, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        if (!part[i].flat) return tx_alloc(window, TX_CKPT_WINDOW, sizeof **window, "a window of what is loaded");
    return TX_OK;
}

tx_status tx_checkpoint_read(const tx_checkpoint *c, const tx_params *ps, const tx_fragments *kept,
                             const tx_ckpt_part *part, int n_parts)
{
    unsigned char *seen = NULL;
    float *window = NULL;
    double start = tx_clock();
    tx_status st;
    for (int i = 0; i < n_parts; i++) TX_ASSERT(part[i].flat || part[i].move);
    TX_GOTO(gather_seen(c, ps, part, n_parts, &seen));
    st = compare(c, ps, part, n_parts, seen);
    if (!st) st = get_window(&window, part, n_parts);
    TX_GOTO(tx_comm_agree(c->group, st));
    for (int i = 0; i < n_parts && !st; i++) {
        if (part[i].flat)
            read_flat(c, ps, kept, &part[i]);
        else
            st = read_moved(c, ps, kept, &part[i], i, window);
    }
    st = tx_comm_agree(c->group, st);
    if (!st)
        tx_debug("checkpoint: read %lld bytes of %d parts from the %zu files of %s, in %.3f s",
                 (long long)tx_checkpoint_parts_numel(ps, kept, part, n_parts) * (long long)sizeof(float), n_parts,
                 c->m.n_shards, c->path, tx_clock() - start);
out:
    tx_free(window);
    tx_free(seen);
    return st;
}

bool tx_checkpoint_has(const tx_checkpoint *c, const char *part)
{
    for (size_t i = 0; i < c->m.n_saved; i++)
        if (is_of_group(&c->m.saved[i], part)) return true;
    return false;
}

bool tx_checkpoint_tensor(const tx_checkpoint *c, const char *part, const tx_param *p, tx_param *tensor)
{
    char name[TX__NAME_CAP];
    snprintf(name, sizeof name, "%s.%s", part, p->name);
    const tx__saved *s = tx__manifest_find(&c->m, name);
    *tensor = tx_param_shard(p, 1, 0);
    if (!s || fits(s, tensor)) return s != NULL;
    tensor->n_dims = s->n_dims;
    tensor->n_parts = 1;
    tensor->split_dim = -1;
    tensor->numel = 1;
    for (int k = 0; k < 2; k++) tensor->numel *= tensor->dim[k] = tensor->whole[k] = k < s->n_dims ? s->dim[k] : 1;
    tensor->rows_logical = tensor->whole_logical = tensor->dim[0];
    return true;
}

tx_status tx_checkpoint_read_whole(const tx_checkpoint *c, const char *part, const tx_param *p, float *whole)
{
    char name[TX__NAME_CAP];
    snprintf(name, sizeof name, "%s.%s", part, p->name);
    const tx__saved *s = tx__manifest_find(&c->m, name);
    tx_param all = tx_param_shard(p, 1, 0);
    if (!s || !fits(s, &all))
        return TX_FAIL(TX_ERR_SHAPE, "%s: there is no %s in the shape that this model has", c->path, name);
    read_elements(c, part, &all, 0, all.numel, whole);
    for (size_t i = 0; i < s->n_pieces; i++) /* they are read once, one after the other */
        tx_st_forget(tx_safetensors_find(c->shard[s->piece[i].shard], s->piece[i].key));
    return TX_OK;
}
