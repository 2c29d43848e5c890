/* source.c - opens what --load names, in whichever format it is, and reads parameters from it. */
#include "convert/source.h"
#include "convert/meant_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "optim/optim.h"

#define TYPE_OF(constant, word, kind, what, sign, source, sink) [constant] = &source,
static const tx_source_type *const types[] = { TX_FORMATS(TYPE_OF) };

const tx_source_type *tx_source_type_of(enum tx_checkpoint_format format)
{
    return types[format];
}

/* ---- opening ---- */

/* How --load is to be read. */
typedef struct reading {
    const char *dir, *tag;      /* tag NULL: what `latest` says */
    const tx_source_type *type; /* NULL: any */
    bool newest_good, unverified;
    const char *base; /* of an adapter */
    bool by_flag;     /* --load named it: errors say so */
} reading;

static reading reading_of(const tx_config *cfg)
{
    return (reading){ .dir = cfg->load,
                      .tag = cfg->load_tag,
                      .type = cfg->universal_checkpoint ? &tx_source_universal : NULL,
                      .newest_good = cfg->load_latest_good,
                      .unverified = cfg->no_verify_load,
                      .base = cfg->lora_base,
                      .by_flag = true };
}

/* The folder that is asked for. */
static tx_status name_folder(tx_source *src, const reading *r, tx_comm *group)
{
    *src = (tx_source){
        .dir = r->dir, .group = group, .newest_good = r->newest_good, .unverified = r->unverified, .base = r->base
    };
    if (r->tag) return tx_path_join(src->folder, sizeof src->folder, r->dir, r->tag);
    if (strlen(r->dir) >= sizeof src->folder)
        return TX_FAIL(TX_ERR_ARG, "--load %.60s...: the path is too long", r->dir);
    memcpy(src->folder, r->dir, strlen(r->dir) + 1);
    return TX_OK;
}

/* What of the files nobody can vouch for, or shall. */
static void say_unchecked(const tx_source *src)
{
    const tx_pt *first = NULL;
    char more[64] = "";
    size_t n = src->type->unchecked ? src->type->unchecked(src, &first) : 0;
    if (tx_comm_rank(src->group)) return;
    if (n > 1) snprintf(more, sizeof more, ", as are those of %zu more", n - 1);
    if (n) tx_warn("%s %s: its numbers are taken as they are%s", tx_pt_path(first), tx_pt_unchecked(first), more);
    if (src->unverified && src->type->verify) tx_info(" checksums of %s are not compared: --no-verify-load", src->path);
}

/* kind and folder are rank 0's, and so is st, which says whether it could be found out. */
static tx_status open_kind(tx_source *src, tx_ckpt_kind kind, tx_status st)
{
    TX_TRY(tx_comm_agree(src->group, st));
    TX_TRY(tx_comm_spread(src->group, &kind, sizeof kind, 0));
    TX_TRY(tx_comm_spread(src->group, src->folder, sizeof src->folder, 0));
    if (kind == TX_CKPT_NONE || kind == TX_CKPT_UNKNOWN) return TX_OK;
    src->type = tx_source_type_of((enum tx_checkpoint_format)kind);
    st = src->type->open(src); /* a native one agrees by itself, once more does no harm */
    st = tx_comm_agree(src->group, st);
    if (st) {
        tx_source_close(src);
        return st;
    }
    tx_info(" loading %s from %s", src->type->title, src->path);
    say_unchecked(src);
    return TX_OK;
}

/* What the folder holds; where the newest good one is wanted, `latest` need not be. */
static tx_status probe(tx_ckpt_kind *kind, const char *folder, const reading *r, char *detail, size_t cap)
{
    *kind = r->type ? (tx_ckpt_kind)r->type->format : TX_CKPT_NATIVE;
    if (r->type || (r->newest_good && tx_checkpoint_is_any_in(folder))) return TX_OK;
    return tx_checkpoint_probe(folder, kind, detail, cap);
}

