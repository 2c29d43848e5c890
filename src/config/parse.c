/* parse.c - a command line to a config. Everything that is wrong with it is collected (tx_violations) while parsing
 * goes on; rules across options (rules.h) add theirs, and the whole list is the one error. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/deepspeed_json.h"
#include "config/expert_flags.h"
#include "config/option_table.h"

/* ---------------------------------------------------------------- violations */

enum { MAX_TEXT = 1900 }; /* bytes; an error sentence has room for 2047 */

void tx__violate_v(tx_violations *v, unsigned remedies, const char *fmt, va_list ap)
{
    char raw[512], line[1024];
    uint64_t sentence = UINT64_C(14695981039346656037); /* FNV-1a */
    v->n++;
    v->n_mendable += remedies != 0;
    if (!v->first_remedies) v->first_remedies = remedies;
    v->remedies |= remedies;
    if (v->silent && remedies) return;
    vsnprintf(raw, sizeof raw, fmt, ap);
    for (const char *p = raw; *p; p++) sentence = (sentence ^ (unsigned char)*p) * UINT64_C(1099511628211);
    if (!remedies && v->n_other++ < TX__MAX_OTHER) v->other[v->n_other - 1] = sentence;
    if (v->silent) return;
    tx_printable(line, sizeof line, raw);
    if (v->st) return;
    if (v->n_hidden || v->text.len + strlen(line) + 1 > MAX_TEXT)
        v->n_hidden++;
    else
        v->st = tx_str_printf(&v->text, "%s%s", v->text.len ? "\n" : "", line);
}

void tx__violate(tx_violations *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tx__violate_v(v, 0, fmt, ap);
    va_end(ap);
}

void tx__violate_last_error(tx_violations *v)
{
    char line[512];
    snprintf(line, sizeof line, "%s", tx_last_error());
    tx__violate(v, "%s", line);
}

tx_status tx__violations_close(tx_violations *v)
{
    tx_status st = v->st;
    if (!st && v->n_hidden) st = tx_str_printf(&v->text, "\n... and %d more", v->n_hidden);
    if (!st && v->n) st = TX_FAIL_LINES(TX_ERR_ARG, "%s", v->text.data);
    tx_str_free(&v->text);
    *v = (tx_violations){ 0 };
    return st;
}

/* ---------------------------------------------------------------- life of a config */

/* Options with no value yet, not even their own. */
static tx_status config_alloc(tx_config **out, const tx_command *cmd)
{
    TX_TRY(tx_alloc(out, 1, sizeof **out, "the options"));
    (*out)->command = cmd;
    return TX_OK;
}

tx_status tx_config_new(tx_config **out, const char *command)
{
    const tx_command *cmd = tx_command_find(command);
    if (!cmd) return TX_FAIL(TX_ERR_NOTFOUND, "there is no command %.60s", command);
    tx_config *cfg = NULL;
    tx_status st;
    TX_TRY(config_alloc(&cfg, cmd));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        const char *initial;
        if (!tx__has_member(o)) continue;
        tx__command_takes(cmd, o, &initial);
        TX_GOTO(tx__option_reset(cfg, o, initial));
    }
    *out = cfg;
    return TX_OK;
out:
    tx_config_free(cfg);
    return st;
}

void tx_config_free(tx_config *cfg)
{
    if (!cfg) return;
    for (size_t i = 0; i < tx__n_options; i++)
        if (tx__has_member(&tx__options[i]))
            (void)tx__option_reset(cfg, &tx__options[i], NULL); /* frees, cannot fail */
    json_decref(cfg->teacher);
    tx_free(cfg);
}

/* ---------------------------------------------------------------- one argument after the other */

struct parse {
    tx_config *cfg;
    const tx_argument *own; /* the client's; NULL: none */
    tx_config_given bad;    /* given, but not readable */
    const char **typed;     /* per option: the spelling last used, NULL: not given */
    const char **value;     /* per option: its first value, for the log; borrowed from argv */
    bool *by_default;       /* per option: given last among a client's defaults */
    int n_defaults;         /* of the arguments; the first ones */
    tx_violations found;
    tx__deepspeed deepspeed;
    bool advises; /* what else to give, where a rule is broken */
};

