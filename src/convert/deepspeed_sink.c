/* deepspeed_sink.c - a folder that DeepSpeed loads for Megatron-DeepSpeed; the mirror of deepspeed_source.c, which has
 * the picture. What each stage of ZeRO keeps of the numbers of a group, at data rank 1 of 3:
 *
 *      stage                          numbers of the group, flat
 *      0, fp32 and fp16               none: the optimizer's state is in the model's files
 *      1, 2; 0 with bf16              |  part 0  | PART 1 .. |  part 2 0|    even parts; 0: padding to twice the ranks
 *      3, each parameter by itself    |0|1|2|     |0|1|20|   |0|1|2|         parts of ceil(n / ranks) elements
 *
 *  Experts are in files of their own, and in groups of their own, which the ranks divide that have the same ones. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "convert/deepspeed_write.h"

/* ---- ZeRO 1 and 2, and bf16 without ZeRO ---- */

/* Which part of which parameter lies where in a rank's part of a group. */
static tx_py *slices(tx__file *f, const tx__rank *r, const tx__group *g, int64_t begin, int64_t end)
{
    tx_py *all = tx_py_ordered_dict(f->a);
    int64_t at = 0;
    for (int i = 0; i < g->n; i++) {
        const tx__rank_row *row = &r->row[r->order[g->first + i]];
        int64_t from = at > begin ? at : begin, to = at + row->shard.numel < end ? at + row->shard.numel : end;
        at += row->shard.numel;
        if (from >= to) continue;
        tx_py *address = tx_py_dict(f->a);
        tx__set(f, address, "numel", tx_py_of_int(f->a, to - from));
        tx__set(f, address, "start", tx_py_of_int(f->a, from - begin));
        tx__set(f, all, row->name, tx__object(f, "deepspeed.utils.tensor_fragment", "fragment_address", NULL, address));
    }
    return all;
}

/* With ZeRO the masters are without padding, moments have it. */
static tx_py *even_state(tx__file *f, const tx__rank *r)
{
    const tx_conversion *c = f->c;
    tx_py_arena *a = f->a;
    tx_py *o = tx__ds_global_state(f, r), *base = tx_py_dict(a), *state = tx_py_dict(a);
    tx_py *masters = tx_py_list(a), *mappings = tx_py_list(a);
    for (int i = 0; i < r->n_groups; i++) {
        const tx__group *g = &r->group[i];
        int64_t part = tx__ds_padded(g) / g->n_parts, begin = g->part * part, end = begin + part;
        int64_t real = end < g->numel || !c->zero_stage ? end : begin < g->numel ? g->numel : begin;
        tx__set_at(f, state, i, tx__ds_flat_state(f, r, g, begin, end));
        tx__append(f, masters, tx__ds_flat(f, r, g, 0, begin, real));
        tx__append(f, mappings, slices(f, r, g, begin, end));
    }
    tx__set(f, base, "state", state);
    tx__set(f, base, "param_groups", tx__ds_param_groups(f, r));
    tx__set(f, o, "base_optimizer_state", base);
    tx__set(f, o, "single_partition_of_fp32_groups", masters);
    return tx__set(f, o, "param_slice_mappings", mappings);
}

/* ---- ZeRO 3 ---- */

static tx_py *divided_flat(tx__file *f, const tx__rank *r, const tx__group *g, int part, int dp)
{
    tx__shard_range *span;
    int n = 0;
    int64_t numel = 0;
    if (tx_alloc(&span, 2 * (size_t)g->n, sizeof *span, "a list of tensors")) return NULL;
    for (int i = 0; i < g->n; i++) {
        const tx__rank_row *row = &r->row[r->order[g->first + i]];
        int64_t each = (row->shard.numel + f->c->n_dp - 1) / f->c->n_dp, left = row->shard.numel - dp * each;
        int64_t mine = left < 0 ? 0 : left < each ? left : each;
        if (mine)
            span[n++] =
                (tx__shard_range){ .part = part, .row = row->row, .shard = &row->shard, .first = dp * each, .n = mine };
        if (mine < each) span[n++] = (tx__shard_range){ .row = -1, .n = each - mine };
        numel += each;
    }
    tx_py *t = tx__file_tensor(f, TX_PT_F32, 1, &numel, span, n);
    tx_free(span);
    return t;
}

