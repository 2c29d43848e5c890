/* trainer.h - one rank's training state and the three verbs of a step. With several ranks every call is collective, and
 * what it returns (losses, norms, counts) is the same on all of them.
 *
 *   iteration   1                     2
 *   micro-batch | 0   1 ... n-1 |     | 0 ...          n = batch size of the iteration / micro_batch_size / data ranks
 *   forward       f   f     f
 *   backward        b   b     b
 *   step              .   .     U                       . = no update, U = clip, update, schedule, counters
 *
 *  When the trainer is created, a dry run of the step finds the memory that it needs (plan.h). Nothing is allocated
 * afterwards.
 */
#ifndef TX_TRAIN_TRAINER_H
#define TX_TRAIN_TRAINER_H

#include "base/step_record.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "convert/save_as.h"
#include "convert/source.h"
#include "model/model.h"
#include "optim/deepspeed_schedule.h"
#include "optim/loss_scaler.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "train/plan.h"
#include "train/stage.h"

/* Sets *rows to this rank's samples of micro-batch `micro` of the iteration, from 0: [b][row_len] as the model reads
 * them (tx_model_type), for GPT s + 1 ids. Borrowed until the next call. */
typedef tx_status tx_micro_batch_fn(void *user, int64_t micro, const void **rows);

#define TX_MOE_LOSS "moe loss" /* as Megatron-DeepSpeed logs it */

/* What the next log line reports about the iterations since the last one. It is part of the saved state, so that a run
 * that was saved between two log lines and resumed logs the same lines as one that was not. Times are not: they belong
 * to a process, and metrics.h keeps them. */
typedef struct tx_interval {
    int64_t taken, skipped, nan;    /* iterations; nan: of the skipped ones, those whose loss was not finite */
    double loss_sum[TX_MAX_LOSSES]; /* over the taken ones */
    double moe_loss_sum;            /* likewise, of layers with experts: their own losses */
    bool complete;                  /* the line is due: the next iteration begins another interval */
} tx_interval;

typedef struct tx_trainer {
    const tx_config *cfg;    /* borrowed */
    const tx_grid *grid;     /* borrowed */
    const tx_client *client; /* borrowed */
    bool train;              /* false: it can only load and evaluate */
    tx_ctx ctx;
    tx_model *model;
    tx_stage stage; /* the micro-batches' buffers and activations */
    tx_zero zero;   /* parameters, gradients and the optimizer: this rank's share */
    tx_loss_scaler scaler;
    tx_schedule schedule;
    tx_schedule_place place;
    tx_ds_schedule ds_schedule; /* where there is one, `schedule` is that of weight decay alone */
    int64_t schedule_steps;     /* of it, or of the client's: one for each update taken, or as the user has moved it */
    int64_t s, b;
    int64_t length;  /* positions that the current iteration, or the last one, trains on: s, or with a curriculum the
                        first so many */
    int64_t kept;    /* of these, what layers with --random-ltd compute: all, or fewer */
    int64_t n_micro; /* of this rank: of the current iteration or the last one; before any, of the first or next */
    int32_t eod;     /* token after which a document ends, or -1 */

    int64_t micro;    /* micro-batches of the current iteration that are done */
    bool grads_begin; /* the next micro-batch is the first that contributes to the gradients */
    enum { TX_WANT_FORWARD, TX_WANT_BACKWARD, TX_WANT_STEP } want;
    int64_t iteration; /* finished ones */
    int64_t consumed_train_samples, consumed_valid_samples, consumed_train_tokens;
    int64_t skipped;
    tx_interval interval;
    enum {
        TX_STEP_TAKEN,
        TX_STEP_OVERFLOWED, /* skipped; a lower loss scale cures it */
        TX_STEP_FAULTY      /* skipped; no loss scale cures it */
    } last_step;
    int64_t consecutive_skips; /* faulty ones since a step was taken */
    double lr;                 /* for the next update, as Megatron logs it */
    double decoupled_lr;       /* likewise, of the word embedding and the output layer; negative: lr is theirs, too */
    double lr_override;        /* >= 0: the user's own for the next update */
    tx_optim_setting *setting; /* what the user has set for the parameter groups; the first is for parameters in none of
                                  them; owned */
    tx_optim_rates *rates;     /* likewise, sums of rates (optim.h); owned */
    double weight_decay;
    double iteration_loss;        /* mean over the micro-batches so far; after a step over those of all ranks */
    double losses[TX_MAX_LOSSES]; /* what it is the sum of, as model->loss_name has them */
    double moe_loss;              /* of layers with experts, as iteration_loss: their own losses in the objective */
    tx_expert_record *expert; /* [n_expert_layers] of the whole model, of the last iteration or evaluation; owned; NULL:
                                 none has some */
    int n_expert_layers;
    tx_expert_means expert_means;
    float *logits;  /* owned: the model's max_logits, in the host's memory, and those of all data-parallel ranks; NULL:
                       nobody asks for them */
    float *largest; /* owned: [ranks of the model], the largest of each */
    double *qk_scale;            /* owned, with --qk-clip: what heads of each layer are multiplied by */
    double max_attention_logit;  /* with --log-max-attention-logit, of the last iteration */
    float *expert_bias;          /* owned: the model's expert_bias, in the host's memory; NULL: there is none */
    double *expert_sums;         /* owned: [n_expert_layers, tx_moe_n_sums] of all ranks, and room for their parts */
    double grad_norm;            /* before clipping, of the last iteration */
    double params_norm;          /* with --log-params-norm */
    double num_zeros;            /* with --log-num-zeros-in-grad: how many gradients of the last iteration are 0 */
    tx_optim_states states;      /* with --log-optimizer-states-to-tensorboard, of its iterations */
    double seconds[TX_N_TIMERS]; /* of the last update's parts */
    int64_t dump_iteration;      /* --dump-step, or 0 */
    int32_t *dump_tokens;        /* [global batch, row_len] of that iteration */
    double *all_losses;          /* [ranks with the same parameters, TX_MAX_LOSSES] */
    tx_loss_sum *part_losses;    /* [ranks that divide positions, TX_MAX_LOSSES] */
    float *own_losses; /* 3 times [b, losses] of a user-defined model: losses, gradients by them, weights; owned, or
                          NULL */
    char *origin;      /* checkpoint that the state was read from or saved to last; owned; NULL: initial weights */
    bool origin_own;   /* this trainer saved it */
    bool replaces_run; /* --overwrite-run: the next save removes what another run has left */
    char *loaded;      /* the native checkpoint that the run resumes from; owned, or NULL */
    size_t gpu_free;   /* as planned (tx_memory) */
    char *products;    /* algorithms of the GPU's matrix products (products.h); owned, or NULL: not agreed yet */
    float *copy;       /* --async-save: copy of what this rank saves (tx_memory.saving); owned, or NULL */
    const tx_ckpt_tokenizer *tokenizer; /* saved in checkpoints; borrowed, or NULL */
    json_t *blend_phase; /* as loaded, and as the next checkpoint saves it (data/blend_phase.h); owned, or NULL */
} tx_trainer;

