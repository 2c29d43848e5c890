/* upstream_write.c - ranks, tensors and values of the files that Megatron and DeepSpeed read; the mirror of upstream.c
 * and shards.c. */
#include "convert/upstream_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "optim/deepspeed_schedule.h"
#include "optim/schedule.h"

#define SUB_GROUP_SIZE    1000000000 /* DeepSpeed's default: elements of a data rank's share of a group of ZeRO-3 */
#define EXPERT_GROUP_SIZE 178956971  /* DeepSpeed's: elements of a group of experts at most */

/* ---- ranks ---- */

bool tx__is_tied(const tx_conversion *c)
{
    return tx_params_find(&c->m->params, "output_layer.weight") == NULL;
}

int tx__state_part(const tx_conversion *c, int k)
{
    for (int i = 0; i < c->src->n_parts; i++)
        if (!strcmp(c->src->part[i], tx__optim_of(c)->keeps->state[k].name)) return i;
    return -1;
}

const tx_optim_type *tx__optim_of(const tx_conversion *c)
{
    return tx_optim_type_of(c->src->optimizer);
}

/* "Adam's" or "Adam's, SGD's and Lion's": those whose state a format has a place for. */
static const char *list_holders(char text[128], unsigned trait)
{
    int left = 0;
    size_t n = 0;
    for (int kind = 1; tx_optim_type_at(kind - 1); kind++)
        left += (tx_optimizer_traits((enum tx_optimizer_kind)kind) & trait) != 0;
    text[0] = 0;
    for (int kind = 1; tx_optim_type_at(kind - 1); kind++) {
        if (!(tx_optimizer_traits((enum tx_optimizer_kind)kind) & trait)) continue;
        const char *before = !n ? "" : left == 1 ? " and " : ", ";
        n += (size_t)snprintf(text + n, 128 - n, "%s%s's", before,
                              tx_optimizer_deepspeed_name((enum tx_optimizer_kind)kind));
        left--;
    }
    return text;
}

int tx__n_ep(const tx_conversion *c)
{
    return c->n_ep ? c->n_ep : 1;
}

/* Whether each rank that has it has it whole. */
static bool is_whole(const tx_conversion *c, const tx_param *p)
{
    int64_t layer, expert;
    return !c->expert_tensor && tx__expert_of(p->name, &layer, &expert);
}

unsigned tx__change(const tx_conversion *c, const tx_param *p)
{
    return (p->split_dim >= 0 && c->n_tp > 1 && !is_whole(c, p) ? TX_CHANGE_SPLIT : TX_CHANGE_NONE) |
           (p->whole_logical < p->whole[0] ? TX_CHANGE_PADDED : TX_CHANGE_NONE);
}

tx_status tx__check_layout(const tx_conversion *c, unsigned trait)
{
    TX_TRY(tx_conversion_check(c));
    const char *own = tx_config_not_upstreams(c->cfg);
    if (own)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: has %s, which Megatron-DeepSpeed's models do not and their args have no "
                       "word for",
                       c->src->path, own);
    char names[128];
    if (c->with_optim && !(tx_optimizer_traits(c->src->optimizer) & trait))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: only %s state can be written in this format; leave it out",
                       c->src->path, list_holders(names, trait));
    const json_t *schedule = json_object_get(c->src->run, "opt_param_scheduler");
    if (c->with_optim && json_object_get(schedule, "decoupled_lr"))
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "%s: has a learning rate of its own for the embedding (--decoupled-lr), which this format has no "
            "group for; leave the optimizer's state out",
            c->src->path);
    return TX_OK;
}

tx_status tx__check_dense(const tx_conversion *c)
{
    if (c->m->experts.n_experts == 1) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "%s: has experts (--num-experts), which Megatron's format and universal checkpoints have no place "
                   "for: convert to native, deepspeed or huggingface",
                   c->src->path);
}

tx_status tx__check_engine(const tx_conversion *c)
{
    if (c->m->type->upstream_pipeline || !(c->pipeline || c->n_pp > 1)) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "%s: is a BERT, which DeepSpeed's pipeline engine does not have: leave --target-pp and "
                   "--target-pipeline-engine out, or convert to megatron",
                   c->src->path);
}

/* Stage that has a parameter. */
static int stage_of(const tx_conversion *c, const tx_param *p)
{
    int64_t layer;
    if (sscanf(p->name, "encoder.layers.%" SCNd64 ".", &layer) == 1) return (int)(layer / (c->m->n_layers / c->n_pp));
    return strncmp(p->name, "embedding.", 10) ? c->n_pp - 1 : 0;
}

/* The experts of a layer that one of the ranks which share them has. */
static int64_t experts_each(const tx_conversion *c, int64_t layer)
{
    return tx_config_moe(c->cfg, layer).n_experts / tx__n_ep(c);
}

