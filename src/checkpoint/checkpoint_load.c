/* checkpoint_load.c - opening, verifying and reading a native checkpoint. Nothing is read from a folder whose checksums
 * have not been seen to fit, and nothing is written to the caller's buffers before all shapes have. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"

struct tx_checkpoint {
    char *path;
    tx__manifest m;
    tx_safetensors **shard; /* m.n_shards */
};

/* ---- opening ---- */

static tx_status open_shard(tx_checkpoint *c, size_t i)
{
    char path[TX__PATH_CAP];
    tx_map map;
    TX_TRY(tx_path_join(path, sizeof path, c->path, c->m.shard[i].file));
    TX_TRY(tx_map_open(&map, path));
    tx_status st = tx__shard_verify(&c->m.shard[i], path, &map); /* first: damage is to be called damage */
    if (!st) st = tx_safetensors_open_map(&c->shard[i], path, &map);
    tx_map_close(&map);
    return st;
}

/* Every piece that the manifest promises is there, as promised. */
static tx_status check_pieces(const tx_checkpoint *c)
{
    for (size_t i = 0; i < c->m.n_saved; i++)
        for (size_t k = 0; k < c->m.saved[i].n_pieces; k++) {
            const tx__saved *s = &c->m.saved[i];
            const tx__piece *p = &s->piece[k];
            const tx_st_tensor *t = tx_safetensors_find(c->shard[p->shard], p->key);
            if (!t || t->dtype != TX_ST_F32 || t->n_dims != s->n_dims || t->dim[0] != p->size[0] ||
                (t->n_dims == 2 && t->dim[1] != p->size[1]))
                return TX_FAIL(TX_ERR_FORMAT, "%s/%s: holds no tensor %s as the manifest describes it", c->path,
                               c->m.shard[p->shard].file, p->key);
        }
    return TX_OK;
}

/* iteration < 0: the folder may have any name. */
static tx_status open_folder(tx_checkpoint **out, const char *folder, int64_t iteration)
{
    char manifest[TX__PATH_CAP];
    tx_checkpoint *c;
    TX_TRY(tx_alloc(&c, 1, sizeof *c, "a checkpoint"));
    tx_status st;
    TX_GOTO(tx_memdup0(&c->path, folder, strlen(folder), "a path"));
    TX_GOTO(tx_path_join(manifest, sizeof manifest, folder, TX__MANIFEST_FILE));
    TX_GOTO(tx__manifest_read(&c->m, manifest));
    if (iteration >= 0 && iteration != c->m.state.iteration) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: holds iteration %" PRId64 ", not the one in its folder's name", manifest,
                     c->m.state.iteration);
        goto out;
    }
    TX_GOTO(tx_alloc(&c->shard, c->m.n_shards, sizeof *c->shard, "a list of shards"));
    for (size_t i = 0; i < c->m.n_shards; i++) TX_GOTO(open_shard(c, i));
    TX_GOTO(check_pieces(c));
    *out = c;
    c = NULL;
out:
    tx_checkpoint_close(c);
    return st;
}

tx_status tx_checkpoint_open(tx_checkpoint **out, const char *dir)
{
    tx__place place;
    if (!tx_path_is_dir(dir)) return TX_FAIL(TX_ERR_NOTFOUND, "%s: is not a folder; no checkpoint to load", dir);
    TX_TRY(tx__place_find(dir, &place));
    if (!place.path[0]) return TX_FAIL(TX_ERR_NOTFOUND, "%s: holds no checkpoint of triax", dir);
    if (place.note[0]) tx_warn("%s", place.note);
    return open_folder(out, place.path, place.iteration);
}

tx_status tx_checkpoint_open_newest_good(tx_checkpoint **out, const char *dir)
{
    char first[1024];
    tx_status st = tx_checkpoint_open(out, dir);
    if (!st || st == TX_ERR_NOMEM || !tx_path_is_dir(dir)) return st;
    snprintf(first, sizeof first, "%s", tx_last_error());
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    tx_checkpoint *good = NULL;
    for (int64_t below = INT64_MAX; !good && below >= 0;) { /* names of 8 digits sort before those of 7: go by number */
        int64_t newest = -1, iteration;
        char name[TX__ITER_CAP], path[TX__PATH_CAP];
        for (size_t i = 0; i < names.n; i++)
            if (tx__iter_parse(names.name[i], &iteration) && iteration < below && iteration > newest)
                newest = iteration;
        below = newest;
        if (newest < 0) break;
        tx__iter_name(name, newest);
        if (!tx__has_manifest(dir, name, path)) continue;
        if (open_folder(&good, path, newest)) tx_warn("%s", tx_last_error());
    }
    tx_names_free(&names);
    if (!good) return TX_FAIL(st, "%s", first);
    tx_warn("%s; loading %s instead", first, good->path);
    *out = good;
    return TX_OK;
}

void tx_checkpoint_close(tx_checkpoint *c)
{
    if (!c) return;
    for (size_t i = 0; c->shard && i < c->m.n_shards; i++) tx_safetensors_close(c->shard[i]);
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
    char name[TX__KEY_CAP]; /* numbers replaced by '*', so that 24 layers make one line */
    char saved[64], model[64];
    int count;
} difference;

