/* save_as.c - a native save, and after it the ranks' files in another format. */
#include "convert/save_as.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

enum { PATH_CAP = 4096, NAME_CAP = 64 };

struct tx_save {
    tx_save_args a; /* dir, state, config and part: until begin is over */
    const tx_sink_type *to;
    tx_ckpt_save *shard; /* the native save; NULL: this rank has none, or it is over */
    char *dir;           /* owned */
    char exchange[PATH_CAP], tmp[PATH_CAP], name[NAME_CAP];
    int64_t iteration;
    const tx_ckpt_tokenizer *tokenizer; /* borrowed, or NULL */
    /* the second write's: */
    bool second;
    tx_config cfg; /* a copy for the table of a model of one rank; its strings are borrowed */
    tx_source src;
    tx_model *m;
    json_t *options;
    tx_conversion c;
    tx_status written;
    char why[2048];
};

/* NULL: a native save is all. */
static const tx_sink_type *sink_of(const tx_config *cfg)
{
    return cfg->save_format == TX_FORMAT_NATIVE ? NULL : tx_sink_type_of(cfg->save_format);
}

tx_ckpt_kind tx_save_kind(const tx_config *cfg)
{
    return (tx_ckpt_kind)cfg->save_format;
}

static int64_t value_bytes(const tx_config *cfg)
{
    return cfg->bf16 || cfg->fp16 ? 2 : 4;
}

static int64_t native_bytes(int64_t numel)
{
    return numel * (int64_t)sizeof(float);
}

/* Of fp32 weights there are masters, too, where DeepSpeed divides them. */
int64_t tx_save_bytes(const tx_config *cfg, int64_t numel, int64_t all)
{
    return native_bytes(all) + (sink_of(cfg) && all > numel ? numel * value_bytes(cfg) : 0);
}

int64_t tx_save_bytes_passing(const tx_config *cfg, int64_t all)
{
    return sink_of(cfg) ? native_bytes(all) : 0;
}

static void destroy(tx_save *s)
{
    tx_free(s->c.whole);
    if (s->m) s->m->type->destroy(s->m);
    json_decref(s->options);
    tx_source_close(&s->src);
    tx_free(s->dir);
    tx_free(s);
}

/* Rank 0's; the sentence of an error on its way is kept. */
static void remove_temporaries(const tx_save *s, tx_status st)
{
    char first[1024];
    snprintf(first, sizeof first, "%s", tx_last_error());
    if (tx_remove_tree(s->exchange) || tx_remove_tree(s->tmp)) tx_warn("%s", tx_last_error());
    if (st) (void)TX_FAIL_LINES(st, "%s", first);
}

/* ---- begin ---- */

/* Room for all that is there at the end of the second write. */
static tx_status check_space(const tx_save *s, int64_t numel)
{
    uint64_t have;
    const tx_config *cfg = s->a.cfg;
    int64_t all = numel * s->a.n_parts; /* what other formats have a place for is of all parameters */
    uint64_t need =
        TX_CKPT_SPARE + (uint64_t)tx_save_bytes(cfg, numel, all) + (uint64_t)tx_save_bytes_passing(cfg, all);
    TX_TRY(tx_checkpoint_free_space(s->dir, &have));
    if (have >= need) return TX_OK;
    return TX_FAIL(TX_ERR_IO,
                   "%s: iteration %" PRId64
                   " in --save-format %s needs %.1f MB while it is written and %.1f MB are free; make room or save "
                   "somewhere else",
                   s->dir, s->iteration, tx_checkpoint_format_word(cfg->save_format), (double)need / 1e6,
                   (double)have / 1e6);
}

static tx_status make_dir(const tx_save *s, int64_t numel)
{
    TX_TRY(tx_make_dirs(s->dir));
    TX_TRY(tx_checkpoint_clean_up(s->dir));
    return check_space(s, numel);
}

/* Paths have rank 0's process id, by which a later save knows what a dead one has left. */
static tx_status name_paths(tx_save *s, const char *tag, long pid)
{
    char hidden[NAME_CAP + 64];
    const char *slash;
    TX_TRY(tx_checkpoint_path_of(s->tmp, sizeof s->tmp, s->dir, tx_save_kind(s->a.cfg), s->iteration, tag));
    slash = strrchr(s->tmp, '/');
    snprintf(s->name, sizeof s->name, "%.63s", slash ? slash + 1 : s->tmp);
    snprintf(hidden, sizeof hidden, ".tmp-iter_%s-%ld", s->name, pid);
    TX_TRY(tx_path_join(s->tmp, sizeof s->tmp, s->dir, hidden));
    snprintf(hidden, sizeof hidden, ".tmp-iter_exchange-%ld", pid);
    return tx_path_join(s->exchange, sizeof s->exchange, s->dir, hidden);
}