static tx_py *divided_state(tx__file *f, const tx__rank *r)
{
    tx_py_arena *a = f->a;
    tx_py *o = tx__ds_global_state(f, r), *inner = tx_py_dict(a), *state = tx_py_dict(a), *flat = tx_py_list(a);
    for (int i = 0; i < r->n_groups; i++) {
        const tx__group *g = &r->group[i];
        const tx_py *one[TX_OPTIM_MAX_STATE];
        for (int k = 0; k < tx__optim_of(f->c)->keeps->n; k++)
            one[k] = divided_flat(f, r, g, tx__state_part(f->c, k), r->dp);
        tx__set_at(f, state, i, tx__optim_state(f, one, g->numel));
        tx__append(f, flat, divided_flat(f, r, g, 0, r->dp));
    }
    tx__set(f, inner, "state", state);
    tx__set(f, inner, "param_groups", tx__ds_param_groups(f, r));
    tx__set(f, o, "optimizer_state_dict", inner);
    return tx__set(f, o, "fp32_flat_groups", flat);
}

/* ---- files ---- */

static tx_status write_optimizer(tx_conversion *c, const char *dir, const tx__rank *r)
{
    char name[96];
    tx__file f;
    snprintf(name, sizeof name, "%szero_pp_rank_%d_mp_rank_%02d_optim_states.pt", c->dtype == TX_ST_BF16 ? "bf16_" : "",
             r->dp, r->mp);
    TX_TRY(tx__file_begin(&f, c));
    tx_py *root = tx_py_dict(f.a);
    tx__set(&f, root, "optimizer_state_dict", c->zero_stage == 3 ? divided_state(&f, r) : even_state(&f, r));
    tx__set(&f, root, "ds_config", tx__ds_config(&f));
    tx__set(&f, root, "ds_version", tx_py_of_str(f.a, TX__DS_VERSION));
    return tx__file_end(&f, dir, name, root);
}

/* Layer of a pipeline's name, and what stands behind it. The tied embedding is in layer 1. */
static int layer_of(const char *name, const char **rest)
{
    static const char tied[] = "tied_modules.embed.";
    int layer, end;
    if (!strncmp(name, tied, sizeof tied - 1)) {
        *rest = name + sizeof tied - 1;
        return 1;
    }
    int got = sscanf(name, "%d.%n", &layer, &end);
    TX_ASSERT(got == 1);
    *rest = name + end;
    return layer;
}

/* A file for each run of rows that are in one layer. */
static tx_status write_layers(tx_conversion *c, const char *dir, const tx__rank *r)
{
    for (int i = 0; i < r->n;) {
        char name[64];
        const char *rest;
        tx__file f;
        int layer = layer_of(r->row[i].name, &rest);
        if (r->row[i].copy) {
            i++;
            continue;
        }
        TX_TRY(tx__file_begin(&f, c));
        tx_py *root = tx_py_ordered_dict(f.a);
        for (; i < r->n && layer_of(r->row[i].name, &rest) == layer; i++)
            tx__set(&f, root, rest, tx__file_shard(&f, tx__weight_dtype(c), 0, &r->row[i]));
        snprintf(name, sizeof name, "layer_%02d-model_%02d-model_states.pt", layer, r->tp);
        TX_TRY(tx__file_end(&f, dir, name, root));
    }
    return TX_OK;
}

/* ---- experts ---- */

/* Layers with experts before this one. */
static int64_t number_of_layer(const tx_conversion *c, int64_t layer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < layer; i++) n += tx_config_moe(c->cfg, i).n_experts > 1;
    return n;
}