static void add_row(tx__rank *r, const tx_conversion *c, int row, bool copy)
{
    const tx_param *p = &c->m->params.param[row];
    tx__rank_row *out = &r->row[r->n];
    const bool whole = is_whole(c, p);
    char name[TX_PARAM_NAME_MAX];
    int64_t layer;
    *out = (tx__rank_row){
        .row = row, .copy = copy, .expert = -1, .shard = tx_param_shard(p, whole ? 1 : c->n_tp, whole ? 0 : r->tp)
    };
    snprintf(name, sizeof name, "%s", p->name);
    if (tx__expert_of(name, &layer, &out->expert)) {
        int64_t each = experts_each(c, layer);
        if (out->expert / each != r->ep) return;
        tx__set_expert(name, out->expert % each);
    }
    r->n++;
    if (r->pipeline)
        tx__to_pipeline_name(name, c->m->n_layers, tx__is_tied(c), out->name);
    else if (copy)
        snprintf(out->name, sizeof out->name, "word_embeddings.weight");
    else
        tx__to_megatron_name(name, r->pp * (c->m->n_layers / c->n_pp), out->name);
}

static int by_expert(const void *a, const void *b)
{
    const tx__rank_row *x = a, *y = b;
    return x->expert != y->expert ? (x->expert > y->expert) - (x->expert < y->expert) : x->row - y->row;
}

/* One expert after the other: our table has a matrix of all of a layer before the next. */
static void order_experts(tx__rank *r)
{
    for (int i = 0, n; i < r->n; i += n) {
        for (n = 0; i + n < r->n && r->row[i + n].expert >= 0; n++)
            ;
        if (n) qsort(&r->row[i], (size_t)n, sizeof *r->row, by_expert);
        n += !n;
    }
}

/* The last stage's part of the tied embedding: a pipeline's module has positions there, too. */
static void add_copies(tx__rank *r, const tx_conversion *c)
{
    if (r->pp != c->n_pp - 1 || c->n_pp == 1 || !tx__is_tied(c)) return;
    for (int i = 0; i < c->m->params.n; i++) {
        const char *name = c->m->params.param[i].name;
        if (r->pipeline ? !strncmp(name, "embedding.", 10) : !strcmp(name, "embedding.word_embeddings.weight"))
            add_row(r, c, i, true);
    }
}

static void end_group(tx__rank *r, const tx__group *like, int first, int end)
{
    if (end == first) return;
    tx__group *g = &r->group[r->n_groups++];
    *g = *like;
    g->first = first;
    g->n = end - first;
    for (int i = first; i < end; i++) g->numel += r->row[r->order[i]].shard.numel;
}

/* Experts that one rank has, others of the stage have as well: those whose numbers among all that share experts differ
 * by a multiple of n_ep. */
static tx__group group_of(const tx__rank *r, const tx_conversion *c, bool decay, bool expert)
{
    int n_tp = c->expert_tensor ? 1 : c->n_tp, tp = c->expert_tensor ? 0 : r->tp;
    if (!expert) return (tx__group){ .decay = decay, .n_parts = c->n_dp, .part = r->dp };
    return (tx__group){ .decay = decay,
                        .expert = true,
                        .n_parts = n_tp * c->n_dp / tx__n_ep(c),
                        .part = (r->dp * n_tp + tp) / tx__n_ep(c) };
}

/* The parameters of one sort. Groups of experts are cut, as DeepSpeed does it. */
static int group_sort(tx__rank *r, const tx__group *like, int first)
{
    int n = first;
    int64_t numel = 0;
    for (int i = 0; i < r->n; i++) {
        const tx__rank_row *row = &r->row[i];
        if (tx__decays(row->name, row->shard.n_dims) != like->decay || (row->expert >= 0) != like->expert) continue;
        if (like->expert && numel + row->shard.numel > EXPERT_GROUP_SIZE) {
            end_group(r, like, first, n);
            first = n;
            numel = 0;
        }
        r->order[n++] = i;
        numel += row->shard.numel;
    }
    end_group(r, like, first, n);
    return n;
}

static void group_by_decay(tx__rank *r, const tx_conversion *c)
{
    int n = 0;
    for (int sort = 0; sort < 4; sort++) {
        const tx__group like = group_of(r, c, sort % 2 == 0, sort >= 2);
        n = group_sort(r, &like, n);
    }
}

/* Megatron sees flat parts of parameters when it makes groups with ZeRO-3: nothing decays. */
static void group_divided(tx__rank *r, const tx_conversion *c)
{
    const int n_dp = c->n_dp;
    const tx__group like = group_of(r, c, false, false);
    int64_t share = 0;
    int first = 0;
    for (int i = 0; i < r->n; i++) {
        r->order[i] = i;
        share += (r->row[i].shard.numel + n_dp - 1) / n_dp;
        if (share < SUB_GROUP_SIZE) continue;
        end_group(r, &like, first, i + 1);
        first = i + 1;
        share = 0;
    }
    end_group(r, &like, first, r->n);
}