/* All ranks' elements, and what rank 0 says of itself. */
typedef struct told {
    int64_t numel;
    long pid;
} told;

static tx_status prepare(tx_save *s, const char *tag, tx_status st)
{
    tx_comm *world = tx_grid_group(s->a.grid, TX_GROUP_WORLD);
    int n = tx_comm_size(world);
    told mine = { 0, (long)getpid() }, *all = NULL;
    if (s->a.group) mine.numel = tx_checkpoint_numel(s->a.ps, s->a.kept);
    if (!st) st = tx_alloc(&all, (size_t)n, sizeof *all, "a list of ranks");
    TX_GOTO(tx_comm_agree(world, st));
    all[0] = mine;
    if (n > 1) TX_GOTO(tx_comm_gather(world, all, &mine, sizeof mine));
    for (int i = 1; i < n; i++) all[0].numel += all[i].numel;
    st = name_paths(s, tag, all[0].pid);
    if (!st && s->a.grid->rank == 0) st = make_dir(s, all[0].numel);
    st = tx_comm_agree(world, st);
out:
    tx_free(all);
    return st;
}

static tx_status begin_shard(tx_save *s, const char *dir)
{
    const tx_save_args *a = &s->a;
    tx_ckpt_state state = *a->state;
    if (!a->group) return TX_OK;
    if (s->to) state.tag = NULL;
    return tx_checkpoint_save_begin(&s->shard, &(tx_ckpt_save_args){ .dir = dir,
                                                                     .state = &state,
                                                                     .config = a->config,
                                                                     .ps = a->ps,
                                                                     .kept = a->kept,
                                                                     .part = a->part,
                                                                     .n_parts = a->n_parts,
                                                                     .group = a->group });
}

static tx_status begin_as(tx_save *s)
{
    tx_status st = tx_memdup0(&s->dir, s->a.dir, strlen(s->a.dir), "a path");
    if (!st && s->a.state->tag && !s->to->has_latest)
        st = TX_FAIL(
            TX_ERR_ARG,
            "--save-format %s: its folders are named by their iteration, not \"%s\"; leave the tag out, or save native "
            "or deepspeed",
            tx_checkpoint_format_word(s->to->format), s->a.state->tag);
    TX_TRY(prepare(s, s->a.state->tag, st));
    return tx_comm_agree(tx_grid_group(s->a.grid, TX_GROUP_WORLD), begin_shard(s, s->exchange));
}

tx_status tx_save_begin(tx_save **out, const tx_save_args *a)
{
    tx_save *s = NULL;
    const tx_sink_type *to = sink_of(a->cfg);
    *out = NULL;
    if (!to && !a->group) return TX_OK;
    tx_status st =
        tx_comm_agree(to ? tx_grid_group(a->grid, TX_GROUP_WORLD) : a->group, tx_alloc(&s, 1, sizeof *s, "a save"));
    if (st) {
        tx_free(s);
        return st;
    }
    *s = (tx_save){ .a = *a, .to = to, .iteration = a->state->iteration, .tokenizer = a->state->tokenizer };
    st = to ? begin_as(s) : begin_shard(s, a->dir);
    if (st) {
        tx_save_abandon(s);
        return st;
    }
    s->a.dir = NULL;
    s->a.state = NULL;
    s->a.config = NULL;
    s->a.part = NULL;
    *out = s;
    return TX_OK;
}

/* ---- write ---- */

void tx_save_write(tx_save *s)
{
    const tx_grid *g = s->a.grid;
    if (!s->second) {
        if (s->shard) tx_checkpoint_save_write(s->shard);
        return;
    }
    s->written = s->to->write_rank(&s->c, s->tmp, tx_grid_rank(g, TX_AXIS_TENSOR), tx_grid_rank(g, TX_AXIS_PIPELINE),
                                   tx_comm_rank(tx_grid_group(g, TX_GROUP_DATA)));
    if (s->written) snprintf(s->why, sizeof s->why, "%s", tx_last_error());
}

/* ---- from the first write to the second ---- */

/* A table of all parameters, padded as the run's ranks have them. */
static tx_status make_model(tx_save *s)
{
    json_t *all = NULL;
    s->cfg = *s->a.cfg;
    TX_TRY(tx_config_to_json(&s->cfg, &all));
    tx_status st = s->src.type->options(&s->src, all, &s->options);
    json_decref(all);
    TX_TRY(st);
    s->cfg.make_vocab_size_divisible_by *= tx_grid_size(s->a.grid, TX_AXIS_TENSOR);
    st = tx_model_type_of(&s->cfg)->create(&s->m, &s->cfg, s->src.vocab_size, NULL);
    s->cfg.make_vocab_size_divisible_by = s->a.cfg->make_vocab_size_divisible_by;
    return st;
}

/* As Megatron-DeepSpeed chooses its engine, but that without --no-pipeline-parallel, where that engine cannot be, it
 * stops. */