/* "user/model", as huggingface.co names its models, where there is not even a folder "user". */
static bool is_hub_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    char user[128];
    size_t n = strspn(name, letters);
    if (!n || n >= sizeof user || name[n] != '/' || name[0] == '.') return false;
    const char *model = name + n + 1;
    if (!*model || *model == '.' || strspn(model, letters) != strlen(model)) return false;
    memcpy(user, name, n);
    user[n] = 0;
    return !tx_path_exists(user) && !tx_path_exists(name);
}

static tx_status fail_hub_name(const reading *r)
{
    return TX_FAIL(
        TX_ERR_NOTFOUND,
        "%s%s: there is no such folder, and nothing is downloaded; if it is a model of Hugging Face's, put "
        "config.json, model.safetensors (or pytorch_model.bin) and its tokenizer (tokenizer.json, or vocab.json "
        "and merges.txt) from https://huggingface.co/%s/tree/main into a folder, and give that",
        r->by_flag ? "--load " : "", r->dir, r->dir);
}

/* Of rank 0: the folder that is meant. */
static tx_status find_folder(tx_source *src)
{
    char meant[sizeof src->folder];
    TX_TRY(tx__meant_step(meant, sizeof meant, src->folder));
    memcpy(src->folder, meant, sizeof meant);
    return TX_OK;
}

static tx_status find_kind(tx_ckpt_kind *kind, tx_source *src, const reading *r)
{
    char detail[512], beside[256];
    TX_TRY(find_folder(src));
    TX_TRY(probe(kind, src->folder, r, detail, sizeof detail));
    if (*kind != TX_CKPT_NONE && *kind != TX_CKPT_UNKNOWN) return TX_OK;
    if (!r->tag && is_hub_name(src->folder)) return fail_hub_name(r);
    tx__steps_beside(beside, sizeof beside, src->folder);
    if (!r->by_flag) return TX_FAIL(TX_ERR_NOTFOUND, "%s%s", detail, beside);
    return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s%s", src->folder, detail, beside);
}

static tx_status open_source(tx_source *src, const reading *r, tx_comm *group)
{
    tx_ckpt_kind kind = TX_CKPT_NONE;
    TX_TRY(name_folder(src, r, group));
    tx_status st = tx_comm_rank(group) ? TX_OK : find_kind(&kind, src, r); /* first: arguments have no order */
    return open_kind(src, kind, st);
}

/* Names --load-latest-good where it would find another checkpoint than the one that cannot be opened. By itself, on the
 * ranks that know what is wrong: the job ends. */
static tx_status name_other(const reading *r, tx_status st)
{
    char why[2048], path[1024];
    if (st == TX_ERR_COMM || st == TX_ERR_NOMEM || r->newest_good || r->tag || r->type) return st;
    snprintf(why, sizeof why, "%s", tx_last_error());
    if (tx_checkpoint_other(path, sizeof path, r->dir))
        return TX_FAIL(st, "%s; --load-latest-good would take %s", why, path);
    return TX_FAIL(st, "%s", why);
}

tx_status tx_source_open(tx_source *src, const char *dir, const tx_source_type *type, tx_comm *group)
{
    const reading r = { .dir = dir, .type = type };
    return open_source(src, &r, group);
}

tx_status tx_source_open_with(tx_source *src, const tx_config *cfg, const char *dir, const tx_source_type *type,
                              tx_comm *group)
{
    const reading r = { .dir = dir, .type = type, .unverified = cfg->no_verify_load, .base = cfg->lora_base };
    return open_source(src, &r, group);
}

tx_status tx_source_open_unverified(tx_source *src, const char *dir, const tx_source_type *type, tx_comm *group)
{
    const reading r = { .dir = dir, .type = type, .unverified = true };
    return open_source(src, &r, group);
}