tx_status tx__rank_open(tx__rank *r, const tx_conversion *c, tx__place at, bool pipeline, bool divided)
{
    const size_t cap = 2 * (size_t)c->m->params.n; /* copies, too */
    tx_status st;
    *r = (tx__rank){ .tp = at.tp, .pp = at.pp, .dp = at.dp, .mp = at.pp * c->n_tp + at.tp, .pipeline = pipeline };
    r->ep = (c->expert_tensor ? at.dp : at.dp * c->n_tp + at.tp) % tx__n_ep(c);
    TX_GOTO(tx_alloc(&r->row, cap, sizeof *r->row, "a list of tensors"));
    TX_GOTO(tx_alloc(&r->order, cap, sizeof *r->order, "a list of tensors"));
    TX_GOTO(tx_alloc(&r->group, cap, sizeof *r->group, "a list of tensors"));
    if (pipeline) add_copies(r, c);
    for (int i = 0; i < c->m->params.n; i++)
        if (stage_of(c, &c->m->params.param[i]) == at.pp) add_row(r, c, i, false);
    if (!pipeline) add_copies(r, c);
    order_experts(r);
    if (divided)
        group_divided(r, c);
    else
        group_by_decay(r, c);
out:
    if (st) tx__rank_close(r);
    return st;
}

void tx__rank_close(tx__rank *r)
{
    tx_free(r->row);
    tx_free(r->order);
    tx_free(r->group);
    *r = (tx__rank){ 0 };
}

/* ---- a file ---- */

struct tx__store {
    struct tx__store *next;
    int n;
    tx__shard_range span[];
};

static void free_file(tx__file *f)
{
    for (struct tx__store *s = f->store, *next; s; s = next) {
        next = s->next;
        tx_free(s);
    }
    tx_py_arena_destroy(f->a);
    json_decref(f->options);
    *f = (tx__file){ 0 };
}

tx_status tx__file_begin(tx__file *f, tx_conversion *c)
{
    tx_status st;
    *f = (tx__file){ .c = c };
    TX_GOTO(tx_config_to_json(c->cfg, &f->options));
    if (c->options && json_object_update(f->options, (json_t *)c->options))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for options");
    if (!st) st = tx_py_arena_create(&f->a);
out:
    if (st) free_file(f);
    return st;
}

static tx_status fetch_span(tx_conversion *c, const tx__shard_range *s, int64_t at, int64_t n, float *x)
{
    const float *whole;
    if (s->row < 0) {
        for (int64_t i = 0; i < n; i++) x[i] = s->value;
        return TX_OK;
    }
    TX_TRY(tx_conversion_fetch(c, s->part, s->row, &whole));
    tx_param_cut_range(s->shard, x, whole, s->first + at, n);
    return TX_OK;
}

/* A tx_pt_fetch. */
static tx_status fetch(void *user, const tx_pt_storage *storage, int64_t first, int64_t n, void *buf)
{
    const struct tx__store *store = storage->source;
    float *x = buf;
    for (int i = 0; i < store->n && n > 0; i++) {
        const tx__shard_range *s = &store->span[i];
        if (first >= s->n) {
            first -= s->n;
            continue;
        }
        int64_t k = s->n - first < n ? s->n - first : n;
        TX_TRY(fetch_span(user, s, first, k, x));
        x += k;
        n -= k;
        first = 0;
    }
    TX_ASSERT(n == 0);
    return TX_OK;
}

tx_status tx__file_end(tx__file *f, const char *dir, const char *name, const tx_py *root)
{
    char path[TX__PATH_CAP];
    tx_status st = tx_path_join(path, sizeof path, dir, name);
    if (!st) st = f->failed ? f->failed : tx_pt_write(path, f->short_of_memory ? NULL : root, fetch, f->c);
    free_file(f);
    return st;
}

tx_py *tx__file_tensor(tx__file *f, tx_pt_dtype dtype, int n_dims, const int64_t *dim, const tx__shard_range *span,
                       int n)
{
    struct tx__store *s;
    int64_t numel = 0;
    if (tx_alloc(&s, 1, sizeof *s + (size_t)n * sizeof *span, "a list of tensors")) return NULL;
    s->next = f->store;
    f->store = s;
    s->n = n;
    if (n) memcpy(s->span, span, (size_t)n * sizeof *span);
    for (int i = 0; i < n; i++) numel += span[i].n;
    return tx_py_of_tensor(f->a, tx_py_storage(f->a, dtype, numel, s), 0, n_dims, dim);
}

tx_py *tx__file_number(tx__file *f, float value)
{
    return tx__file_tensor(f, TX_PT_F32, 0, NULL, &(tx__shard_range){ .row = -1, .n = 1, .value = value }, 1);
}

tx_py *tx__file_ones(tx__file *f, float value)
{
    const int64_t one = 1;
    return tx__file_tensor(f, TX_PT_F32, 1, &one, &(tx__shard_range){ .row = -1, .n = 1, .value = value }, 1);
}

tx_py *tx__file_shard(tx__file *f, tx_pt_dtype dtype, int part, const tx__rank_row *r)
{
    const tx__shard_range all = { .part = part, .row = r->row, .shard = &r->shard, .n = r->shard.numel };
    return tx__file_tensor(f, dtype, r->shard.n_dims, r->shard.dim, &all, 1);
}