/* As for Python's argparse, what has a blank is a value, though it begin with dashes (--launcher_args "--mca a b"). */
static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-' && arg[2] && arg[strcspn(arg, "= ")] != ' ';
}

/* The flag, without its dashes, that was meant by an argument with one dash instead of two, or with the dash that some
 * programs make of two; else NULL. */
static const char *one_dash(const tx_command *cmd, const char *arg)
{
    size_t dash = *arg == '-' ? 1 : !strncmp(arg, "\xe2\x80\x93", 3) || !strncmp(arg, "\xe2\x80\x94", 3) ? 3 : 0;
    size_t n = dash ? strcspn(arg + dash, "=") : 0;
    return n > 1 && tx__option_find(cmd, arg + dash, n, NULL) ? arg + dash : NULL;
}

/* The shortest flag of this command that begins with what was typed, as argparse completes it; NULL: none. */
static const char *longer(const tx_command *cmd, const char *typed)
{
    const char *found = NULL;
    for (size_t i = 0; i < tx__n_options && *typed; i++) {
        const char *flag = tx__options[i].flag;
        if (!tx__command_takes(cmd, &tx__options[i], NULL) || strncmp(flag, typed, strlen(typed)) != 0) continue;
        if (tx__is_family(&tx__options[i])) continue;
        if (!found || strlen(flag) < strlen(found)) found = flag;
    }
    return found;
}

/* Nobody is sent to a flag that is refused. */
static bool is_refused(const tx_option *o)
{
    return o->kind == TX_OPTION_LATER || o->kind == TX_OPTION_REFUSED;
}

/* The flag of this command (or another spelling of one) that is nearest to what was typed; NULL: nothing near. */
static const char *nearest(const tx_command *cmd, const tx_argument *own, const char *typed)
{
    int best = tx_str_another(strlen(typed));
    const char *found = NULL, *spelling, *flag;
    for (size_t i = 0; i < tx__n_options; i++) {
        if (!tx__command_takes(cmd, &tx__options[i], NULL) || is_refused(&tx__options[i])) continue;
        int d = tx_str_distance(typed, tx__options[i].flag);
        if (d < best) best = d, found = tx__options[i].flag;
    }
    for (size_t i = 0; tx__alias(i, &spelling, &flag); i++) {
        if (!tx__option_find(cmd, flag, strlen(flag), NULL)) continue;
        int d = tx_str_distance(typed, spelling);
        if (d < best) best = d, found = spelling;
    }
    for (; own && own->flag; own++) {
        int d = tx_str_distance(typed, own->flag);
        if (d < best) best = d, found = own->flag;
    }
    return found ? found : longer(cmd, typed);
}

static void unknown_flag(struct parse *p, const char *typed)
{
    const tx_command *cmd = p->cfg->command;
    tx_str others = { 0 };
    for (size_t i = 0; i < tx__n_commands && !p->found.st; i++) {
        if (tx__commands[i].id == TX_COMMAND_ENGINE) continue; /* nobody types it */
        if (tx__option_find(&tx__commands[i], typed, strlen(typed), NULL))
            p->found.st = tx_str_printf(&others, "%s%s", others.len ? ", " : "", tx__commands[i].name);
    }
    const char *near = others.len ? NULL : nearest(cmd, p->own, typed);
    if (others.len)
        tx__violate(&p->found, "--%.60s is a flag of %s, not of %s", typed, others.data, cmd->name);
    else if (near)
        tx__violate(&p->found, "unknown flag --%.60s; did you mean --%s?", typed, near);
    else if (cmd->id == TX_COMMAND_ENGINE)
        tx__violate(&p->found, "unknown flag --%.60s", typed);
    else
        tx__violate(&p->found, "unknown flag --%.60s; triax %s --help lists the flags", typed, cmd->name);
    tx_str_free(&others);
    const tx_option *meant = near ? tx__option_find(cmd, near, strlen(near), NULL) : NULL;
    if (meant && tx__has_member(meant)) /* that it is missing would be told of the same typo */
        *tx__given(&p->cfg->given, meant) = *tx__given(&p->bad, meant) = true;
}