tx_status tx_source_open_just_written(tx_source *src, const char *dir)
{
    const reading r = { .dir = dir };
    TX_TRY(name_folder(src, &r, &tx_comm_self));
    src->type = &tx_source_native;
    src->just_written = true;
    tx_status st = src->type->open(src);
    if (st) tx_source_close(src);
    return st;
}

tx_status tx_source_open_options(tx_source *src, const tx_config *cfg, tx_comm *group)
{
    const reading r = reading_of(cfg);
    tx_status st = open_source(src, &r, group);
    return st ? name_other(&r, st) : TX_OK;
}

static tx_status find_kind_for_run(tx_ckpt_kind *kind, tx_source *src, const reading *r, const tx_config *cfg)
{
    char detail[512], beside[256];
    TX_TRY(find_folder(src));
    TX_TRY(probe(kind, src->folder, r, detail, sizeof detail));
    if (*kind != TX_CKPT_NONE && *kind != TX_CKPT_UNKNOWN) return TX_OK;
    if (cfg->exit_on_missing_checkpoint)
        return TX_FAIL(TX_ERR_NOTFOUND, "--load %s: %s, and --exit-on-missing-checkpoint is given", cfg->load, detail);
    bool own = cfg->save && tx_path_is_same(cfg->load, cfg->save);
    if (!own && !r->tag && is_hub_name(src->folder)) return fail_hub_name(r);
    tx__steps_beside(beside, sizeof beside, src->folder);
    if (r->tag || !own)
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "--load %s: %s%s; name a checkpoint, or leave --load out to start from fresh weights "
                       "(a --load that equals --save may have none at the first start)",
                       cfg->load, detail, beside);
    tx_info(" starting from fresh weights: --load is the same folder as --save and %s", detail);
    return TX_OK;
}

tx_status tx_source_open_for_run(tx_source *src, const tx_config *cfg, tx_comm *group)
{
    tx_ckpt_kind kind = TX_CKPT_NONE;
    const reading r = reading_of(cfg);
    *src = (tx_source){ .type = NULL };
    if (!cfg->load) return TX_OK;
    TX_TRY(name_folder(src, &r, group));
    tx_status st = tx_comm_rank(group) ? TX_OK : find_kind_for_run(&kind, src, &r, cfg);
    st = open_kind(src, kind, st);
    return st ? name_other(&r, st) : TX_OK;
}

void tx_source_close(tx_source *src)
{
    if (src->type) src->type->close(src);
    if (!src->native) json_decref(src->run);
    tx_free(src->theirs);
    tx_free(src->path);
    *src = (tx_source){ .type = NULL };
}

/* ---- options ---- */

tx_status tx_source_require_own_model(const tx_source *src)
{
    const char *client = json_string_value(json_object_get(src->run, TX_CLIENT_MODEL));
    if (!client) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s is of the model %s, which only the program that trains it knows", src->path,
                   client);
}

tx_status tx_source_options(tx_source *src, tx_config *cfg, bool resume)
{
    json_t *all = NULL, *options = NULL;
    tx_status st;
    if (!src->type) return TX_OK;
    if (cfg->command->id != TX_COMMAND_ENGINE) TX_TRY(tx_source_require_own_model(src));
    unsigned which = TX_KEPT_SHAPE | TX_KEPT_HINT | (resume && !cfg->finetune ? TX_KEPT_RUN : 0);
    TX_GOTO(tx_config_to_json(cfg, &all));
    TX_GOTO(src->type->options(src, all, &options));
    TX_GOTO(tx_config_from_json(cfg, options, which));
    st = tx_config_complete(cfg);
out:
    json_decref(options);
    json_decref(all);
    return st;
}