tx_pt_dtype tx__weight_dtype(const tx_conversion *c)
{
    return c->dtype == TX_ST_BF16 ? TX_PT_BF16 : c->dtype == TX_ST_F16 ? TX_PT_F16 : TX_PT_F32;
}

/* ---- values ---- */

tx_py *tx__set(tx__file *f, tx_py *dict, const char *key, const tx_py *v)
{
    if (!tx_py_set(f->a, dict, key, v)) f->short_of_memory = true;
    return dict;
}

tx_py *tx__set_at(tx__file *f, tx_py *dict, int64_t key, const tx_py *v)
{
    if (!tx_py_set_int(f->a, dict, key, v)) f->short_of_memory = true;
    return dict;
}

tx_py *tx__append(tx__file *f, tx_py *list, const tx_py *v)
{
    if (!tx_py_append(f->a, list, v)) f->short_of_memory = true;
    return list;
}

tx_py *tx__object(tx__file *f, const char *module, const char *name, const tx_py *args, const tx_py *state)
{
    if (!args && !state) f->short_of_memory = true; /* each of ours has one of them */
    return tx_py_object(f->a, module, name, args ? args : tx_py_tuple(f->a), state);
}

double tx__option(const tx__file *f, const char *name)
{
    return json_number_value(json_object_get(f->options, name));
}

/* ---- the model ---- */

tx_py *tx__torch_size(tx__file *f, const tx_param *p)
{
    tx_py *sizes = tx_py_tuple(f->a);
    for (int i = 0; i < p->n_dims; i++) tx__append(f, sizes, tx_py_of_int(f->a, p->dim[i]));
    return tx__object(f, "torch", "Size", tx__append(f, tx_py_tuple(f->a), sizes), NULL);
}

/* Where in the nested dicts a weight belongs: the last of them is an ordered one, whose keys may have dots. */
enum { MAX_DEPTH = 3 };
static const char *const modules[][MAX_DEPTH + 1] = {
    { "language_model", "embedding", "word_embeddings", NULL },
    { "language_model", "embedding", "position_embeddings", NULL },
    { "language_model", "embedding", "tokentype_embeddings", NULL },
    { "language_model", "encoder", NULL },
    { "language_model", "pooler", NULL },
    { "language_model", "output_layer", NULL },
    { "lm_head", NULL },
    { "binary_head", NULL },
};
enum { N_MODULES = sizeof modules / sizeof modules[0] };

/* Bytes of the name that are the module's, with its last dot; 0: it is another's. */
static size_t in_module(const char *const *module, const char *name)
{
    size_t n = 0;
    for (; *module; module++) {
        size_t len = strlen(*module);
        if (strncmp(name + n, *module, len) || name[n + len] != '.') return 0;
        n += len + 1;
    }
    return n;
}

static tx_py *child(tx__file *f, tx_py *parent, const char *key, bool ordered)
{
    tx_py *dict = (tx_py *)tx_py_get(parent, key);
    if (dict) return dict;
    dict = ordered ? tx_py_ordered_dict(f->a) : tx_py_dict(f->a);
    tx__set(f, parent, key, dict);
    return dict;
}

static void put_weight(tx__file *f, tx_py *model, const char *name, const tx_py *t)
{
    size_t n = 0;
    int i = 0;
    while (i < N_MODULES && !(n = in_module(modules[i], name))) i++;
    TX_ASSERT(i < N_MODULES);
    tx_py *dict = model;
    for (const char *const *m = modules[i]; *m; m++) dict = child(f, dict, *m, !m[1]);
    tx__set(f, dict, name + n, t);
}

tx_py *tx__module(tx__file *f, const tx__rank *r, bool empty, bool head)
{
    const tx_py *words = NULL;
    tx_py *model = tx_py_dict(f->a);
    const tx_pt_dtype dtype = tx__weight_dtype(f->c);
    for (int i = 0; i < r->n; i++) {
        const tx__rank_row *row = &r->row[i];
        const int64_t none = 0;
        if (row->expert >= 0) continue; /* in files of their own */
        const tx_py *t = empty ? tx__file_tensor(f, dtype, 1, &none, NULL, 0) : tx__file_shard(f, dtype, 0, row);
        if (!t) return NULL;
        if (row->copy || !strcmp(f->c->m->params.param[row->row].name, "embedding.word_embeddings.weight")) words = t;
        if (!row->copy) put_weight(f, model, row->name, t);
        head = head || row->copy;
    }
    if (head && words)
        tx__set(f, model, "word_embeddings_for_head", tx__set(f, tx_py_ordered_dict(f->a), "weight", words));
    return model;
}

/* ---- options ---- */

static void set_int(tx__file *f, tx_py *dict, const char *key, int64_t v)
{
    tx__set(f, dict, key, tx_py_of_int(f->a, v));
}

static void set_bool(tx__file *f, tx_py *dict, const char *key, bool v)
{
    tx__set(f, dict, key, tx_py_of_bool(f->a, v));
}