/* Rows without a member: at their harmless value, or refused with the row's reason. `typed`: one of a family. */
static void judge(struct parse *p, const tx_option *o, const char *typed, int n, const char *const *values)
{
    const char *flag = tx__is_family(o) ? typed : o->flag;
    int n_flag = (int)strcspn(flag, "=");
    if (o->kind == TX_OPTION_LATER) tx__violate(&p->found, "--%.*s is not built yet: %s", n_flag, flag, o->text);
    if (o->kind == TX_OPTION_REFUSED) tx__violate(&p->found, "--%.*s %s", n_flag, flag, o->text);
    if (o->kind != TX_OPTION_FIXED) return;
    for (int i = 0; i < n; i++) {
        double v, want;
        bool same = tx__word_in(o->words, values[i]) ||
                    (tx__number_parse(values[i], &v) && tx__number_parse(o->words, &want) && v == want);
        if (same) continue;
        tx__violate(&p->found, "--%s %.60s is not built yet: %s", o->flag, values[i], o->text);
        return;
    }
}

/* Takes one flag, as it was typed, with the values that belong to it. */
static void store(struct parse *p, const tx_option *o, const char *typed, int n, const char *const *values)
{
    if (!tx__has_member(o)) {
        judge(p, o, typed, n, values);
        return;
    }
    *tx__given(&p->cfg->given, o) = true;
    tx_status st = tx__option_set(p->cfg, o, n, values);
    *tx__given(&p->bad, o) = st != TX_OK; /* as for values, the last one counts */
    if (st == TX_ERR_ARG)
        tx__violate_last_error(&p->found);
    else if (st)
        p->found.st = st;
}

/* The arguments from argv[i] on that are values, not flags. */
static int count_values(const tx_command *cmd, int argc, char *const *argv, int i)
{
    int n = 0;
    while (i + n < argc && !is_flag(argv[i + n]) && !one_dash(cmd, argv[i + n])) n++;
    return n;
}

/* A flag of the client's, and its value; returns the index of the first argument behind them. */
static int take_own(struct parse *p, const tx_argument *a, int argc, char *const *argv, int i, const char *equals)
{
    bool wants = a->kind != TX_ARGUMENT_FLAG, behind = wants && !equals && i + 1 < argc && !is_flag(argv[i + 1]);
    if (equals && !wants)
        tx__violate(&p->found, "--%s takes no value, but =%.60s was given", a->flag, equals + 1);
    else if (wants && !equals && !behind)
        tx__violate(&p->found, "--%s needs a value", a->flag);
    else
        tx__argument_set(a, equals ? equals + 1 : behind ? argv[i + 1] : NULL, &p->found);
    return i + 1 + behind;
}

/* Reads the flag at argv[i] and its values; returns the index of the first argument behind them. */
static int take_flag(struct parse *p, int argc, char *const *argv, int i)
{
    const char *typed = argv[i] + 2, *equals = strchr(typed, '='), *spelling;
    size_t n_typed = equals ? (size_t)(equals - typed) : strlen(typed);
    int n_free = equals ? 0 : count_values(p->cfg->command, argc, argv, i + 1);
    const tx_argument *own = tx__argument_find(p->own, typed, n_typed);
    if (own) return take_own(p, own, argc, argv, i, equals);
    const tx_option *o = tx__option_find(p->cfg->command, typed, n_typed, &spelling);
    if (!o) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(n_typed > 127 ? 127 : n_typed), typed);
        unknown_flag(p, name);
        return i + 1 + n_free; /* its values would only be reported again */
    }
    size_t id = (size_t)(o - tx__options);
    if (tx__has_member(o) && p->typed[id] && !p->by_default[id] && p->typed[id] != spelling)
        tx__violate(&p->found, "cannot have both --%s and --%s: they are the same option", p->typed[id], spelling);
    p->typed[id] = spelling;
    p->by_default[id] = i < p->n_defaults;

    const char *inline_value = equals ? equals + 1 : NULL;
    const char *const *values = equals ? &inline_value : (const char *const *)argv + i + 1;
    int n = equals ? 1 : o->n_args < 0 || n_free < o->n_args ? n_free : o->n_args;
    if (equals && o->n_args == 0) {
        tx__violate(&p->found, "--%s takes no value, but =%.60s was given", spelling, inline_value);
    } else if (n < o->n_args) {
        tx__violate(&p->found, "--%s needs a value", spelling);
        if (tx__has_member(o)) *tx__given(&p->cfg->given, o) = *tx__given(&p->bad, o) = true;
    } else {
        p->value[id] = n > 0 ? values[0] : NULL;
        store(p, o, typed, n, values);
    }
    return i + 1 + (equals ? 0 : n);
}