typedef struct differences {
    difference *list;
    size_t n;
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
    if (param) shape_text(row.model, (int64_t[2]){ param->rows_logical, param->dim[1] }, param->n_dims);
    for (size_t i = 0; i < d->n; i++) {
        difference *e = &d->list[i];
        if (strcmp(e->name, row.name) || strcmp(e->saved, row.saved) || strcmp(e->model, row.model)) continue;
        e->count++;
        return TX_OK;
    }
    TX_TRY(tx_realloc(&d->list, d->n + 1, sizeof *d->list, "a list of differences"));
    d->list[d->n++] = row;
    return TX_OK;
}

/* One error of many lines, a table; it ends where the room for an error's text does. */
static tx_status report(const tx_checkpoint *c, const differences *d)
{
    char text[1560] = "", row[3 * TX_PARAM_NAME_MAX], times[16];
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
    return s->n_dims == p->n_dims && s->dim[0] == p->rows_logical && (p->n_dims == 1 || s->dim[1] == p->dim[1]);
}

static bool is_of_group(const tx__saved *s, const char *group)
{
    size_t n = strlen(group);
    return !strncmp(s->name, group, n) && s->name[n] == '.';
}

static tx_status compare_group(const tx_checkpoint *c, const tx_params *ps, const char *group, differences *d)
{
    char key[TX__KEY_CAP];
    for (int i = 0; i < ps->n; i++) {
        snprintf(key, sizeof key, "%s.%s", group, ps->param[i].name);
        const tx__saved *s = tx__manifest_find(&c->m, key);
        if (!s || !fits(s, &ps->param[i])) TX_TRY(note_difference(d, key, s, &ps->param[i]));
    }
    for (size_t i = 0; i < c->m.n_saved; i++) {
        const tx__saved *s = &c->m.saved[i];
        if (is_of_group(s, group) && !tx_params_find(ps, s->name + strlen(group) + 1))
            TX_TRY(note_difference(d, s->name, s, NULL));
    }
    return TX_OK;
}

static tx_status has_part(const tx_checkpoint *c, const char *name)
{
    bool other = false;
    for (size_t i = 0; i < c->m.n_saved; i++) {
        if (is_of_group(&c->m.saved[i], name)) return TX_OK;
        if (!is_of_group(&c->m.saved[i], TX__MODEL)) other = true;
    }
    const char *what = other ? "holds the state of another optimizer" : "was saved without optimizer state";
    return TX_FAIL(TX_ERR_NOTFOUND, "%s: %s (there is no %s); give --no-load-optim or --finetune to go on without it%s",
                   c->path, what, name, other ? ", or the --optimizer it was saved with" : "");
}

static tx_status compare(const tx_checkpoint *c, const tx_params *ps, const tx_ckpt_part *part, int n_parts)
{
    differences d = { 0 };
    tx_status st;
    for (int i = 0; i < n_parts; i++) TX_TRY(has_part(c, part[i].name));
    TX_GOTO(compare_group(c, ps, TX__MODEL, &d));
    for (int i = 0; i < n_parts && !d.n; i++) /* when the model differs, its optimizer state does so in the same way */
        TX_GOTO(compare_group(c, ps, part[i].name, &d));
    if (d.n) st = report(c, &d);
out:
    tx_free(d.list);
    return st;
}

/* ---- reading ---- */

/* Puts a piece into its place of a row-major tensor. */
static void copy_piece(const tx_checkpoint *c, const tx__saved *s, const tx__piece *p, float *dst)
{
    const unsigned char *src = tx_safetensors_find(c->shard[p->shard], p->key)->data;
    int64_t rows = p->size[0], cols = p->size[1], width = s->dim[1];
    if (cols == width) { /* whole rows lie together */
        cols *= rows;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(dst + (p->start[0] + r) * width + p->start[1], src + (size_t)(r * cols) * 4, (size_t)cols * 4);
}

static void read_group(const tx_checkpoint *c, const tx_params *ps, const char *group, float *flat)
{
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        char key[TX__KEY_CAP];
        snprintf(key, sizeof key, "%s.%s", group, p->name);
        const tx__saved *s = tx__manifest_find(&c->m, key);
        for (size_t k = 0; k < s->n_pieces; k++) copy_piece(c, s, &s->piece[k], flat + p->offset);
        int64_t real = p->numel / p->dim[0] * p->rows_logical;
        memset(flat + p->offset + real, 0, (size_t)(p->numel - real) * sizeof *flat);
    }
}

tx_status tx_checkpoint_read(const tx_checkpoint *c, const tx_params *ps, float *value, const tx_ckpt_part *part,
                             int n_parts)
{
    TX_TRY(compare(c, ps, part, n_parts));
    read_group(c, ps, TX__MODEL, value);
    for (int i = 0; i < n_parts; i++) read_group(c, ps, part[i].name, part[i].flat);
    return TX_OK;
}