static void set_experts(tx__file *f, tx_py *args)
{
    const tx_conversion *c = f->c;
    const bool some = c->m->experts.n_experts > 1;
    tx_py *list = tx_py_list(f->a);
    for (int i = 0; i < (some ? c->cfg->num_experts.n : 1); i++)
        tx__append(f, list, tx_py_of_int(f->a, some ? strtoll(c->cfg->num_experts.item[i], NULL, 10) : 1));
    tx__set(f, args, "num_experts", list);
    if (!some) return;
    set_int(f, args, "moe_expert_parallel_size", tx__n_ep(c));
    set_bool(f, args, "enable_expert_tensor_parallelism", c->expert_tensor);
    set_bool(f, args, "create_moe_param_group", true);
    for (size_t i = 0; tx__opposites[i][0]; i++)
        set_bool(f, args, tx__opposites[i][1], !json_is_true(json_object_get(f->options, tx__opposites[i][0])));
}

static void set_layout(tx__file *f, tx_py *args)
{
    const tx_conversion *c = f->c;
    set_int(f, args, "encoder_num_layers", c->m->n_layers);
    set_int(f, args, "padded_vocab_size", c->m->vocab_padded);
    set_int(f, args, "tensor_model_parallel_size", c->n_tp);
    set_int(f, args, "pipeline_model_parallel_size", c->n_pp);
    set_int(f, args, "transformer_pipeline_model_parallel_size", c->n_pp);
    set_int(f, args, "data_parallel_size", c->n_dp);
    set_int(f, args, "world_size", (int64_t)c->n_tp * c->n_pp * c->n_dp);
    set_int(f, args, "rank", 0);
    set_int(f, args, "zero_stage", c->zero_stage);
    set_bool(f, args, "bf16", c->dtype == TX_ST_BF16);
    set_bool(f, args, "fp16", c->dtype == TX_ST_F16);
    tx__set(f, args, "params_dtype", tx_py_of_global(f->a, "torch", tx_pt_dtype_name(tx__weight_dtype(c))));
    set_experts(f, args);
}

static void set_run(tx__file *f, tx_py *args)
{
    static const char *const none[] = {
        "vocab_size", "vocab_file", "merge_file", "tokenizer_model", "virtual_pipeline_model_parallel_size",
        "save",       "load"
    };
    const tx_conversion *c = f->c;
    const tx_ckpt_state *s = &c->src->state;
    int64_t keep = c->release ? 0 : 1;
    set_int(f, args, "consumed_train_samples", keep * s->consumed_train_samples);
    set_int(f, args, "consumed_valid_samples", keep * s->consumed_valid_samples);
    set_int(f, args, "consumed_train_tokens", keep * s->consumed_train_tokens);
    set_int(f, args, "iteration", s->iteration);
    if (s->seed) set_int(f, args, "seed", (int64_t)s->seed);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) tx__set(f, args, none[i], tx_py_none(f->a));
}

/* Only BigScience's program has ALiBi, and an enum for it. */
static void set_positions(tx__file *f, tx_py *args)
{
    if (tx_config_positions(f->c->cfg) != TX_POSITIONS_ALIBI) return;
    const tx_py *number = tx__append(f, tx_py_tuple(f->a), tx_py_of_int(f->a, 3));
    tx__set(f, args, "position_embedding_type", tx__object(f, "megatron.enums", "PositionEmbeddingType", number, NULL));
}

tx_py *tx__args(tx__file *f)
{
    static const char *const ours[] = { "pad_vocab_size_to",       "data_order",  "model_type", "post_layernorm",
                                        "position_embedding_type", "no_rope_freq" };
    const char *field;
    json_t *v;
    tx_py *args = tx_py_dict(f->a);
    json_object_foreach(f->options, field, v)
    {
        bool skip = false;
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) skip = skip || !strcmp(field, ours[i]);
        for (int i = 0; f->c->release && tx__run_keys[i]; i++) skip = skip || !strcmp(field, tx__run_keys[i]);
        if (!skip) tx__set(f, args, field, tx_py_of_json(f->a, v));
    }
    if (!json_is_string(json_object_get(f->options, "tokenizer_type")))
        tx__set(f, args, "tokenizer_type", tx_py_of_str(f->a, f->c->m->type->upstream_tokenizer));
    set_layout(f, args);
    set_run(f, args);
    set_positions(f, args);
    tx__rope_to_args(f, args);
    return tx__object(f, "argparse", "Namespace", NULL, args);
}

/* ---- universal_checkpoint_info ---- */

static tx_py *strings(tx__file *f, const char *prefix, const char *const *text)
{
    tx_py *list = tx_py_list(f->a);
    for (; *text; text++) {
        char line[256];
        snprintf(line, sizeof line, "%s%s", prefix, *text);
        tx__append(f, list, tx_py_of_str(f->a, line));
    }
    return list;
}

/* Patterns of upstream's regular expressions, which DeepSpeed's tool wants to be matched all: those of a parameter that
 * the model has. */
static void add_pattern(tx__file *f, tx_py *list, const char *part_of_name, const char *pattern)
{
    const tx_params *ps = &f->c->m->params;
    for (int i = 0; i < ps->n; i++)
        if (strstr(ps->param[i].name, part_of_name)) {
            tx__append(f, list, tx_py_of_str(f->a, pattern));
            return;
        }
}