int tx_config_own_flags(const char *command, int argc, char *const *argv)
{
    const tx_command *cmd = tx_command_find(command);
    int i = 0;
    while (cmd && i < argc && is_flag(argv[i])) {
        const char *typed = argv[i] + 2, *equals = strchr(typed, '=');
        const tx_option *o = tx__option_find(cmd, typed, equals ? (size_t)(equals - typed) : strlen(typed), NULL);
        if (!o) return i + 1;
        int n = equals ? 0 : o->n_args < 0 ? count_values(cmd, argc, argv, i + 1) : o->n_args;
        i += 1 + n;
    }
    return i < argc ? i : argc;
}

/* The value, or of a list the values, without a flag that some commands take first; returns the index of the argument
 * behind them. */
static int take_bare(struct parse *p, int argc, char *const *argv)
{
    const tx_option *o = tx__option_bare(p->cfg->command);
    int n = 1;
    if (o->n_args < 0) n += count_values(p->cfg->command, argc, argv, 1);
    p->typed[o - tx__options] = o->flag;
    store(p, o, o->flag, n, (const char *const *)argv);
    return n;
}

/* One line for each flag that was accepted and does nothing, and for each that has another name today. */
static void log_noops(const struct parse *p)
{
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        const char *value = p->value[i], *renamed = p->typed[i] ? tx__renamed(p->typed[i]) : NULL;
        if (o->kind == TX_OPTION_ENUM && value && tx__word_of(o, value) != value)
            tx_info("--%s %s: %s", o->flag, value, tx__word_of(o, value));
        if (renamed) tx_info("--%s %.60s: --%s, %s", p->typed[i], value ? value : "", o->flag, renamed);
        if (o->kind != TX_OPTION_NOOP || !p->typed[i]) continue;
        tx_info("--%s%s%.60s: accepted, without effect here: %s", p->typed[i], value ? " " : "", value ? value : "",
                o->text);
    }
}

/* Options for the inputs of layers that are computed again, and what leaves them without effect. */
static void log_kept_inputs(const tx_config *cfg)
{
    bool none = !tx_config_recompute(cfg).n_layers, divides = cfg->partition_activations;
    if (divides && cfg->tensor_model_parallel_size == 1)
        tx_info("--partition-activations: the tensor-parallel size is 1, activations have one part");
    else if (divides && cfg->sequence_parallel)
        tx_info("--partition-activations: --sequence-parallel divides activations between layers already");
    else if (divides && none)
        tx_info("--partition-activations: without effect, no layers are computed again (--checkpoint-activations)");
    if (cfg->checkpoint_in_cpu && none)
        tx_info("--checkpoint-in-cpu: without effect, no layers are computed again (--checkpoint-activations)");
    if (cfg->given.fpdt_chunk_size && !cfg->fpdt)
        tx_info("--ds-sequence-parallel-fpdt-chunk-size: without effect, --ds-sequence-parallel-fpdt is not given");
    if (cfg->profile_backward && none)
        tx_info("--profile-backward: nothing to time, no layers are computed again (--checkpoint-activations)");
}

