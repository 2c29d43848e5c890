/* tensorboard.c - TensorBoard's event files. */
#include "report/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* ---- records ---- */

uint32_t tx__crc32c(const void *bytes, size_t n)
{
    const unsigned char *p = bytes; /* bit by bit: a step writes a few kilobytes */
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

uint32_t tx__crc32c_masked(const void *bytes, size_t n)
{
    uint32_t crc = tx__crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static tx_status put_little_endian(tx_str *out, uint64_t x, int n_bytes)
{
    unsigned char b[8];
    for (int i = 0; i < n_bytes; i++) b[i] = (unsigned char)(x >> 8 * i);
    return tx_str_append(out, b, (size_t)n_bytes);
}

static tx_status put_record(tx_str *out, const tx_str *event)
{
    size_t at = out->len;
    TX_TRY(put_little_endian(out, event->len, 8));
    TX_TRY(put_little_endian(out, tx__crc32c_masked(out->data + at, 8), 4));
    TX_TRY(tx_str_append(out, event->data, event->len));
    return put_little_endian(out, tx__crc32c_masked(event->data, event->len), 4);
}

/* ---- protocol buffers: a field is (number << 3 | wire type) and its value ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static tx_status put_varint(tx_str *out, uint64_t x)
{
    do {
        unsigned char b = (unsigned char)((x & 127) | (x > 127 ? 128 : 0));
        TX_TRY(tx_str_append(out, &b, 1));
    } while (x >>= 7);
    return TX_OK;
}

static tx_status put_field(tx_str *out, int number, int type)
{
    return put_varint(out, (uint64_t)(number << 3 | type));
}

static tx_status put_bytes(tx_str *out, int number, const void *bytes, size_t n)
{
    TX_TRY(put_field(out, number, BYTES));
    TX_TRY(put_varint(out, n));
    return tx_str_append(out, bytes, n);
}

/* Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5 }
 * The last two are the `payload`, as field number `what`. */
static tx_status put_event(tx_tensorboard *tb, int64_t step, int what, const void *payload, size_t n)
{
    tx_str *event = &tb->event;
    uint64_t bits;
    memcpy(&bits, &tb->wall_time, sizeof bits);
    event->len = 0;
    TX_TRY(put_field(event, 1, FIXED64));
    TX_TRY(put_little_endian(event, bits, 8));
    TX_TRY(put_field(event, 2, VARINT));
    TX_TRY(put_varint(event, (uint64_t)step));
    TX_TRY(put_bytes(event, what, payload, n));
    return put_record(&tb->records, event);
}

/* Summary { Value value = 1 }: tb->value as an event. */
static tx_status put_value(tx_tensorboard *tb, int64_t step)
{
    tb->summary.len = 0;
    TX_TRY(put_bytes(&tb->summary, 1, tb->value.data, tb->value.len));
    return put_event(tb, step, 5, tb->summary.data, tb->summary.len);
}

/* Value { string tag = 1; float simple_value = 2 } */
static tx_status put_scalar(tx_tensorboard *tb, const char *tag, int64_t step, double y)
{
    float f = (float)y;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    tb->value.len = 0;
    TX_TRY(put_bytes(&tb->value, 1, tag, strlen(tag)));
    TX_TRY(put_field(&tb->value, 2, FIXED32));
    TX_TRY(put_little_endian(&tb->value, bits, 4));
    return put_value(tb, step);
}

/* Value { tag = 1; TensorProto tensor = 8 { dtype = 1: 7, string; tensor_shape = 2; string_val = 8 };
 * SummaryMetadata metadata = 9 { plugin_data = 1 { plugin_name = 1: "text" } } }, as add_text of PyTorch makes it */
static tx_status put_text(tx_tensorboard *tb, const char *name, int64_t step, const char *text)
{
    static const char one_string[] = { 1 << 3 | VARINT, 7, 2 << 3 | BYTES, 4, 2 << 3 | BYTES, 2, 1 << 3 | VARINT, 1 };
    static const char plugin[] = { 1 << 3 | BYTES, 6, 1 << 3 | BYTES, 4, 't', 'e', 'x', 't' };
    char tag[128];
    int n_tag = snprintf(tag, sizeof tag, "%s/text_summary", name); /* names of options are short */
    tx_str *tensor = &tb->summary;
    tensor->len = tb->value.len = 0;
    TX_TRY(tx_str_append(tensor, one_string, sizeof one_string));
    TX_TRY(put_bytes(tensor, 8, text, strlen(text)));
    TX_TRY(put_bytes(&tb->value, 1, tag, (size_t)n_tag));
    TX_TRY(put_bytes(&tb->value, 8, tensor->data, tensor->len));
    TX_TRY(put_bytes(&tb->value, 9, plugin, sizeof plugin));
    return put_value(tb, step);
}

/* ---- Megatron's tags ---- */

static bool is_deepspeeds(const tx_tensorboard *tb)
{
    return tb->cfg->log_dialect == TX_DIALECT_MEGATRON_DEEPSPEED;
}

/* Megatron-LM: "name" and "name vs samples". Megatron-DeepSpeed: a group in front, and also "vs tokens". */
static tx_status put_series(tx_tensorboard *tb, const tx_step_record *r, const char *group, const char *name, double y)
{
    bool deepspeed = is_deepspeeds(tb);
    char tag[512];
    snprintf(tag, sizeof tag, "%s%s%s", deepspeed ? group : "", deepspeed ? "/" : "", name);
    size_t n = strlen(tag);
    TX_TRY(put_scalar(tb, tag, r->iteration, y));
    snprintf(tag + n, sizeof tag - n, " vs samples");
    TX_TRY(put_scalar(tb, tag, r->consumed_samples, y));
    if (!deepspeed) return TX_OK;
    snprintf(tag + n, sizeof tag - n, " vs tokens");
    return put_scalar(tb, tag, r->consumed_tokens, y);
}

/* Which iteration had how many samples and tokens, and the other way round: Megatron-DeepSpeed's. */
static tx_status put_axes(tx_tensorboard *tb, const tx_step_record *r)
{
    if (!is_deepspeeds(tb)) return TX_OK;
    TX_TRY(put_scalar(tb, "steps-vs-samples/y=steps,x=samples", r->consumed_samples, (double)r->iteration));
    TX_TRY(put_scalar(tb, "steps-vs-samples/y=samples,x=steps", r->iteration, (double)r->consumed_samples));
    TX_TRY(put_scalar(tb, "steps-vs-tokens/y=steps,x=tokens", r->consumed_tokens, (double)r->iteration));
    return put_scalar(tb, "steps-vs-tokens/y=tokens,x=steps", r->iteration, (double)r->consumed_tokens);
}

/* Megatron-DeepSpeed's tags in either dialect: Megatron-LM has none. */
static tx_status put_magnitude(tx_tensorboard *tb, const tx_step_record *r, const char *name, const tx_magnitude *x)
{
    const struct {
        const char *kind;
        double y;
    } all[] = { { "l2", x->l2 }, { "l1", x->l1 }, { "abs_max", x->abs_max } };
    for (int i = 0; i < 3; i++) {
        char tag[128];
        snprintf(tag, sizeof tag, "optimizer/%s_%s", name, all[i].kind);
        TX_TRY(put_scalar(tb, tag, r->iteration, all[i].y));
        snprintf(tag, sizeof tag, "optimizer/%s_%s vs tokens", name, all[i].kind);
        TX_TRY(put_scalar(tb, tag, r->consumed_tokens, all[i].y));
    }
    return TX_OK;
}

/* Megatron Core's tags as far as it has some, and with --moe-per-layer-logging each layer's. */
static tx_status put_experts(tx_tensorboard *tb, const tx_step_record *r)
{
    const tx_expert_means *m = &r->experts;
    TX_TRY(put_series(tb, r, "experts", "load_balancing_loss", m->aux_loss));
    TX_TRY(put_series(tb, r, "experts", "z_loss", m->z_loss));
    TX_TRY(put_series(tb, r, "experts", "dropped_share", m->dropped));
    TX_TRY(put_series(tb, r, "experts", "load_imbalance", m->imbalance));
    for (int k = 0; k < r->n_expert_layers && tb->cfg->moe_per_layer_logging; k++) {
        const tx_expert_record *layer = &r->expert[k];
        const tx_expert_means own = tx_expert_means_of(layer, 1);
        const tx_named_number all[] = { { "load_balancing_loss", own.aux_loss },
                                        { "z_loss", own.z_loss },
                                        { "dropped_share", own.dropped },
                                        { "load_imbalance", own.imbalance } };
        for (int i = 0; i < 4; i++) {
            char tag[64];
            snprintf(tag, sizeof tag, "moe/%s_layer_%lld", all[i].name, (long long)layer->layer - 1);
            TX_TRY(put_scalar(tb, tag, r->iteration, all[i].value));
        }
    }
    return TX_OK;
}

static tx_status put_step(tx_tensorboard *tb, const tx_step_record *r)
{
    const tx_config *c = tb->cfg;
    if (r->iteration % c->tensorboard_log_interval) return TX_OK;
    TX_TRY(put_axes(tb, r));
    if (c->log_learning_rate_to_tensorboard) TX_TRY(put_series(tb, r, "learning-rate", "learning-rate", r->lr));
    if (c->log_learning_rate_to_tensorboard && r->decoupled_lr >= 0)
        TX_TRY(put_scalar(tb, "decoupled-learning-rate", r->iteration, r->decoupled_lr));
    if (c->log_batch_size_to_tensorboard)
        TX_TRY(put_series(tb, r, "batch-size", "batch-size", (double)r->global_batch_size));
    if (!isnan(r->loss)) TX_TRY(put_series(tb, r, "lm-loss-training", "lm loss", r->loss));
    for (int i = 0; i < r->n_other_losses; i++)
        if (!isnan(r->other_loss[i].value))
            TX_TRY(put_series(tb, r, "lm-loss-training", r->other_loss[i].name, r->other_loss[i].value));
    if (r->expert && !isnan(r->loss)) TX_TRY(put_experts(tb, r));
    if (c->log_loss_scale_to_tensorboard) TX_TRY(put_series(tb, r, "loss-scale", "loss-scale", r->loss_scale));
    if (c->log_world_size_to_tensorboard) TX_TRY(put_series(tb, r, "world-size", "world-size", 1));
    TX_TRY(put_series(tb, r, "grad-norm", "grad-norm", r->grad_norm));
    if (r->optim) {
#define X(name) TX_TRY(put_magnitude(tb, r, #name, &r->optim->name));
        TX_OPTIM_STATES(X)
#undef X
    }
    if (r->num_zeros >= 0) TX_TRY(put_series(tb, r, "num-zeros", "num-zeros", r->num_zeros));
    if (r->max_attention_logit >= 0)
        TX_TRY(put_scalar(tb, "max_attention_logit", r->iteration, r->max_attention_logit));
    if (r->params_norm >= 0) TX_TRY(put_series(tb, r, "params-norm", "params-norm", r->params_norm));
    if (r->curriculum_length || r->reserved_length)
        TX_TRY(put_series(tb, r, "seqlen", "actual_seq_length", (double)r->seq_length));
    if (r->curriculum_length) TX_TRY(put_series(tb, r, "seqlen", "curriculum_seqlen", (double)r->curriculum_length));
    if (r->reserved_length)
        TX_TRY(put_series(tb, r, "seqlen", "random_ltd_reserved_length", (double)r->reserved_length));
    if (r->layer_theta > 0) TX_TRY(put_scalar(tb, "progressive-layer-drop-theta", r->iteration, r->layer_theta));
    return TX_OK;
}

static tx_status put_interval(tx_tensorboard *tb, const tx_step_record *r)
{
    static const char *const tag[] = {
#define X(id, text, level, key) text "-time",
        TX_TIMERS(X)
#undef X
    };
    const tx_config *c = tb->cfg;
    if (c->log_memory_to_tensorboard) {
        TX_TRY(put_scalar(tb, "mem-reserved-bytes", r->iteration, (double)r->peak_resident_bytes));
        TX_TRY(put_scalar(tb, "mem-allocated-bytes", r->iteration, (double)r->memory_bytes));
    }
    if (!c->log_timers_to_tensorboard) return TX_OK;
    TX_TRY(put_series(tb, r, "iteration-time", "iteration-time", r->elapsed_ms * 1e-3));
    if (!isnan(r->peak_share)) TX_TRY(put_series(tb, r, "peak-share", "peak-share", r->peak_share));
    for (int i = 0; i < TX_N_TIMERS; i++)
        if (r->time_ms[i] > 0) TX_TRY(put_scalar(tb, tag[i], r->iteration, r->time_ms[i] * 1e-3));
    return TX_OK;
}

/* A task's numbers: "LAMBADA lambada.jsonl accuracy". */
static tx_status put_task(tx_tensorboard *tb, const tx_step_record *r)
{
    char name[400];
    snprintf(name, sizeof name, "%.300s loss", r->name);
    TX_TRY(put_series(tb, r, "tasks", name, r->loss));
    for (int i = 0; i < r->n_more; i++) {
        snprintf(name, sizeof name, "%.300s %.64s", r->name, r->more[i].name);
        TX_TRY(put_series(tb, r, "tasks", name, r->more[i].value));
    }
    return TX_OK;
}

static tx_status put_evaluated(tx_tensorboard *tb, const tx_step_record *r, const char *kind, double loss)
{
    char name[256];
    snprintf(name, sizeof name, "%s %s", kind, r->name);
    TX_TRY(put_series(tb, r, "lm-loss-validation", name, loss));
    if (!tb->cfg->log_validation_ppl_to_tensorboard) return TX_OK;
    snprintf(name, sizeof name, "%s %s ppl", kind, r->name);
    return put_series(tb, r, "lm-loss-validation", name, exp(fmin(20, loss)));
}

static tx_status put_evaluation(tx_tensorboard *tb, const tx_step_record *r)
{
    if (r->more) return put_task(tb, r);
    TX_TRY(put_evaluated(tb, r, "lm loss", r->loss));
    for (int i = 0; i < r->n_other_losses; i++)
        TX_TRY(put_evaluated(tb, r, r->other_loss[i].name, r->other_loss[i].value));
    return TX_OK;
}

/* ---- the file ---- */

static tx_status flush(tx_tensorboard *tb, tx_status st)
{
    if (!st) st = tx_append_put(&tb->file, tb->records.data, tb->records.len);
    tb->records.len = 0;
    return st;
}

typedef struct options_text {
    tx_tensorboard *tb;
    int64_t iteration;
} options_text;

static tx_status put_option(void *user, const char *name, const char *value)
{
    options_text *o = user;
    return put_text(o->tb, name, o->iteration, value);
}

static tx_status create_file(tx_append *file, const char *dir, double now)
{
    char host[128] = "", name[256], path[4096];
    gethostname(host, sizeof host - 1);
    for (int n = 0;; n++) { /* two starts of one second and process number are two files */
        snprintf(name, sizeof name, "events.out.tfevents.%010.0f.%s.%ld.%d", floor(now), host, (long)getpid(), n);
        TX_TRY(tx_path_join(path, sizeof path, dir, name));
        tx_status st = tx_append_open(file, path, true);
        if (st != TX_ERR_STATE) return st;
    }
}

tx_status tx_tensorboard_open(tx_tensorboard *tb, const tx_config *cfg, int64_t iteration)
{
    *tb = (tx_tensorboard){ .cfg = cfg, .wall_time = tx_clock_unix() };
    options_text all = { tb, iteration };
    static const char version[] = "brain.Event:2";
    tx_status st;
    TX_GOTO(tx_make_dirs(cfg->tensorboard_dir));
    TX_GOTO(create_file(&tb->file, cfg->tensorboard_dir, tb->wall_time));
    TX_GOTO(put_event(tb, 0, 3, version, sizeof version - 1));
    TX_GOTO(tx_config_each(cfg, put_option, &all));
    TX_GOTO(flush(tb, TX_OK));
out:
    if (st) tx_tensorboard_close(tb);
    return st;
}

tx_status tx_tensorboard_put(tx_tensorboard *tb, const tx_step_record *r)
{
    tb->wall_time = tx_clock_unix();
    tx_status st = r->kind == TX_RECORD_STEP       ? put_step(tb, r)
                   : r->kind == TX_RECORD_INTERVAL ? put_interval(tb, r)
                                                   : put_evaluation(tb, r);
    return flush(tb, st);
}

tx_status tx_tensorboard_scalars(tx_tensorboard *tb, const tx_named_number *x, int n, int64_t step)
{
    tx_status st = TX_OK;
    tb->wall_time = tx_clock_unix();
    for (int i = 0; i < n && !st; i++) st = put_scalar(tb, x[i].name, step, x[i].value);
    return flush(tb, st);
}

void tx_tensorboard_close(tx_tensorboard *tb)
{
    tx_append_close(&tb->file);
    tx_str_free(&tb->records);
    tx_str_free(&tb->event);
    tx_str_free(&tb->summary);
    tx_str_free(&tb->value);
    *tb = (tx_tensorboard){ 0 };
}