static tx_py *replicated(tx__file *f, bool pipeline)
{
    static const struct {
        const char *name, *pipeline, *plain;
    } row[] = {
        { ".input_layernorm.weight", "\\d+.input_layernorm.weight",
          "language_model.encoder.layers.\\d+.input_layernorm.weight" },
        { ".post_attention_layernorm.weight", "\\d+.post_attention_layernorm.weight",
          "language_model.encoder.layers.\\d+.post_attention_layernorm.weight" },
        { "final_layernorm.weight", "\\d+.weight", "language_model.encoder.final_layernorm.weight" },
        { "final_layernorm.bias", "\\d+.bias", "language_model.encoder.final_layernorm.bias" },
        { "position_embeddings.weight", NULL, "language_model.embedding.position_embeddings.weight" },
        { ".self_attention.dense.bias", "\\d+.self_attention.dense.bias",
          "language_model.encoder.layers.\\d+.self_attention.dense.bias" },
        { ".mlp.dense_4h_to_h.bias", "\\d+.mlp.dense_4h_to_h.bias",
          "language_model.encoder.layers.\\d+.mlp.dense_4h_to_h.bias" },
        { ".input_layernorm.bias", "\\d+.input_layernorm.bias",
          "language_model.encoder.layers.\\d+.input_layernorm.bias" },
        { ".post_attention_layernorm.bias", "\\d+.post_attention_layernorm.bias",
          "language_model.encoder.layers.\\d+.post_attention_layernorm.bias" },
        { "word_embeddings.norm.weight", NULL, "language_model.embedding.word_embeddings.norm.weight" },
        { "word_embeddings.norm.bias", NULL, "language_model.embedding.word_embeddings.norm.bias" },
        { "tokentype_embeddings.weight", NULL, "language_model.embedding.tokentype_embeddings.weight" },
        { "pooler.", NULL, "language_model.pooler.dense.(weight|bias)" },
        { "lm_head.dense.", NULL, "lm_head.dense.(weight|bias)" },
        { "lm_head.layernorm.", NULL, "lm_head.layernorm.(weight|bias)" },
        { "binary_head.", NULL, "binary_head.(weight|bias)" },
    };
    tx_py *list = tx_py_list(f->a);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char of_embedding[128];
        snprintf(of_embedding, sizeof of_embedding, "%s%s", tx__is_tied(f->c) ? "tied_modules.embed." : "\\d+.",
                 row[i].name);
        const char *in_pipeline = row[i].pipeline ? row[i].pipeline : of_embedding;
        add_pattern(f, list, row[i].name, pipeline ? in_pipeline : row[i].plain);
    }
    return list;
}

/* Matrices: DeepSpeed's tool does not cut a BERT's lm_head.bias, which stays padded. */
static tx_py *vocabulary(tx__file *f, bool pipeline)
{
    static const char *const tied[] = { "tied_modules.embed.word_embeddings.weight", NULL };
    static const char *const untied[] = { "\\d+.word_embeddings.weight", "\\d+.lm_head.weight", NULL };
    static const char *const plain[] = { "language_model.embedding.word_embeddings.weight",
                                         "language_model.output_layer.weight", NULL };
    bool is_tied = tx__is_tied(f->c);
    if (pipeline) return strings(f, "", is_tied ? tied : untied);
    return strings(f, "", is_tied ? (const char *const[]){ plain[0], NULL } : plain);
}

static void set_patterns(tx__file *f, tx_py *info, bool pipeline)
{
    static const char *const rows[] = { "\\d+.mlp.dense_4h_to_h.weight", "\\d+.self_attention.dense.weight", NULL };
    const char *prefix = pipeline ? "" : "language_model.encoder.layers.", *const none[] = { NULL };
    const char *const gated[] = { "\\d+.mlp.dense_h_to_4h.weight",
                                  f->c->cfg->add_bias_linear ? "\\d+.mlp.dense_h_to_4h.bias" : NULL, NULL };
    tx_py *both = tx_py_list(f->a);
    tx__set(f, info, "vocabulary_parameter_patterns", vocabulary(f, pipeline));
    if (pipeline && tx__is_tied(f->c)) {
        add_pattern(f, both, "word_embeddings.weight", "tied_modules.embed.word_embeddings.weight");
        add_pattern(f, both, "word_embeddings.norm.weight", "tied_modules.embed.word_embeddings.norm.weight");
        add_pattern(f, both, "word_embeddings.norm.bias", "tied_modules.embed.word_embeddings.norm.bias");
        add_pattern(f, both, "position_embeddings.weight", "tied_modules.embed.position_embeddings.weight");
    }
    if (pipeline) tx__set(f, info, "pipeline_replicated_parameter_patterns", both);
    if (f->c->n_tp > 1) {
        tx__set(f, info, "tp_replicated_parameter_patterns", replicated(f, pipeline));
        tx__set(f, info, "parameter_with_row_parallelism_patterns", strings(f, prefix, rows));
    }
    bool gate = f->c->n_tp > 1 && f->c->m->mlp_in != f->c->m->ffn;
    tx__set(f, info, "parameter_with_2_sub_params_cat_dim_0", strings(f, prefix, gate ? gated : none));
}