/* Flags of experts where there are none. */
static void log_experts(const tx_config *cfg)
{
    const char *flag;
    char text[1024] = "";
    size_t len = 0;
    if (!cfg->num_layers || tx_config_has_experts(cfg) || (cfg->load && !cfg->given.num_experts)) return;
    for (int i = 0; (flag = tx__expert_flag(&cfg->given, TX__NO_EFFECT, i)) && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? ", " : "", flag);
    if (len) tx_info("%s: without effect, no layer has experts (--num-experts)", text);
}

/* DeepSpeed's schedules overwrite an optimizer's learning rate, if they do not begin with it. */
static void log_schedule(const tx_config *cfg)
{
    const char *name = tx_ds_schedule_kind_word(cfg->lr_schedule), *warm_flag;
    if (!name || !cfg->given.lr || cfg->lr_schedule == TX_DS_WARMUP_COSINE) return;
    tx_config_warmup_max_lr(cfg, &warm_flag);
    if (cfg->lr_schedule != TX_DS_WARMUP || strcmp(warm_flag, "lr") != 0)
        tx_info("--lr %g: without effect, the learning rates are those of %s", cfg->lr, name);
}

/* As DeepSpeed's scheduler. */
static void warn_of_lengths(const tx_config *cfg)
{
    if (cfg->given.curriculum_difficulty_step && cfg->curriculum_difficulty_step % 8)
        tx_warn_once(
            "--curriculum-difficulty-step %lld: lengths that are no multiple of 8 make products slower on GPUs",
            (long long)cfg->curriculum_difficulty_step);
}

static void log_ranks(const tx_config *cfg)
{
    if (cfg->world_size > 1 && !tx_config_searches(cfg))
        tx_info("using world size: %lld, data-parallel-size: %lld, tensor-model-parallel size: %lld, "
                "pipeline-model-parallel size: %lld",
                (long long)cfg->world_size, (long long)tx_config_data_parallel(cfg),
                (long long)cfg->tensor_model_parallel_size, (long long)cfg->pipeline_model_parallel_size);
    if (cfg->context_parallel_size > 1 && !tx_config_searches(cfg))
        tx_info("using context-parallel-size: %lld, each sample's positions divided by --cp-comm-type %s",
                (long long)cfg->context_parallel_size, tx_cp_comm_word(tx_config_cp_comm(cfg)));
    if (cfg->given.sequence_parallel && !cfg->sequence_parallel)
        tx_info("--sequence-parallel: off, the tensor-parallel size is 1");
    if (cfg->given.enable_zbh1_pipeline && !cfg->enable_zbh1_pipeline)
        tx_info("--enable-zbh1-pipeline: off, the pipeline-parallel size is 1");
}