/* What a checkpoint of our own keeps of it. */
static tx_status same_tokenizer(const tx_source *src, const char *hash)
{
    tx_ckpt_tokenizer own = { .n_files = 0 };
    if (!src->native || !*hash) return TX_OK;
    TX_TRY(tx_checkpoint_tokenizer(src->native, false, &own));
    bool same = !*own.hash || !strcmp(own.hash, hash);
    tx_ckpt_tokenizer_free(&own);
    if (same) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE,
                   "--load-teacher %s: was trained with another tokenizer than the student's: its tokens "
                   "mean something else",
                   src->dir);
}

tx_status tx_source_teacher(tx_config *cfg, const char *tokenizer, tx_comm *group)
{
    tx_source src = { 0 };
    json_t *all = NULL, *options = NULL;
    if (!tx_config_has_teacher(cfg) || !cfg->load_teacher) return TX_OK;
    tx_status st = tx_source_open_unverified(&src, cfg->load_teacher, NULL, group);
    if (st) return tx_fail_prefix(st, "--load-teacher");
    TX_GOTO(tx_source_require_own_model(&src));
    TX_GOTO(same_tokenizer(&src, tokenizer));
    TX_GOTO(tx_config_to_json(cfg, &all));
    TX_GOTO(src.type->options(&src, all, &options));
    json_decref(cfg->teacher);
    cfg->teacher = json_incref(options);
    st = TX_OK;
out:
    json_decref(options);
    json_decref(all);
    tx_source_close(&src);
    return tx_comm_agree(group, st);
}

/* ---- the native format ---- */

/* A buffer of an optimizer, if it is there and another optimizer has not the same. */
static void add_state(tx_source *src, const char *name)
{
    bool known = false;
    for (int i = 0; i < src->n_parts; i++) known = known || !strcmp(src->part[i], name);
    if (!known && src->n_parts < TX_CKPT_MAX_PARTS && tx_checkpoint_has(src->native, name))
        src->part[src->n_parts++] = name;
}

/* Whether the buffers are all of an optimizer's and no others. */
static bool has_buffers_of(const tx_source *src, const tx_optim_type *o)
{
    int n = 0;
    for (int k = 0; k < o->keeps->n; k++)
        for (int i = 1; i < src->n_parts; i++) n += !strcmp(src->part[i], o->keeps->state[k].name);
    return n && n == o->keeps->n && n == src->n_parts - 1;
}

/* The one that the options name, if the buffers are its: two may have the same names. */
static void find_optimizer(tx_source *src)
{
    const char *word = json_string_value(json_object_get(src->run, "optimizer"));
    enum tx_optimizer_kind named = word ? tx_optimizer_kind_of(word) : (enum tx_optimizer_kind)0;
    const tx_optim_type *o;
    for (int i = 0; (o = tx_optim_type_at(i)) && !src->optimizer; i++)
        if (has_buffers_of(src, o)) src->optimizer = (enum tx_optimizer_kind)(i + 1);
    if (named && has_buffers_of(src, tx_optim_type_of(named))) src->optimizer = named;
}

static tx_status open_native(tx_source *src)
{
    TX_TRY(src->just_written  ? tx_checkpoint_open_just_written(&src->native, src->folder)
           : src->newest_good ? tx_checkpoint_open_newest_good(&src->native, src->folder, src->group)
                              : tx_checkpoint_open(&src->native, src->folder, src->group));
    const char *path = tx_checkpoint_path(src->native);
    TX_TRY(tx_memdup0(&src->path, path, strlen(path), "a path"));
    src->state = *tx_checkpoint_state(src->native);
    src->vocab_size = src->state.vocab_size;
    const json_t *rank = json_object_get(tx_checkpoint_config(src->native), "lora_rank");
    src->has_adapters = json_is_integer(rank) && json_integer_value(rank) > 0;
    src->run = (json_t *)tx_checkpoint_config(src->native);
    src->part[src->n_parts++] = TX_CKPT_MODEL;
    const tx_optim_type *o;
    for (int i = 0; (o = tx_optim_type_at(i)); i++)
        for (int k = 0; k < o->keeps->n; k++) add_state(src, o->keeps->state[k].name);
    find_optimizer(src);
    return TX_OK;
}