tx_py *tx__universal_info(tx__file *f, bool pipeline, bool patterns)
{
    tx_py *info = tx_py_dict(f->a);
    tx__set(f, info, "universal_checkpoint_version", tx_py_of_float(f->a, 0.4));
    set_int(f, info, "original_vocab_size", f->c->m->vocab_size);
    set_int(f, info, "padded_vocab_size", f->c->m->vocab_padded);
    if (patterns) set_patterns(f, info, pipeline);
    return info;
}

/* ---- the run ---- */

/* Counts are integers in a file, other numbers are not. */
static tx_py *number_of(tx_py_arena *a, const json_t *v)
{
    double x = json_number_value(v);
    return fabs(x) < 9e15 && x == floor(x) ? tx_py_of_int(a, (int64_t)x) : tx_py_of_float(a, x);
}

const tx_py *tx__scheduler(tx__file *f)
{
    static const struct {
        const char *key;
        bool tokens, wsd; /* None where it is 0; only with that style */
    } field[] = {
        { "max_lr", false, false },
        { "lr_warmup_steps", false, false },
        { "lr_warmup_tokens", true, false },
        { "lr_decay_style", false, false },
        { "lr_decay_steps", false, false },
        { "lr_decay_tokens", true, false },
        { "min_lr", false, false },
        { "start_wd", false, false },
        { "end_wd", false, false },
        { "wd_incr_style", false, false },
        { "wd_incr_steps", false, false },
        { "wsd_decay_steps", false, true },
        { "lr_wsd_decay_style", false, true },
    };
    const json_t *saved = json_object_get(f->c->src->run, "opt_param_scheduler");
    const char *style = json_string_value(json_object_get(saved, "lr_decay_style"));
    bool wsd = style && tx_lr_decay_style_of(style) == TX_LR_DECAY_WSD;
    const tx_ckpt_state *s = &f->c->src->state;
    if (!saved) return NULL;
    tx_py *o = tx_py_dict(f->a);
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        const json_t *v = json_object_get(saved, field[i].key);
        if (!v || (field[i].wsd && !wsd)) continue;
        bool none = field[i].tokens && json_number_value(v) <= 0;
        tx__set(f, o, field[i].key,
                none                ? tx_py_none(f->a)
                : json_is_string(v) ? tx_py_of_str(f->a, json_string_value(v))
                                    : number_of(f->a, v));
    }
    set_int(f, o, "num_steps", s->schedule_samples);
    set_int(f, o, "num_tokens", s->schedule_tokens);
    if (s->schedule_warmup_tokens) set_int(f, o, "warmup_num_tokens", s->schedule_warmup_tokens);
    const json_t *last = json_object_get(json_object_get(f->c->src->run, "lr_scheduler"), "last_batch_iteration");
    if (last) set_int(f, o, "last_batch_iteration", json_integer_value(last)); /* all that DeepSpeed's have */
    return o;
}

tx__loss_scale tx__loss_scale_of(const tx__file *f)
{
    const json_t *saved = json_object_get(f->c->src->run, "grad_scaler");
    double fixed = tx__option(f, "loss_scale");
    if (fixed > 0) return (tx__loss_scale){ .scale = fixed };
    if (!saved)
        return (tx__loss_scale){ .dynamic = true,
                                 .scale = tx__option(f, "initial_loss_scale"),
                                 .hysteresis = (int64_t)tx__option(f, "hysteresis") };
    return (tx__loss_scale){ .dynamic = true,
                             .scale = json_number_value(json_object_get(saved, "scale")),
                             .growth = json_integer_value(json_object_get(saved, "growth_tracker")),
                             .hysteresis = json_integer_value(json_object_get(saved, "hysteresis_tracker")) };
}

/* ---- the optimizer ---- */

/* DeepSpeed's schedule of the run, after *steps steps; kind 0: it has none. */
static tx_ds_schedule ds_schedule_of(const tx__file *f, int64_t *steps)
{
    const json_t *saved = json_object_get(f->c->src->run, "lr_scheduler");
    tx_ds_schedule s = { .kind = 0 };
    if (!saved || tx_ds_schedule_from_json(&s, saved) || tx_ds_schedule_steps(saved, steps)) s.kind = 0;
    return s;
}

/* Of the next update: DeepSpeed takes it from here, whatever its scheduler said before. */
static double rate_of(const tx__file *f, bool of_decay)
{
    const tx_ckpt_state *state = &f->c->src->state;
    const tx_schedule_place at = { state->schedule_samples, state->schedule_tokens, state->schedule_warmup_tokens };
    tx_schedule s;
    int64_t steps;
    const tx_ds_schedule ds = ds_schedule_of(f, &steps);
    if (ds.kind && !of_decay) return tx_ds_schedule_lr(&ds, steps);
    if (tx_schedule_from_json(&s, json_object_get(f->c->src->run, "opt_param_scheduler")))
        return tx__option(f, of_decay ? "weight_decay" : "lr");
    return of_decay ? tx_schedule_wd(&s, &at) : tx_schedule_lr(&s, &at);
}