/* What was derived instead of typed, in upstream's words; and options that another one leaves without effect. */
static void log_derived(const tx_config *cfg)
{
    const tx_config_given *g = &cfg->given;
    if (cfg->global_batch_size && !g->global_batch_size && cfg->train_iters)
        tx_info("setting global batch size to %lld", (long long)cfg->global_batch_size);
    if (cfg->train_iters && !g->train_iters)
        tx_info("setting training iterations to %lld", (long long)cfg->train_iters);
    log_ranks(cfg);
    log_kept_inputs(cfg);
    log_experts(cfg);
    log_schedule(cfg);
    if (g->use_distributed_optimizer) tx_info("--use-distributed-optimizer: ZeRO stage 1");
    if (cfg->zero_stage && tx_config_sharers(cfg) == 1 && !tx_config_searches(cfg))
        tx_info("ZeRO stage %lld: the data-parallel size is 1, everything has one part", (long long)cfg->zero_stage);
    if (g->deepspeed && !cfg->deepspeed_config)
        tx_info("--deepspeed: without --deepspeed_config the flags say everything");
    if (cfg->deepspeed_config && !g->deepspeed)
        tx_info("--deepspeed_config %.200s: switches --deepspeed on", cfg->deepspeed_config);
    if (g->deepspeed_activation_checkpointing && !cfg->checkpoint_activations && !cfg->recompute_granularity &&
        !cfg->recompute_activations)
        tx_info("--deepspeed-activation-checkpointing: accepted, without effect here: there is one recomputation here; "
                "--checkpoint-activations or --recompute-granularity turn it on");
    if (g->profile && cfg->skip_train) tx_warn_once("--profile: nothing is profiled with --skip-train");
    bool runs = cfg->command->load == TX_LOAD_RESUMES && cfg->command->id != TX_COMMAND_ENGINE;
    if (cfg->save && !g->save_interval && !cfg->skip_train && runs)
        tx_info("--save %.200s: without --save-interval the run saves at its end and on exits (--exit-interval, "
                "--exit-duration-in-mins, --kill-switch-file, signals)",
                cfg->save);
    if (!g->profile && (g->profile_steps || g->profile_step_start || g->profile_step_end))
        tx_info("--profile-steps, --profile-step-start, --profile-step-end: nothing is profiled without --profile");
    if (g->save_interval && !g->save) tx_warn_once("--save-interval: nothing is saved without --save");
    if (g->keep_last && !cfg->save) tx_warn_once("--keep-last: nothing is saved without --save");
    if (!g->tensorboard_dir &&
        (g->tensorboard_log_interval || g->log_timers_to_tensorboard || g->log_batch_size_to_tensorboard ||
         g->log_learning_rate_to_tensorboard || g->log_loss_scale_to_tensorboard ||
         g->log_validation_ppl_to_tensorboard || g->log_memory_to_tensorboard || g->log_world_size_to_tensorboard ||
         g->log_optimizer_states_to_tensorboard))
        tx_warn_once("flags for TensorBoard: nothing is written for it without --tensorboard-dir");
    if (g->text_key && !cfg->train_data.n) tx_warn_once("--text-key: is of --train-data, which is not given");
    bool scales = g->loss_scale || g->initial_loss_scale || g->min_loss_scale || g->loss_scale_window || g->hysteresis;
    if (scales && !cfg->fp16 && !(cfg->bf16 && g->loss_scale))
        tx_info("flags for the loss scale: %s has none", cfg->bf16 ? "bf16 without --loss-scale" : "fp32");
    if (cfg->fp16 && g->loss_scale &&
        (g->initial_loss_scale || g->min_loss_scale || g->loss_scale_window || g->hysteresis))
        tx_info("flags for a dynamic loss scale: --loss-scale %g is constant", cfg->loss_scale);
    bool no_file = cfg->command->load == TX_LOAD_PLANS && !cfg->vocab_file && !cfg->tokenizer_model;
    if (g->vocab_size && !tx_tokenizer_traits_of(cfg->tokenizer_type).numbers && !no_file)
        tx_warn_once("--vocab-size: the size of this vocabulary is that of its file");
    const char *tokenizer = tx_tokenizer_type_word(cfg->tokenizer_type);
    const tx_tokenizer_traits reads = tx_tokenizer_traits_of(cfg->tokenizer_type);
    bool has_files = tx_tokenizer_has_files(cfg->tokenizer_type);
    if (g->merge_file && has_files && !reads.merge_file) tx_warn_once("--merge-file: is not read by %s", tokenizer);
    if (g->vocab_file && has_files && !reads.vocab_file) tx_warn_once("--vocab-file: is not read by %s", tokenizer);
}

static void set_defaults_given(struct parse *p, bool given)
{
    for (size_t i = 0; i < tx__n_options; i++)
        if (p->by_default[i] && tx__has_member(&tx__options[i])) *tx__given(&p->cfg->given, &tx__options[i]) = given;
}

/* The file counts where it stands among the arguments: a config that others are made of (tx_config_with) has read it.
 */
static tx_status take_deepspeed(struct parse *p)
{
    const tx_option *o = tx__option_find(p->cfg->command, "deepspeed_config", strlen("deepspeed_config"), NULL);
    if (!o || !p->typed[o - tx__options] || !p->cfg->deepspeed_config) return TX_OK;
    set_defaults_given(p, false); /* what the file says counts more */
    tx_status st = tx__deepspeed_read(&p->deepspeed, p->cfg, p->typed, &p->bad, &p->found);
    set_defaults_given(p, true);
    return st;
}

