/* convert.c - the job convert, and upstream's converters, which are the same with other flags. */
#include <string.h>

#include "api/proof.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/meant_folder.h"
#include "convert/sink.h"
#include "token/tokenizer_kinds.h"
#include "triax/jobs.h"

enum { PATH_CAP = 4096 };

typedef struct job {
    tx_config *cfg;
    const tx_source_type *from;
    const tx_sink_type *to;
    const char *in;
    char tagged[PATH_CAP], meant[PATH_CAP]; /* in, where a tag is given; in as it is there */
    char parent[PATH_CAP], name[64];        /* of the folder to write, where that is a step's own */
    const char *beside;                     /* where a tokenizer's files go: out, or the step's folder in it */
    tx_source src;
    tx_model *m, *adapted; /* adapted: with the adapters that are merged into m, or NULL */
    tx_config *merged;     /* m's options then; owned */
    json_t *options;
    tx_ckpt_tokenizer tokenizer; /* of the model, if it can be read */
    tx_conversion c;
} job;

/* ---- what is asked for ---- */

static int64_t size_of(const char *text)
{
    size_t bytes = 0;
    bool ok = tx_size_parse(text, &bytes);
    TX_ASSERT(ok); /* rule_sizes_have_units */
    return (int64_t)bytes;
}

static tx_st_dtype dtype_of(enum tx_float_type type)
{
    switch (type) {
    case TX_FLOAT_FP32:
        return TX_ST_F32;
    case TX_FLOAT_BF16:
        return TX_ST_BF16;
    case TX_FLOAT_FP16:
        return TX_ST_F16;
    }
    TX_ASSERT(false && "a word of --dtype");
    return TX_ST_F32;
}

static tx_status ask_convert(job *j)
{
    const tx_config *cfg = j->cfg;
    j->from = tx_source_type_of(cfg->convert_from);
    j->to = tx_sink_type_of(cfg->convert_to);
    TX_ASSERT(j->to && (j->from || !cfg->convert_from));
    j->in = cfg->convert_paths.item[0];
    j->c.out = cfg->convert_paths.item[1];
    j->c.n_tp = (int)cfg->target_tp;
    j->c.n_pp = (int)cfg->target_pp;
    j->c.n_dp = (int)cfg->target_dp;
    j->c.n_ep = (int)cfg->target_ep;
    j->c.zero_stage = (int)cfg->target_zero_stage;
    j->c.pipeline = cfg->target_pipeline || cfg->target_pp > 1;
    j->c.dtype = dtype_of(cfg->convert_dtype);
    j->c.with_optim = !cfg->no_load_optim;
    j->c.release = cfg->for_release;
    if (cfg->max_shard_size) j->c.shard_bytes = size_of(cfg->max_shard_size);
    return TX_OK;
}

static tx_status ask_tool(job *j)
{
    const tx_config *cfg = j->cfg;
    bool megatron = cfg->command->id == TX_COMMAND_DEEPSPEED_TO_MEGATRON;
    j->to = megatron ? &tx_sink_megatron : &tx_sink_huggingface;
    j->in = cfg->input_folder;
    j->c.out = cfg->output_folder;
    j->c.n_tp = megatron ? (int)cfg->tool_tp : 1;
    j->c.n_pp = megatron ? (int)cfg->tool_pp : 1;
    j->c.n_dp = 1;
    j->c.dtype = TX_ST_F32;
    return TX_OK; /* its --for_release forgets the place in the data and keeps the iteration: run() */
}

static tx_status ask_zero_to_fp32(job *j)
{
    const tx_config *cfg = j->cfg;
    j->to = &tx_sink_huggingface;
    j->in = cfg->zero_paths.item[0];
    j->c.out = cfg->zero_paths.item[1];
    j->c.n_tp = j->c.n_pp = j->c.n_dp = 1;
    j->c.dtype = TX_ST_F32;
    if (cfg->zero_tag) {
        TX_TRY(tx_path_join(j->tagged, sizeof j->tagged, j->in, cfg->zero_tag));
        j->in = j->tagged;
    }
    j->c.shard_bytes = size_of(cfg->zero_shard_size);
    return TX_OK;
}

/* OUT is the step's folder itself, beside which `latest_universal` names it. */
static tx_status ask_universal(job *j)
{
    const tx_config *cfg = j->cfg;
    const char *out = cfg->output_folder;
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    size_t slash = n;
    while (slash && out[slash - 1] != '/') slash--;
    if (n - slash == 0 || n - slash >= sizeof j->name || slash >= sizeof j->parent)
        return TX_FAIL(TX_ERR_ARG,
                       "--output_folder %.60s: has to end in the name of a folder, such as "
                       "global_step100_universal",
                       out);
    snprintf(j->name, sizeof j->name, "%.*s", (int)(n - slash), out + slash);
    snprintf(j->parent, sizeof j->parent, "%.*s", slash ? (int)slash : 1, slash ? out : ".");
    j->to = &tx_sink_universal;
    j->in = cfg->input_folder;
    j->c.out = j->parent;
    j->c.name = j->name;
    j->beside = out;
    j->c.dtype = TX_ST_F32;
    j->c.with_optim = true;
    return TX_OK;
}