/* Whether t->states holds the last iteration's values. */
bool tx_trainer_has_states(const tx_trainer *t);

/* The option that needs to know where documents end, as it is typed; NULL: none. */
const char *tx_trainer_eod_flag(const tx_config *cfg);

typedef struct tx_trainer_args {
    const tx_config *cfg;    /* complete; must outlive the trainer, as must the next two */
    const tx_grid *grid;     /* NULL: one rank alone */
    const tx_client *client; /* NULL: there is none */
    int64_t vocab_size;
    int32_t eod; /* -1: there is none */
    bool train;
} tx_trainer_args;

/* Builds the model for `vocab_size` tokens, plans and allocates all memory, and draws the initial weights. Without
 * `train` there are no gradients, no optimizer and no initial weights: the trainer can only load and evaluate.
 * TX_ERR_ARG: an option needs an eod. TX_ERR_NOMEM, with `train`: --memory-limit is exceeded; this is found before
 * anything large is allocated, and the message has the changes that make the run fit (fit.h). */
tx_status tx_trainer_open(tx_trainer **out, const tx_trainer_args *args);

/* The same without user-defined parts. */
tx_status tx_trainer_create(tx_trainer **out, const tx_config *cfg, int64_t vocab_size, int32_t eod, bool train,
                            const tx_grid *grid);
void tx_trainer_destroy(tx_trainer *t); /* NULL allowed */

/* Sets the weights from another source: fill() writes them into a flat fp32 buffer of all parameters in the table. The
 * buffer is allocated for the call if there is none. Collective. TX_ERR_NOMEM, or fill's. */
typedef tx_status tx_weights_fn(void *user, const tx_params *ps, float *weights);
tx_status tx_trainer_set_weights(tx_trainer *t, tx_weights_fn *fill, void *user);

/* A whole iteration: forward and backward of its micro-batches, in the order of the pipeline schedule, then step.
 * Errors: those of step. */
tx_status tx_trainer_train(tx_trainer *t, tx_micro_batch_fn *read, void *user);

/* The same in single calls, if there is no pipeline (else TX_ERR_STATE). Runs the iteration's next micro-batch.
 * @rows [b][row_len]
 * @loss this rank's mean over the micro-batch's tokens, in nats; the sum, if there are several losses */
tx_status tx_trainer_forward(tx_trainer *t, const void *rows, double *loss);
tx_status tx_trainer_backward(tx_trainer *t);