/* --load latest-good: the folder that is saved into, with a flag of its own. */
static tx_status take_latest_good(struct parse *p)
{
    tx_config *cfg = p->cfg;
    if (!cfg->load || strcmp(cfg->load, "latest-good") != 0) return TX_OK;
    if (!cfg->save) {
        tx__violate(&p->found,
                    "--load latest-good is the newest good checkpoint of --save, which is not given: give its "
                    "folder, --load DIR --load-latest-good");
        return TX_OK;
    }
    cfg->load_latest_good = true;
    return tx_config_set_text(&cfg->load, cfg->save);
}

/* An argument that is no flag, and that no flag has taken; returns how many are done with. */
static int take_stray(struct parse *p, int argc, char *const *argv, int i)
{
    const tx_command *cmd = p->cfg->command;
    const tx_option *bare = tx__option_bare(cmd);
    const char *meant = one_dash(cmd, argv[i]);
    if (meant) {
        const tx_option *o = tx__option_find(cmd, meant, strcspn(meant, "="), NULL);
        int n = meant[strcspn(meant, "=")] ? 0 : count_values(cmd, argc, argv, i + 1);
        tx__violate(&p->found, "%.60s: a flag begins with two dashes: --%.60s", argv[i], meant);
        if (tx__has_member(o)) *tx__given(&p->cfg->given, o) = *tx__given(&p->bad, o) = true;
        return 1 + (o->n_args < 0 || n < o->n_args ? n : o->n_args);
    }
    if (bare && !p->typed[bare - tx__options]) return take_bare(p, argc - i, argv + i);
    if (i && is_flag(argv[i - 1]) && !strchr(argv[i - 1], '='))
        tx__violate(&p->found, "%.60s takes no value, but \"%.60s\" stands behind it", argv[i - 1], argv[i]);
    else
        tx__violate(&p->found, "\"%.60s\" is not a flag and no flag before it takes it", argv[i]);
    return 1;
}

/* All arguments, one after the other, into p->cfg; then what follows from them, and the rules. */
static tx_status take_all(struct parse *p, int argc, char *const *argv)
{
    TX_TRY(tx_alloc(&p->typed, tx__n_options, sizeof *p->typed, "the options"));
    TX_TRY(tx_alloc(&p->value, tx__n_options, sizeof *p->value, "the options"));
    TX_TRY(tx_alloc(&p->by_default, tx__n_options, sizeof *p->by_default, "the options"));
    for (int i = 0; i < argc;) i = is_flag(argv[i]) ? take_flag(p, argc, argv, i) : i + take_stray(p, argc, argv, i);
    TX_TRY(take_deepspeed(p));
    TX_TRY(take_latest_good(p));
    size_t behind = p->found.text.len;
    TX_TRY(tx__config_settle(p->cfg, &p->bad, &p->deepspeed.equation, p->advises, &p->found));
    tx__deepspeed_explain(&p->deepspeed, p->cfg, behind, &p->found);
    return tx__violations_close(&p->found);
}

static void parse_deinit(struct parse *p)
{
    tx_str_free(&p->found.text);
    tx__deepspeed_deinit(&p->deepspeed);
    tx_free(p->typed);
    tx_free(p->value);
    tx_free(p->by_default);
    tx_config_free(p->cfg);
}

/* @n_defaults arguments in the beginning that are a client's defaults */
static tx_status parse_both(tx_config **out, const char *command, const tx_argument *own, int argc, char *const *argv,
                            int n_defaults)
{
    struct parse p = { .own = own, .advises = true, .n_defaults = n_defaults };
    tx_status st;
    TX_GOTO(tx_config_new(&p.cfg, command));
    tx__arguments_check(own, p.cfg->command, &p.found);
    if (p.found.n) {
        st = tx__violations_close(&p.found);
        goto out;
    }
    TX_GOTO(take_all(&p, argc, argv));
    log_noops(&p);
    tx__deepspeed_log(&p.deepspeed);
    log_derived(p.cfg);
    warn_of_lengths(p.cfg);
    *out = p.cfg;
    p.cfg = NULL;
out:
    parse_deinit(&p);
    return st;
}