static tx_status ask_command(job *j)
{
    switch ((int)j->cfg->command->id) { /* of all commands those of this job */
    case TX_COMMAND_CONVERT:
        return ask_convert(j);
    case TX_COMMAND_DS_TO_UNIVERSAL:
        return ask_universal(j);
    case TX_COMMAND_ZERO_TO_FP32:
        return ask_zero_to_fp32(j);
    default:
        return ask_tool(j);
    }
}

static tx_status ask(job *j)
{
    TX_TRY(ask_command(j));
    if (!j->beside) j->beside = j->c.out;
    TX_TRY(tx__meant_step(j->meant, sizeof j->meant, j->in));
    j->in = j->meant;
    return TX_OK;
}

/* ---- the model ---- */

/* Adapters go into the weights of a model without them. */
static tx_status merge(job *j)
{
    static const char *const lora[] = { "lora_rank", "lora_alpha", "lora_targets", "lora_dropout" };
    char flags[] = "";
    json_t *without = json_copy(j->options);
    if (!without) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a model's options");
    json_decref(j->options);
    j->options = without;
    for (size_t i = 0; i < sizeof lora / sizeof *lora; i++) json_object_del(j->options, lora[i]);
    TX_TRY(tx_config_with(&j->merged, j->cfg, flags));
    j->merged->lora_rank = 0;
    j->adapted = j->m;
    j->m = NULL;
    j->src.merges = j->adapted;
    return tx_model_type_of(j->cfg)->create(&j->m, j->merged, j->src.vocab_size, NULL);
}

/* Options from the source, a table of all parameters padded for the ranks to be. */
static tx_status make_model(job *j)
{
    tx_config *cfg = j->cfg;
    json_t *all = NULL;
    tx_status st;
    TX_GOTO(tx_config_to_json(cfg, &all));
    TX_GOTO(j->src.type->options(&j->src, all, &j->options));
    if (cfg->given.true_vocab_size && cfg->true_vocab_size) {
        if (j->src.vocab_size && cfg->true_vocab_size > j->src.vocab_size) {
            st = TX_FAIL(TX_ERR_ARG, "--true-vocab-size %lld: %s has %lld tokens, padding included",
                         (long long)cfg->true_vocab_size, j->src.path, (long long)j->src.vocab_size);
            goto out;
        }
        j->src.vocab_size = j->src.state.vocab_size = cfg->true_vocab_size;
        json_object_set_new(j->options, "megatron_padded_logits", json_false());
        json_object_del(j->options, "pad_vocab_size_to");
    }
    TX_GOTO(tx_source_require_own_model(&j->src));
    TX_GOTO(tx_config_from_json(cfg, j->options, TX_KEPT_SHAPE | TX_KEPT_HINT));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings;
    TX_GOTO(tx_config_complete(cfg));
    if (!cfg->megatron_padded_logits) cfg->pad_vocab_size_to = 0; /* the source's ranks' */
    cfg->make_vocab_size_divisible_by *= j->c.n_tp;
    TX_GOTO(tx_model_type_of(cfg)->create(&j->m, cfg, j->src.vocab_size, NULL));
    if (cfg->merge_lora) TX_GOTO(merge(j));
    cfg->make_vocab_size_divisible_by /= j->c.n_tp;
out:
    json_decref(all);
    return st;
}

/* ---- the report ---- */

static const char *words_of(unsigned change, char *buf, size_t cap)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {
        { TX_CHANGE_TRANSPOSED, "transposed" },
        { TX_CHANGE_REORDERED, "rows reordered" },
        { TX_CHANGE_PADDED, "padded" },
        { TX_CHANGE_CUT, "padding dropped" },
        { TX_CHANGE_SPLIT, "split" },
        { TX_CHANGE_MERGED, "merged" },
        { TX_CHANGE_SUMMED, "the first token type added" },
    };
    size_t n = 0;
    snprintf(buf, cap, "copied");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (change & words[i].bit && n < cap)
            n += (size_t)snprintf(buf + n, cap - n, "%s%s", n ? ", " : "", words[i].word);
    return buf;
}