static void close_native(tx_source *src)
{
    tx_checkpoint_close(src->native);
}

static tx_status native_options(tx_source *src, const json_t *all, json_t **out)
{
    (void)all;
    *out = json_incref((json_t *)tx_checkpoint_config(src->native));
    return TX_OK;
}

static tx_status read_native(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole)
{
    (void)m;
    return tx_checkpoint_read_whole(src->native, src->part[part], p, whole);
}

const tx_source_type tx_source_native = {
    .format = TX_FORMAT_NATIVE,
    .title = "checkpoint",
    .resumes = true,
    .open = open_native,
    .close = close_native,
    .options = native_options,
    .read = read_native,
};

/* ---- reading ---- */

static tx_status find_part(const tx_source *src, const char *name, int *number)
{
    for (*number = 0; *number < src->n_parts; ++*number)
        if (!strcmp(src->part[*number], name)) return TX_OK;
    return TX_FAIL(TX_ERR_NOTFOUND,
                   "%s: holds no state of this optimizer (there is no %s); give --no-load-optim or --finetune to go on "
                   "without it",
                   src->path, name);
}

bool tx_source_tensor(const tx_source *src, int part, const tx_param *p, tx_param *tensor)
{
    if (src->native) return tx_checkpoint_tensor(src->native, src->part[part], p, tensor);
    *tensor = tx_param_shard(p, 1, 0);
    if (!part || !src->optimizer) return true;
    const tx_optim_keeps *keeps = tx_optim_type_of(src->optimizer)->keeps;
    if (keeps->state[part - 1].of != TX_STATE_OF_TENSORS) return true;
    tensor->n_dims = 1;
    tensor->numel = tensor->dim[0] = tensor->dim[1] = tensor->whole[0] = tensor->whole[1] = 1;
    tensor->rows_logical = tensor->whole_logical = 1;
    tensor->n_parts = 1;
    tensor->split_dim = -1;
    return true;
}

tx_status tx_source_read_whole(tx_source *src, const tx_model *m, int part, const tx_param *p, float *whole)
{
    TX_TRY(src->type->read(src, m, part, p, whole));
    return src->merges && !part ? tx__merge_adapters(src, p, whole) : TX_OK;
}

tx_status tx_source_verify(const tx_source *src, uint64_t *bytes, size_t *n_files)
{
    *bytes = 0;
    *n_files = 0;
    return src->type->verify ? src->type->verify(src, bytes, n_files) : TX_OK;
}

tx_status tx_source_set_version(tx_source *src, int version)
{
    if (src->type->set_version) {
        src->type->set_version(src, version);
        return TX_OK;
    }
    return TX_FAIL(TX_ERR_ARG, "%s: --source-checkpoint-version is for Megatron's and DeepSpeed's folders", src->dir);
}

/* What is read into. */
typedef struct target {
    const tx_params *ps;
    const tx_fragments *kept; /* NULL: every row whole */
    const tx_ckpt_part *part;
    int n_parts;
    float *whole, *window; /* owned; a parameter that is being read, and a window of what is kept of it */
} target;

/* A fragment of the parameter in t->whole, into part k. */
static tx_status give_fragment(const target *t, int k, const tx_fragment *s)
{
    const tx_param *p = &t->ps->param[s->row];
    const tx_ckpt_part *part = &t->part[k];
    if (part->flat) {
        float *x = part->whole ? part->flat + p->offset + s->first : part->flat + s->at;
        tx_param_cut_range(p, x, t->whole, s->first, s->numel);
        return TX_OK;
    }
    for (int64_t at = s->first, end = s->first + s->numel; at < end; at += TX_CKPT_WINDOW) {
        int64_t n = end - at < TX_CKPT_WINDOW ? end - at : TX_CKPT_WINDOW;
        tx_param_cut_range(p, t->window, t->whole, at, n);
        TX_TRY(part->move(part->user, &(tx_ckpt_window){ k, s, at, n, t->window }, true));
    }
    return TX_OK;
}