/* reweigh.c: between the two, of a user-defined model (else TX_ERR_UNSUPPORTED): its losses of the micro-batch, [b,
 * losses]; and backward of another objective than their mean, which is factor times it, or with dloss [b, losses] the
 * function of them that has this gradient. */
tx_status tx__trainer_losses(tx_trainer *t, float *loss);
tx_status tx__trainer_reweigh(tx_trainer *t, double factor, const float *dloss);
tx_status tx__trainer_take_losses(tx_trainer *t); /* memory for these */
/* After the iteration's last micro-batch: clips, updates, counts. Otherwise only counts. TX_ERR_NUMERIC: gradients
 * were not finite --max-consecutive-skips times in a row (the message names the first bad tensor); the state is that
 * after the last of these steps. */
tx_status tx_trainer_step(tx_trainer *t);

/* Whether the next tx_trainer_step updates. */
bool tx_trainer_at_boundary(const tx_trainer *t);

/* Losses without dropout and without gradients; the training state is unchanged. Summed over the counted tokens of the
 * micro-batch's first n_samples rows, since a dataset need not end with a full batch.
 * @rows [b][row_len], all readable
 * @sum [n_losses] */
tx_status tx_trainer_evaluate(tx_trainer *t, const void *rows, int64_t n_samples, tx_loss_sum *sum);

/* Whether an evaluation is to stop early. All ranks ask together after each iteration's worth of micro-batches. */
typedef struct tx_stop {
    tx_status (*ask)(struct tx_stop *s, bool *yes); /* the same on all ranks */
    void *user;
    bool stopped; /* it did: the result is worth nothing */
} tx_stop;

/* Mean losses over n_samples samples, without dropout and gradients. The samples are the first ones when the
 * data-parallel ranks' micro-batches are taken in turn. The mean of a micro-batch is weighted by its number of
 * samples.
 * @mean [n_losses]
 * @stop NULL: never end early */
tx_status tx_trainer_score(tx_trainer *t, int64_t n_samples, tx_micro_batch_fn *read, void *user, double *mean,
                           tx_stop *stop);

/* The sum, over the data-parallel ranks, of numbers that the ranks of the last stage have; all ranks get it.
 * Collective.
 * @x [n] */
tx_status tx_trainer_sum(const tx_trainer *t, double *x, int n);

/* Whether the learning rate is not the options' schedule's, but DeepSpeed's or the user's. */
static inline bool tx_trainer_counts_steps(const tx_trainer *t)
{
    return t->ds_schedule.kind || t->client->lr;
}

/* optim_settings.c: what the user has set of the optimizer: whether there is anything, as an object that the caller
 * json_decref()s, and back, or with `apply` false only checked; TX_ERR_FORMAT: it is not of these groups, or none. */
bool tx__trainer_has_settings(const tx_trainer *t);
tx_status tx__trainer_settings_to_json(const tx_trainer *t, json_t **out);
tx_status tx__trainer_settings_from_json(tx_trainer *t, const json_t *saved, bool apply);

/* The learning rate of the next update. */
static inline double tx_trainer_lr(const tx_trainer *t)
{
    return t->lr_override >= 0 ? t->lr_override : t->lr;
}

static inline double tx_trainer_decoupled_lr(const tx_trainer *t)
{
    return t->lr_override >= 0 && t->decoupled_lr >= 0 ? t->lr_override : t->decoupled_lr;
}

/* trainer_step.c: the coming forwards are of the current iteration's training samples, or of whole ones. */
void tx__trainer_train_length(tx_trainer *t);
void tx__trainer_whole_length(tx_trainer *t);

/* What its samples are: the model's kind, or conversations. */
const tx_samples *tx_trainer_samples(const tx_trainer *t);

/* Whether what the last iteration has sent is what the formulas of volumes say, in whose layers tensor ranks sum
 * all tokens of every micro-batch, and context ranks exchange all. */
bool tx__trainer_sums_all(const tx_trainer *t);

/* How many numbers a sample has. */
int64_t tx_trainer_row_len(const tx_trainer *t);

/* Samples per iteration, over all ranks. */
int64_t tx_trainer_batch_size(const tx_trainer *t);

/* TX_ERR_STATE if an iteration is in progress: "<a checkpoint is saved> only between iterations". */
tx_status tx_trainer_require_idle(const tx_trainer *t, const char *what);

/* Checkpoint under dir, in --save-format's (convert/save_as.h); then --keep-last. @tag the user's own name for it,
 * NULL: iter_<iteration>
 * @client_state saved with it, NULL: none; rank 0's counts. TX_ERR_NUMERIC: a parameter is not finite; nothing is
 * written. */