/* What each tensor goes through: first as it is read, then as it is written. Reads none of them. */
static void list_tensors(const job *j)
{
    const tx_params *ps = &j->m->params;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        char in[96], out[96];
        unsigned from = j->src.type->change ? j->src.type->change(&j->src, j->m, p) : TX_CHANGE_NONE;
        tx_info("  %-56s %s -> %s", p->name, words_of(from, in, sizeof in),
                words_of(j->to->change(&j->c, p), out, sizeof out));
    }
}

static tx_status tell_dropped(void *user, const char *name, const char *reason)
{
    (void)user;
    tx_info("  %-56s dropped: %s", name, reason);
    return TX_OK;
}

static tx_status report(const job *j)
{
    tx_info("%d parameters, read -> written:", j->m->params.n);
    list_tensors(j);
    if (j->src.type->dropped) TX_TRY(j->src.type->dropped(&j->src, j->m, tell_dropped, NULL));
    for (int i = 1; i < j->src.n_parts && !j->c.with_optim; i++)
        tell_dropped(NULL, j->src.part[i],
                     j->to->has_optim ? "the optimizer's state is not wanted"
                                      : "the format has no place for an optimizer's state");
    return TX_OK;
}

/* ---- the job ---- */

/* The tokenizer that goes along: of the flags, or the source's own. One that triax cannot read is copied as it is. */
static tx_status find_tokenizer(job *j)
{
    const tx_config *cfg = j->cfg;
    bool named = cfg->vocab_file || cfg->tokenizer_model;
    tx_tokenizer *tok = NULL;
    if (!named && j->src.native) TX_TRY(tx__tokenizer_record(cfg, &j->src, NULL, &j->tokenizer));
    if (*j->tokenizer.hash || (!named && j->to != &tx_sink_native)) return TX_OK;
    tx_status st = tx__tokenizer_of(cfg, &j->src, &tok);
    if (st && !named) {
        tx_info("the checkpoint will have no tokenizer of its own: %s", tx_last_error());
        return TX_OK;
    }
    if (!st) st = tx__tokenizer_record(cfg, &j->src, tok, &j->tokenizer);
    tx_tokenizer_close(tok);
    return st;
}

static bool is_recorded(const tx_ckpt_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->n_files; i++)
        if (!strcmp(t->file[i].name, name)) return true;
    return false;
}

static tx_status copy_beside(const job *j, const char *name)
{
    char path[PATH_CAP];
    TX_TRY(tx_path_join(path, sizeof path, tx__source_tokenizer_dir(&j->src), name));
    if (is_recorded(&j->tokenizer, name) || !tx_path_exists(path)) return TX_OK;
    TX_TRY(tx__copy_file(path, j->beside, name));
    tx_info("  %-56s copied along", name);
    return TX_OK;
}

/* A checkpoint of triax has its tokenizer in itself; whatever else of one lies beside the source is copied. */
static tx_status copy_tokenizer(const job *j)
{
    static const char *const more[] = { "special_tokens_map.json", "added_tokens.json", "tokenizer.model",
                                        "generation_config.json" };
    const char *name;
    for (int i = 0; (name = tx_tokenizer_file_name(i)); i++) TX_TRY(copy_beside(j, name));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) TX_TRY(copy_beside(j, more[i]));
    for (int i = 0; i < j->tokenizer.n_files; i++) tx_info("  %-56s copied along", j->tokenizer.file[i].name);
    return j->to == &tx_sink_native ? TX_OK : tx_ckpt_tokenizer_write(&j->tokenizer, j->beside);
}

/* The folder must be new, or another step of the same kind of checkpoint: never what was there before. */
static tx_status check_out(const job *j)
{
    char detail[512], *a = realpath(j->in, NULL), *b = realpath(j->beside, NULL);
    tx_ckpt_kind kind;
    bool same = a && b && !strcmp(a, b);
    free(a);
    free(b);
    if (same) return TX_FAIL(TX_ERR_ARG, "%s: IN and OUT are the same folder", j->in);
    TX_TRY(tx_checkpoint_probe(j->beside, &kind, detail, sizeof detail));
    if (kind == TX_CKPT_NONE) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s; give a new folder for the result", detail);
}

/* What holds no checkpoint is answered with the command that was meant, as far as that can be seen. */
static tx_status open_source(job *j)
{
    char meant[PATH_CAP], why[2048];
    const char *name = j->cfg->command->name;
    tx_status st = tx_source_open_with(&j->src, j->cfg, j->in, j->from, &tx_comm_self);
    if (st == TX_ERR_NOTFOUND && tx__meant_run(meant, sizeof meant, j->in)) {
        snprintf(why, sizeof why, "%s", tx_last_error());
        return TX_FAIL(st, "%s; %s does: triax %s ... %s", why, meant, name, meant);
    }
    TX_TRY(st);
    if (j->src.type == &tx_source_huggingface && j->cfg->command->id == TX_COMMAND_DEEPSPEED_TO_TRANSFORMERS)
        return TX_FAIL(TX_ERR_ARG, "%s: is a Hugging Face model already: triax generate --load %s", j->in, j->in);
    if (!j->src.type->resumes && j->cfg->command->id == TX_COMMAND_DS_TO_UNIVERSAL)
        return TX_FAIL(
            TX_ERR_ARG,
            "%s: is a Hugging Face model, which has no state of an optimizer, as universal checkpoints have: "
            "triax convert --to megatron %s OUT",
            j->in, j->in);
    return TX_OK;
}