static tx_py *option_of(tx__file *f, const tx_optim_member *m)
{
    tx_py *pair = tx_py_tuple(f->a);
    int64_t steps;
    double betas[2];
    const tx_ds_schedule ds = ds_schedule_of(f, &steps);
    if (!m->option[0]) return tx_py_of_float(f->a, 0);
    const json_t *value = json_object_get(f->options, m->option[0]);
    if (json_is_boolean(value)) return tx_py_of_bool(f->a, json_is_true(value));
    if (!strcmp(m->key, "betas") && ds.kind && tx_ds_schedule_betas(&ds, steps, betas)) {
        tx__append(f, pair, tx_py_of_float(f->a, betas[0]));
        return tx__append(f, pair, tx_py_of_float(f->a, betas[1]));
    }
    if (!m->option[1]) return tx_py_of_float(f->a, tx__option(f, m->option[0]));
    tx__append(f, pair, tx_py_of_float(f->a, tx__option(f, m->option[0])));
    return tx__append(f, pair, tx_py_of_float(f->a, tx__option(f, m->option[1])));
}

/* Members of torch's classes; of apex's and DeepSpeed's fused Adam bias_correction and step. */
tx_py *tx__param_group(tx__file *f, const tx__group *like, int64_t first, int64_t n)
{
    const bool decay = like->decay;
    char of_experts[32];
    static const char *const off[] = { "amsgrad", "maximize", "capturable", "differentiable" };
    tx_py_arena *a = f->a;
    tx_py *g = tx_py_dict(a), *params = tx_py_list(a);
    for (int64_t i = 0; i < n; i++) tx__append(f, params, tx_py_of_int(a, first + i));
    snprintf(of_experts, sizeof of_experts, "ep_size_%d", tx__n_ep(f->c));
    tx__set(f, g, "name", tx_py_of_str(a, like->expert ? of_experts : decay ? "wd_no_scale_lr" : "no_wd_no_scale_lr"));
    if (like->expert) set_bool(f, g, "moe", true);
    tx__set(f, g, "wd_mult", tx_py_of_float(a, decay ? 1 : 0));
    tx__set(f, g, "lr_mult", tx_py_of_float(a, 1));
    tx__set(f, g, "lr", tx_py_of_float(a, rate_of(f, false)));
    for (const tx_optim_member *m = tx__optim_of(f->c)->member; m->key; m++) tx__set(f, g, m->key, option_of(f, m));
    tx__set(f, g, "weight_decay", tx_py_of_float(a, decay ? rate_of(f, true) : 0));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) set_bool(f, g, off[i], false);
    tx__set(f, g, "foreach", tx_py_none(a));
    tx__set(f, g, "fused", tx_py_none(a));
    if (f->c->src->optimizer == TX_OPTIMIZER_ADAM) {
        const json_t *decoupled = json_object_get(f->options, "decoupled_weight_decay");
        set_bool(f, g, "decoupled_weight_decay", !decoupled || json_is_true(decoupled));
        set_bool(f, g, "bias_correction", true);
    }
    if (f->c->src->optimizer == TX_OPTIMIZER_LAMB) {
        const char *by = json_string_value(json_object_get(f->options, "lamb_bias_correction"));
        set_bool(f, g, "bias_correction", !by || tx_lamb_correction_of(by) != TX_LAMB_CORRECT_NONE);
        tx__set(f, g, "max_grad_norm", tx_py_of_float(a, 0)); /* gradients are clipped before */
    }
    if (tx_optimizer_traits(f->c->src->optimizer) & TX_OPTIMIZER_COMPRESSED) {
        set_bool(f, g, "bias_correction", true); /* read and not used */
        tx__set(f, g, "max_grad_norm", tx_py_of_float(a, 0));
    }
    set_int(f, g, "step", f->c->src->state.optim_step);
    return tx__set(f, g, "params", params);
}

/* With ZeRO the class that has another name is the one that DeepSpeed can use: it puts all parameters of a torch
 * Adagrad into one group, and then misses the second. */
tx_py *tx__optim_state(tx__file *f, const tx_py *const *state, int64_t numel)
{
    const tx_optim_type *o = tx__optim_of(f->c);
    const int64_t step = f->c->src->state.optim_step;
    const bool other = f->c->zero_stage && o->other_name[0];
    tx_py *s = tx_py_dict(f->a);
    tx__set(f, s, "step", o->counts || other ? tx_py_of_int(f->a, step) : tx__file_number(f, (float)step));
    for (int k = 0; k < o->keeps->n; k++)
        if (state[k]) tx__set(f, s, other ? o->other_name[k] : o->keeps->state[k].name, state[k]);
    for (const tx_optim_mark *m = o->mark; m->key; m++) set_int(f, s, m->key, m->value ? m->value : numel);
    return s;
}