/* Row `first` and those behind it that are of one expert, under their names in the model. */
static tx_status write_expert(tx_conversion *c, const char *dir, const tx__rank *r, int first, int n)
{
    char name[96], theirs[2 * TX_PARAM_NAME_MAX];
    int64_t layer, expert;
    tx__file f;
    tx__expert_of(c->m->params.param[r->row[first].row].name, &layer, &expert);
    snprintf(name, sizeof name, "layer_%" PRId64 "_expert_%" PRId64 "_mp_rank_%02d_model_states.pt",
             number_of_layer(c, layer), expert, r->mp);
    TX_TRY(tx__file_begin(&f, c));
    tx_py *root = tx_py_dict(f.a);
    for (int i = first; i < first + n; i++) {
        tx__to_megatron_name(c->m->params.param[r->row[i].row].name, 0, theirs);
        tx__set(&f, root, theirs, tx__file_shard(&f, tx__weight_dtype(c), 0, &r->row[i]));
    }
    return tx__file_end(&f, dir, name, root);
}

static tx_status write_expert_optimizer(tx_conversion *c, const char *dir, const tx__rank *r)
{
    char name[96];
    tx__file f;
    snprintf(name, sizeof name, "expp_rank_%d_mp_rank_%02d_optim_states.pt", r->ep, r->mp);
    TX_TRY(tx__file_begin(&f, c));
    tx_py *root = tx_py_dict(f.a);
    tx__set(&f, root, "optimizer", tx__ds_plain_optimizer(&f, r));
    return tx__file_end(&f, dir, name, root);
}

/* Whether a data rank before this one has the same experts beside the same shards. */
static bool is_written(const tx_conversion *c, const tx__rank *r)
{
    int step = c->expert_tensor ? 1 : c->n_tp, n_ep = tx__n_ep(c);
    for (int dp = 0; dp < r->dp; dp++)
        if ((r->dp - dp) * step % n_ep == 0) return true;
    return false;
}

/* What this rank will look for; where tensor ranks have the same experts, each has files of them. */
static tx_status write_experts(tx_conversion *c, const char *dir, const tx__rank *r)
{
    int n;
    if (is_written(c, r)) return TX_OK;
    for (int i = 0; i < r->n; i += n) {
        for (n = 1; i + n < r->n && r->row[i].expert >= 0 && r->row[i + n].expert == r->row[i].expert; n++)
            ;
        if (r->row[i].expert >= 0) TX_TRY(write_expert(c, dir, r, i, n));
    }
    return c->with_optim && !tx__has_zero(c) ? write_expert_optimizer(c, dir, r) : TX_OK;
}

/* What the ranks of a data group share is the first one's. */
static tx_status write_rank(tx_conversion *c, const char *dir, int tp, int pp, int dp)
{
    tx__rank r;
    tx_status st;
    TX_TRY(tx__ds_rank_open(&r, c, (tx__place){ tp, pp, dp }));
    if (c->zero_stage == 3 || !dp) TX_GOTO(tx__ds_write_states(c, dir, &r, c->zero_stage == 3 ? dp : -1));
    if (tx__has_zero(c)) TX_GOTO(write_optimizer(c, dir, &r));
    if (c->m->experts.n_experts > 1) TX_GOTO(write_experts(c, dir, &r));
    st = r.pipeline && !dp ? write_layers(c, dir, &r) : TX_OK;
out:
    tx__rank_close(&r);
    return st;
}

static tx_status refuse_experts(const tx_conversion *c, const char *what)
{
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: has experts, and in DeepSpeed's format %s", c->src->path, what);
}

/* What DeepSpeed's program has of experts. */
static tx_status check_experts(const tx_conversion *c)
{
    const tx_moe_shape *is = &c->m->experts;
    const int n_ep = tx__n_ep(c), ranks = c->n_dp * (c->expert_tensor ? 1 : c->n_tp);
    if (is->n_experts == 1) return TX_OK;
    if (!is->deepspeed)
        return refuse_experts(
            c, "routers are those of --topk, not of --moe-router-topk: convert to native or huggingface");
    if (is->shared_ffn || is->ffn != c->m->ffn)
        return refuse_experts(c, "experts are as wide as --ffn-hidden-size, with none that takes all tokens");
    if (c->pipeline || c->n_pp > 1)
        return refuse_experts(c,
                              "there is no pipeline for them here: leave --target-pp and --target-pipeline-engine out");
    if (c->zero_stage == 3) return refuse_experts(c, "they have no ZeRO-3; choose --target-zero-stage 0, 1 or 2");
    if (c->with_optim && !c->zero_stage && c->dtype == TX_ST_BF16)
        return refuse_experts(
            c, "bf16 without ZeRO does not load its optimizer's state; choose --target-zero-stage 1 or 2");
    if (ranks % n_ep)
        return TX_FAIL(TX_ERR_SHAPE, "--target-ep %d does not divide the %d ranks that share experts", n_ep, ranks);
    for (int64_t i = 0; i < c->m->n_layers; i++)
        if (tx_config_moe(c->cfg, i).n_experts > 1 && tx_config_moe(c->cfg, i).n_experts % n_ep)
            return TX_FAIL(TX_ERR_SHAPE, "--target-ep %d does not divide the %lld experts of layer %lld", n_ep,
                           (long long)tx_config_moe(c->cfg, i).n_experts, (long long)i + 1);
    return TX_OK;
}