/* Adapters have a place in two formats. */
static tx_status check_adapters(const job *j)
{
    bool holds = j->to == &tx_sink_native || j->to == &tx_sink_peft;
    if (j->cfg->merge_lora && !j->src.has_adapters)
        return TX_FAIL(TX_ERR_ARG, "--merge-lora: %s has no adapters; leave the flag out", j->src.path);
    if (j->cfg->merge_lora && j->to == &tx_sink_peft)
        return TX_FAIL(TX_ERR_ARG, "--merge-lora leaves no adapters for --to peft: give one of the two");
    if (j->to == &tx_sink_peft && !j->src.has_adapters)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: holds no adapters, so there is none to write as PEFT's: choose --to huggingface",
                       j->src.path);
    if (holds || !j->src.has_adapters || j->cfg->merge_lora) return TX_OK;
    return TX_FAIL(
        TX_ERR_UNSUPPORTED,
        "%s: has adapters, for which --to %s has no place: add --merge-lora, which adds them to the weights, or "
        "choose --to peft",
        j->src.path, tx_checkpoint_format_word(j->to->format));
}

static tx_status run(job *j)
{
    TX_TRY(ask(j));
    TX_TRY(check_out(j));
    TX_TRY(open_source(j));
    if (j->c.name) { /* a rank's states for each rank that the source was made by */
        j->c.n_tp = j->src.n_tp > 1 ? j->src.n_tp : 1;
        j->c.n_pp = j->src.n_pp > 1 ? j->src.n_pp : 1;
        j->c.n_dp = 1;
        j->c.pipeline = j->src.pipeline;
    }
    if (j->cfg->tool_release) j->src.state.consumed_train_samples = j->src.state.consumed_valid_samples = 0;
    if (j->cfg->given.source_checkpoint_version)
        TX_TRY(tx_source_set_version(&j->src, (int)j->cfg->source_checkpoint_version));
    TX_TRY(make_model(j));
    TX_TRY(check_adapters(j));
    TX_TRY(tx_source_check(&j->src, j->adapted ? j->adapted : j->m));
    j->c.src = &j->src;
    j->c.m = j->m;
    j->c.cfg = j->merged ? j->merged : j->cfg;
    j->c.options = j->options;
    j->c.with_optim = j->c.with_optim && j->to->has_optim && j->src.n_parts > 1 && !j->adapted;
    TX_TRY(tx_conversion_check(&j->c));
    TX_TRY(find_tokenizer(j));
    if (*j->tokenizer.hash) j->c.tokenizer = &j->tokenizer;
    tx_info("converting %s (%s) to %s (%s)", j->in, tx_checkpoint_format_word(j->src.type->format), j->beside,
            tx_checkpoint_format_word(j->to->format));
    TX_TRY(tx_make_dirs(j->c.out));
    TX_TRY(report(j));
    TX_TRY(j->to->write(&j->c));
    TX_TRY(copy_tokenizer(j));
    tx_free(j->c.whole);
    j->c.whole = NULL;
    tx_info("wrote %s", j->beside);
    if (j->cfg->command->id == TX_COMMAND_CONVERT && !j->cfg->proof) {
        tx_info("not proved (--no-proof)");
        return TX_OK;
    }
    j->src.merges = NULL; /* adapters beside the weights, and merged: the same */
    if (j->to == &tx_sink_peft && !j->cfg->lora_base) {
        tx_info("not proved: the model that the adapters are beside is not known (--lora-base)");
        return TX_OK;
    }
    return tx__prove(&j->src, j->c.out, tx_source_type_of(j->to->format), j->cfg, &j->c);
}

tx_status tx_convert(tx_config *cfg)
{
    job j = { .cfg = cfg };
    tx_status st = run(&j);
    tx_free(j.c.whole);
    tx_ckpt_tokenizer_free(&j.tokenizer);
    if (j.m) j.m->type->destroy(j.m);
    if (j.adapted) j.adapted->type->destroy(j.adapted);
    tx_config_free(j.merged);
    json_decref(j.options);
    tx_source_close(&j.src);
    return st;
}