tx_status tx_trainer_save(tx_trainer *t, const char *dir, const char *tag, json_t *client_state);

/* The same beside the run's own checkpoints: the run does not go on from it, and no older one is removed. */
tx_status tx_trainer_save_apart(tx_trainer *t, const char *dir);

#define TX_CLIENT_STATE "client_state" /* in a checkpoint's config */

/* What a save writes: the state of the run, and the numbers, which are the trainer's own or with `copy` those in
 * t->copy, so that steps can continue. Collective; TX_ERR_NUMERIC as above. */
typedef struct tx_snapshot {
    tx_ckpt_state state;
    json_t *config; /* owned */
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    int n_parts;
} tx_snapshot;
tx_status tx_trainer_snapshot(tx_trainer *t, tx_snapshot *out, bool copy);
void tx_snapshot_free(tx_snapshot *s); /* a zeroed one is fine */

/* Bytes of the numbers that this rank leaves in a checkpoint, and more that a save takes while it is running. */
int64_t tx__trainer_save_bytes(const tx_trainer *t, int64_t *passing);

/* Saves a snapshot in two steps: tx_save_begin, and what follows when all ranks have succeeded. */
tx_status tx__trainer_save_begin(tx_trainer *t, const tx_snapshot *what, const char *dir, tx_save **out);
tx_status tx__trainer_saved(tx_trainer *t, const char *dir, const tx_ckpt_state *state);

/* Loads everything from an opened checkpoint of a format that resumes, as far as the options ask for it (--finetune,
 * --no-load-optim, ...). TX_ERR_ARG: its schedule is another (optim/schedule.h); TX_ERR_NOTFOUND: it has no state for
 * this optimizer. The trainer is unchanged on failure. */
tx_status tx_trainer_load(tx_trainer *t, tx_source *from);

/* The weights alone, in place; where the run has adapters and the checkpoint has none, those stay as they are. */
tx_status tx_trainer_read_weights(tx_trainer *t, tx_source *from);

/* Records that the weights were read from `path`, in another format. TX_ERR_NOMEM */
tx_status tx_trainer_set_origin(tx_trainer *t, const char *path);

/* Allocated memory, in bytes. */
tx_memory tx_trainer_memory(const tx_trainer *t);

/* Of the objective, which is the mean over all ranks' micro-batches of each one's mean losses (Megatron's loss
 * averaging) times the loss scale. */
double tx__trainer_scale(const tx_trainer *t);

/* Writes samples into a batch's buffers. */
tx_status tx__trainer_fill_batch(const tx_trainer *t, tx_batch *batch, const void *rows);

/* From now on all ranks' GPUs make matrix products alike; t->products is how. Collective. */
tx_status tx__trainer_agree_products(tx_trainer *t);

/* Notes what this rank is doing, for ranks that wait for it (tx_world_note). */
void tx__trainer_note(const tx_trainer *t, const char *what);

/* Sets the learning rate, Adam's betas if the schedule has them, and weight decay for the next update.
 * tx__trainer_n_micro: how many micro-batches the next iteration has. */
void tx__trainer_move_schedule(tx_trainer *t);
int64_t tx__trainer_n_micro(const tx_trainer *t);

/* Drops what the user has set for the next update only. */
void tx__trainer_forget_rates(tx_trainer *t);

/* trainer_experts.c: memory for what layers with experts add up; what they have added up from here on; and of all
 * ranks, after an iteration's micro-batches: t->expert and t->moe_loss. The last is collective. */
tx_status tx__trainer_take_experts(tx_trainer *t);
tx_status tx__trainer_begin_experts(tx_trainer *t);
tx_status tx__trainer_sum_experts(tx_trainer *t, int64_t n_micro);

/* trainer_logits.c: whether the run looks at scores of attention; memory for them; they begin anew; and after an
 * iteration's micro-batches, before tx_zero_step: those of all samples, collective, and what they do to the update. */
bool tx__trainer_sees_logits(const tx_trainer *t);
tx_status tx__trainer_take_logits(tx_trainer *t);
tx_status tx__trainer_begin_logits(tx_trainer *t);
tx_status tx__trainer_compare_logits(tx_trainer *t);

/* trainer_balance.c: balancing by a bias. Whether the run does; the bias of this stage's layers, as weights that were
 * just set have it; and its change by the iteration's load, before tx_zero_step.
 * @weights that were set, in a flat buffer; NULL: the masters', collective */
bool tx__trainer_balances(const tx_trainer *t);
tx_status tx__trainer_read_bias(tx_trainer *t, const float *weights);
tx_status tx__trainer_balance(tx_trainer *t);

/* dump.c: --dump-step. Writes loss, parameters and gradients as they are before the update. */
tx_status tx__trainer_dump(tx_trainer *t, double grad_norm);

#endif