/* What is kept of row `row`, in order. */
static tx_status give_row(const target *t, int k, int row)
{
    if (!t->kept) {
        const tx_param *p = &t->ps->param[row];
        return give_fragment(t, k, &(tx_fragment){ .row = row, .numel = p->numel, .at = p->offset });
    }
    for (int i = 0; i < t->kept->n; i++)
        if (t->kept->fragment[i].row == row) TX_TRY(give_fragment(t, k, &t->kept->fragment[i]));
    return TX_OK;
}

static bool is_kept(const tx_fragments *kept, int row)
{
    for (int i = 0; kept && i < kept->n; i++)
        if (kept->fragment[i].row == row) return true;
    return !kept;
}

/* Buffers of the source are all asked for, or none: another optimizer may have some of the same names. */
static tx_status is_all_state(const tx_source *src, const tx_ckpt_part *part, int n_parts)
{
    for (int i = 1; i < src->n_parts && n_parts > 1; i++) {
        bool known = false;
        for (int k = 0; k < n_parts; k++) known = known || !strcmp(src->part[i], part[k].name);
        if (!known)
            return TX_FAIL(TX_ERR_NOTFOUND,
                           "%s: holds the state of another optimizer (there is %s, too); give --no-load-optim or "
                           "--finetune to go on without it, or the --optimizer it was saved with",
                           src->path, src->part[i]);
    }
    return TX_OK;
}

/* A part may have tensors of its own: then a target of that. */
static target target_of(const target *t, int k)
{
    target own = *t;
    if (t->part[k].rows) own.ps = t->part[k].rows, own.kept = t->part[k].kept;
    return own;
}

static tx_status read_parts(tx_source *src, const tx_model *m, const target *all)
{
    for (int k = 0; k < all->n_parts; k++) {
        const target t = target_of(all, k);
        int number;
        TX_TRY(find_part(src, t.part[k].name, &number));
        for (int i = 0; i < t.ps->n; i++) {
            if (!is_kept(t.kept, i)) continue;
            TX_TRY(tx_source_read_whole(src, m, number, &t.ps->param[i], t.whole));
            TX_TRY(give_row(&t, k, i));
        }
    }
    return TX_OK;
}

tx_status tx_source_check(tx_source *src, const tx_model *m)
{
    return src->type->check ? src->type->check(src, m) : TX_OK;
}

tx_status tx_source_read(tx_source *src, const tx_model *m, const tx_fragments *kept, const tx_ckpt_part *part,
                         int n_parts)
{
    target t = { .ps = &m->params, .kept = kept, .part = part, .n_parts = n_parts };
    int number;
    if (src->native) return tx_checkpoint_read(src->native, &m->params, kept, part, n_parts);
    TX_TRY(tx_source_check(src, m));
    tx_status st = TX_OK;
    for (int k = 0; k < n_parts && !st; k++) st = find_part(src, part[k].name, &number);
    if (!st) st = is_all_state(src, part, n_parts);
    if (!st) st = tx_alloc(&t.whole, (size_t)tx_params_largest_whole(&m->params), sizeof *t.whole, "a tensor");
    if (!st) st = tx_alloc(&t.window, TX_CKPT_WINDOW, sizeof *t.window, "a window of what is loaded");
    TX_GOTO(tx_comm_agree(src->group, st));
    st = tx_comm_agree(src->group, read_parts(src, m, &t));
out:
    tx_free(t.window);
    tx_free(t.whole);
    return st;
}

tx_status tx_source_weights(tx_source *src, const tx_model *m, float *value)
{
    const tx_ckpt_part weights = { .name = TX_CKPT_MODEL, .flat = value, .whole = true };
    return tx_source_read(src, m, NULL, &weights, 1);
}