/* What a native checkpoint has of ranks of their own (train/trainer_state.c), and DeepSpeed drops when it loads. */
static void say_what_is_left_out(const tx_conversion *c)
{
    const tx_checkpoint *from = c->src->native;
    if (!from || !tx_checkpoint_has(from, TX_CKPT_SERVER "error")) return;
    tx_warn_once("%s: its errors of compression are left out, as DeepSpeed sets them back when it loads%s",
                 c->src->path,
                 tx_checkpoint_has(from, TX_CKPT_WORKER "exp_avg_0")
                     ? "; so is what each rank moved alone: all go on from the first one's weights"
                     : "");
}

static tx_status check(const tx_conversion *c)
{
    TX_TRY(check_experts(c));
    TX_TRY(tx__check_engine(c));
    if (c->zero_stage > 1 && (c->pipeline || c->n_pp > 1))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "DeepSpeed's pipeline engine has no ZeRO-%d; choose --target-zero-stage 0 or 1, or no pipeline",
                       c->zero_stage);
    const bool compressed = c->with_optim && tx__is_compressed(c);
    if (compressed && c->zero_stage)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: has the state of %s, which DeepSpeed refuses with ZeRO; choose --target-zero-stage 0",
                       c->src->path, tx_optimizer_kind_word(c->src->optimizer));
    if (compressed && c->dtype == TX_ST_BF16 && (c->pipeline || c->n_pp > 1))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: has the state of %s, of which with bf16 DeepSpeed's pipeline engine would give each rank a "
                       "part; choose fp16 or fp32, or no pipeline",
                       c->src->path, tx_optimizer_kind_word(c->src->optimizer));
    if (compressed) say_what_is_left_out(c);
    if (c->zero_stage == 3 && !c->with_optim)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: with ZeRO-3 DeepSpeed keeps weights in the optimizer's files, and there is no optimizer's "
                       "state to be written; choose --target-zero-stage 0, 1 or 2",
                       c->src->path);
    return tx__check_layout(c, TX_OPTIMIZER_DEEPSPEED);
}

static tx_status write_folder(tx_conversion *c)
{
    tx__folder d;
    tx_status st;
    char name[64], tracker[32];
    snprintf(name, sizeof name, "global_step%" PRId64, c->src->state.iteration);
    snprintf(tracker, sizeof tracker, "%" PRId64, c->src->state.iteration);
    TX_TRY(check(c));
    TX_GOTO(tx__folder_begin(&d, c->out, name));
    for (int pp = 0; pp < c->n_pp; pp++)
        for (int tp = 0; tp < c->n_tp; tp++)
            for (int dp = 0; dp < c->n_dp; dp++) TX_GOTO(write_rank(c, d.tmp, tp, pp, dp));
    TX_GOTO(tx__folder_publish(&d));
    TX_GOTO(tx__folder_track(&d, "latest_checkpointed_iteration.txt", tracker));
    st = tx__folder_track(&d, "latest", name);
out:
    tx__folder_end(&d, st);
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    return tx__change(c, p) | (c->zero_stage == 3 && c->n_dp > 1 ? TX_CHANGE_SPLIT : TX_CHANGE_NONE);
}

const tx_sink_type tx_sink_deepspeed = {
    .format = TX_FORMAT_DEEPSPEED,
    .has_optim = true,
    .has_latest = true,
    .write = write_folder,
    .change = change,
    .check = check,
    .write_rank = write_rank,
};