tx_status tx_config_parse(tx_config **out, const char *command, int argc, char *const *argv)
{
    return parse_both(out, command, NULL, argc, argv, 0);
}

/* Flags in one string, cut at blanks: what argv points into is *copy. */
static tx_status cut_flags(char **copy, char ***argv, int *argc, const char *flags)
{
    size_t n = strlen(flags);
    char *rest = NULL;
    if (n > INT_MAX / 2) return TX_FAIL(TX_ERR_ARG, "the flags are %zu bytes long; at most %d", n, INT_MAX / 2);
    TX_TRY(tx_memdup0(copy, flags, n, "the flags"));
    TX_TRY(tx_alloc(argv, n / 2 + 1, sizeof **argv, "the flags"));
    for (char *arg = strtok_r(*copy, " \t\r\n", &rest); arg; arg = strtok_r(NULL, " \t\r\n", &rest))
        (*argv)[(*argc)++] = arg;
    return TX_OK;
}

tx_status tx_add_config_arguments(tx_config **out, const char *command, const tx_argument *own, int argc,
                                  char *const *argv, const char *defaults)
{
    char *copy = NULL, **first = NULL, **all = NULL;
    int n = 0;
    tx_status st;
    if (!defaults) return parse_both(out, command, own, argc, argv, 0);
    TX_GOTO(cut_flags(&copy, &first, &n, defaults));
    TX_GOTO(tx_alloc(&all, (size_t)(n + argc) + 1, sizeof *all, "the flags"));
    for (int i = 0; i < n + argc; i++) all[i] = i < n ? first[i] : argv[i - n];
    st = parse_both(out, command, own, n + argc, all, n);
out:
    tx_free(all);
    tx_free(first);
    tx_free(copy);
    return st;
}

tx_status tx_config_parse_string(tx_config **out, const char *command, const char *flags)
{
    char *copy = NULL, **argv = NULL;
    int argc = 0;
    tx_status st = cut_flags(&copy, &argv, &argc, flags);
    if (!st) st = tx_config_parse(out, command, argc, argv);
    tx_free(argv);
    tx_free(copy);
    return st;
}

tx_status tx_config_with(tx_config **out, const tx_config *cfg, const char *flags)
{
    struct parse p = { 0 };
    char *copy = NULL, **argv = NULL;
    int argc = 0;
    tx_status st;
    TX_GOTO(config_alloc(&p.cfg, cfg->command));
    for (size_t i = 0; i < tx__n_options; i++)
        if (tx__has_member(&tx__options[i])) TX_GOTO(tx__option_copy(p.cfg, cfg, &tx__options[i]));
    p.cfg->given = cfg->given;
    p.cfg->teacher =
        json_deep_copy(cfg->teacher); /* several threads may read cfg, and references are counted for one */
    if (cfg->teacher && !p.cfg->teacher) TX_GOTO(TX_FAIL(TX_ERR_NOMEM, "not enough memory for the teacher's options"));
    TX_GOTO(cut_flags(&copy, &argv, &argc, flags));
    TX_GOTO(take_all(&p, argc, argv));
    *out = p.cfg;
    p.cfg = NULL;
out:
    tx_free(argv);
    tx_free(copy);
    parse_deinit(&p);
    return st;
}

tx_log_level tx_config_log_level(const tx_config *cfg)
{
    switch (cfg->log_level) {
    case TX_LOG_LEVEL_ERROR:
    case TX_LOG_LEVEL_CRITICAL:
        return TX_LOG_ERROR;
    case TX_LOG_LEVEL_WARN:
    case TX_LOG_LEVEL_WARNING:
        return TX_LOG_WARN;
    case TX_LOG_LEVEL_INFO:
        return TX_LOG_INFO;
    case TX_LOG_LEVEL_DEBUG:
        return TX_LOG_DEBUG;
    case TX_LOG_LEVEL_TRACE:
        return TX_LOG_TRACE;
    }
    TX_ASSERT(false && "a word of --log-level");
    return TX_LOG_INFO;
}