static bool has_pipeline(const tx_config *cfg, const tx_grid *g, const tx_model *m)
{
    return tx_grid_size(g, TX_AXIS_PIPELINE) > 1 || (!cfg->no_pipeline_parallel && cfg->zero_stage < 2 &&
                                                     m->type->upstream_pipeline && m->experts.n_experts == 1);
}

static tx_status open_conversion(tx_save *s)
{
    const tx_config *cfg = &s->cfg;
    const tx_grid *g = s->a.grid;
    TX_TRY(tx_source_open_just_written(&s->src, s->exchange));
    TX_TRY(make_model(s));
    s->c = (tx_conversion){ .src = &s->src,
                            .m = s->m,
                            .cfg = cfg,
                            .options = s->options,
                            .out = s->dir,
                            .n_tp = tx_grid_size(g, TX_AXIS_TENSOR),
                            .n_pp = tx_grid_size(g, TX_AXIS_PIPELINE),
                            .n_dp = tx_grid_sharers(g),
                            .n_ep = (int)cfg->moe_expert_parallel_size,
                            .expert_tensor = tx_grid_size(g, TX_AXIS_TENSOR) > 1 && tx_config_expert_tensor(cfg),
                            .zero_stage = (int)cfg->zero_stage,
                            .pipeline = has_pipeline(cfg, g, s->m),
                            .dtype = cfg->bf16   ? TX_ST_BF16
                                     : cfg->fp16 ? TX_ST_F16
                                                 : TX_ST_F32,
                            .with_optim = s->src.n_parts > 1 };
    return s->to->check(&s->c);
}

/* Collective over the world. */
static tx_status begin_second(tx_save *s)
{
    tx_comm *world = tx_grid_group(s->a.grid, TX_GROUP_WORLD);
    tx_status st = open_conversion(s);
    if (!st && s->a.grid->rank == 0) st = tx_make_dirs(s->tmp);
    s->second = !st;
    return tx_comm_agree(world, st);
}

/* ---- finish ---- */

static tx_status publish_line(const tx_save *s, const char *name, const char *text)
{
    char path[PATH_CAP];
    TX_TRY(tx_path_join(path, sizeof path, s->dir, name));
    return tx_file_publish(path, text, strlen(text));
}

/* Rank 0's. What readers follow decides: `latest` where there is one, as DeepSpeed's do, else the tracker. */
static tx_status publish(const tx_save *s)
{
    char tracker[32];
    bool latest = s->to->has_latest;
    snprintf(tracker, sizeof tracker, "%" PRId64, s->iteration);
    if (s->tokenizer) TX_TRY(tx_ckpt_tokenizer_write(s->tokenizer, s->tmp));
    TX_TRY(tx_dir_sync(s->tmp));
    TX_TRY(tx_checkpoint_swap_in(s->dir, s->tmp, s->name));
    if (latest) TX_TRY(publish_line(s, "latest", s->name));
    tx_status st = publish_line(s, "latest_checkpointed_iteration.txt", tracker);
    if (st && latest) tx_warn("%s", tx_last_error()); /* the checkpoint is there */
    return latest ? TX_OK : st;
}

static tx_status finish_second(tx_save *s)
{
    tx_comm *world = tx_grid_group(s->a.grid, TX_GROUP_WORLD);
    tx_status st = s->written ? TX_FAIL_LINES(s->written, "%s", s->why) : TX_OK;
    st = tx_comm_agree(world, st);
    if (!st && s->a.grid->rank == 0) st = publish(s);
    return tx_comm_agree(world, st);
}

/* The shards are in the exchange on all ranks' account, or on none's. */
static tx_status finish_first(tx_save *s)
{
    tx_status st = s->shard ? tx_checkpoint_save_finish(s->shard) : TX_OK;
    s->shard = NULL;
    if (!s->to) return st;
    TX_TRY(tx_comm_agree(tx_grid_group(s->a.grid, TX_GROUP_WORLD), st));
    return begin_second(s);
}

tx_status tx_save_finish(tx_save *s, bool *more)
{
    bool first = !s->second;
    tx_status st = first ? finish_first(s) : finish_second(s);
    *more = !st && first && s->to;
    if (*more) return TX_OK;
    if (s->to && s->a.grid->rank == 0) {
        tx_source_close(&s->src); /* its shards are mapped */
        remove_temporaries(s, st);
    }
    destroy(s);
    return st;
}

void tx_save_abandon(tx_save *s)
{
    if (!s) return;
    if (s->shard) tx_checkpoint_save_abandon(s->shard);
    if (s->to && s->dir && *s->exchange && s->a.grid->rank == 0) {
        tx_source_close(&s->src);
        remove_temporaries(s, TX_ERR_STATE);
    }
    destroy(s);
}
