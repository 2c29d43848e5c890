/* engine.h - training as a library: an engine with DeepSpeed's verbs.
 *
 *      tx_config *cfg;
 *      tx_engine *e;
 *      tx_config_parse_string(&cfg, "pretrain-gpt", "--num-layers 2 --hidden-size 64 ... --global-batch-size 16");
 *      tx_engine_create(&e, cfg, vocab_size);
 *      while (tx_engine_iteration(e) < 1000) {
 *          next_batch(tokens);                           // yours: [micro_batch_size][seq_length + 1]
 *          tx_engine_forward(e, tokens, &loss);
 *          tx_engine_backward(e);
 *          tx_engine_step(e);                            // updates when the global batch is complete
 *      }
 *      tx_engine_save_checkpoint(e, "checkpoints", NULL, NULL);
 *      tx_engine_destroy(e);
 *      tx_config_free(cfg);
 *
 *  One thread uses an engine at a time; several engines may live side by side. All memory is taken by create.
 *
 *  With several ranks each has an engine, of one world (world.h), and feeds it micro-batches of its own: tensor- and
 * pipeline-parallel ranks of one place on the data axis the same ones. Calls are collective; losses after an iteration
 * and norms are those of all ranks. When a call has failed on a rank, but with TX_ERR_STATE, the ranks may not be in
 * step: that rank says why and ends the job (tx_world_abort, or the end of its process; threads by coming back with the
 * status). */
#ifndef TRIAX_ENGINE_H
#define TRIAX_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/config.h"
#include "triax/data.h"
#include "triax/model.h"
#include "triax/optimizer.h"
#include "triax/world.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_engine tx_engine;

/* ---- what a program may bring, as to DeepSpeed's initialize: model.h, optimizer.h, data.h, world.h ---- */

typedef struct tx_engine_args {
    size_t size;       /* sizeof(tx_engine_args) */
    tx_config *config; /* as tx_engine_create's cfg */
    int64_t vocab_size;
    bool with_tokenizer; /* in place of vocab_size: the tokenizer that the options name, or where they name no file, the
                          * one beside the checkpoint of --load; the engine opens it, and takes from it the vocabulary
                          * and the end of a document. Not of a user-defined model */
    tx_world *world;     /* the ranks; borrowed, outlives the engine. NULL: this process as its launcher started it; the
                            engine opens and closes it, and MPI with it. With --world-size 1 the engine is alone in any
                            process */
    /* NULL: the options'. Of all of them what they point to outlives the engine. */
    const tx_client_model *model; /* model.h; vocab_size is not read then */
    const tx_client_optimizer *optimizer;
    tx_lr_fn *lr;
    void *lr_user;
    const tx_param_group *group; /* [n_groups] */
    int n_groups;
    const tx_training_data *data; /* for tx_engine_forward, tx_engine_train_batch without a batch of their own */
    const tx_rank_place *place;   /* NULL: tensor fastest, then data, then pipeline, as Megatron. All ranks have one, or
                                     none has; no two have the same (TX_ERR_ARG) */
    tx_loss_gradient_fn *loss_gradient; /* NULL: the objective is the mean of the losses. Of a user-defined model */
    void *loss_user;
} tx_engine_args;

/* tx_engine_create on several ranks. Collective. Also TX_ERR_ARG: ranks that have other options, a layout that does not
 * fit the world; TX_ERR_COMM. */
TX_API tx_status tx_engine_initialize(tx_engine **out, const tx_engine_args *args);

/* Builds the model of `cfg` for vocab_size tokens (its rows are padded as --make-vocab-size-divisible-by says) and, if
 * cfg has --load, reads that checkpoint, of any program that `triax convert` reads. Shape options that were left out
 * are filled in from it, so cfg is changed here; it must outlive the engine.
 * In a process that a launcher has started as one of several the engine is one of as many.
 * Errors: TX_ERR_ARG, TX_ERR_SHAPE (a checkpoint of another shape), TX_ERR_NOTFOUND, TX_ERR_FORMAT, TX_ERR_NOMEM (also:
 * it would take more than --memory-limit, before anything large is taken). */
TX_API tx_status tx_engine_create(tx_engine **out, tx_config *cfg, int64_t vocab_size);
TX_API void tx_engine_destroy(tx_engine *e); /* NULL allowed. Collective, unless a call has failed */

/* ---- one micro-batch; forward, backward, step, in this order (else TX_ERR_STATE) ---- */

/* @batch this rank's next micro-batch, in the host's memory; NULL: the next one of the training data.
 * Of a user-defined model const void *const [n_inputs]: where each input is, [micro_batch_size, as declared].
 * Of "pretrain-gpt" const int32_t [micro_batch_size][seq_length + 1]: inputs are the first seq_length, labels the last.
 * An engine of "pretrain-bert" takes a row of 3 seq_length + 2 numbers a sample: seq_length tokens, then as many token
 * types (0, 1) and labels (what is under the mask, or -1), how many of the tokens are real, the others being padding at
 * the end, and 1 where the second segment stands first. At most --mask-prob of a micro-batch's positions have a label.
 * @loss mean cross-entropy over the micro-batch's tokens, nats; of a BERT the sum of both losses. Errors:
 * TX_ERR_FORMAT for an id outside the vocabulary, or a row that cannot be. */
TX_API tx_status tx_engine_forward(tx_engine *e, const void *batch, double *loss);

/* Adds the gradients of that loss, averaged over the micro-batches of the global batch. */
TX_API tx_status tx_engine_backward(tx_engine *e);

/* ---- backward of a loss that the program has changed. Of a user-defined model (else TX_ERR_UNSUPPORTED) ----
 *
 *  The engine's own factors come on top: the mean over the global batch's micro-batches, the loss scale of fp16. What
 * tx_engine_forward and tx_engine_loss give stay the means of what the last layer wrote. The last layer's forward is
 * run a second time, with the other tx_layer_call.loss_weight, for its first run has seen the mean's. For whole global
 * batches and pipelines there is tx_engine_args.loss_gradient. */

/* In place of tx_engine_backward: of `factor` times the loss, such as a weight of this micro-batch's; 0: nothing is
 * added.   TX_ERR_ARG: it is not finite; backward is still due then */
TX_API tx_status tx_engine_backward_scaled(tx_engine *e, double factor);

/* In place of tx_engine_backward: of the function of the losses that has this gradient by each of them.
 * @dloss [micro_batch_size, losses_per_sample], in the host's memory; 1 / (b x losses) each is the mean */
TX_API tx_status tx_engine_backward_from(tx_engine *e, const float *dloss);

/* The losses of the micro-batch between its forward and its backward.   @loss [micro_batch_size, losses_per_sample] */
TX_API tx_status tx_engine_losses(tx_engine *e, float *loss);

/* Ends the micro-batch. After the last of a global batch: clips, updates, moves the learning-rate schedule on. An
 * update with gradients that are not finite is skipped, with a warning; TX_ERR_NUMERIC after --max-consecutive-skips in
 * a row. TX_ERR_ARG: the user-defined schedule gives a learning rate that is negative or not finite; nothing is
 * updated. */
TX_API tx_status tx_engine_step(tx_engine *e);

/* Whether the next step updates. */
TX_API bool tx_engine_is_gradient_accumulation_boundary(const tx_engine *e);

/* The same without dropout and gradients; between iterations or micro-batches, not between forward and step. */
TX_API tx_status tx_engine_evaluate(tx_engine *e, const void *batch, double *loss);

/* ---- a whole global batch: what a pipeline takes (with one forward, backward and step are TX_ERR_STATE) ---- */

/* Gives this rank's micro-batch `micro` of the global batch, from 0, as tx_engine_forward takes it; borrowed until the
 * next call. Called on ranks that read inputs. */
typedef tx_status tx_read_fn(void *user, int64_t micro, const void **batch);

/* Forward and backward of all micro-batches, and step.   @read NULL: the training data's
 * @loss the mean over all ranks' micro-batches */
TX_API tx_status tx_engine_train_batch(tx_engine *e, tx_read_fn *read, void *user, double *loss);

/* The mean loss of the first n_samples samples that the data-parallel ranks' micro-batches hold in turn, without
 * dropout and gradients; between iterations. */
TX_API tx_status tx_engine_eval_batch(tx_engine *e, int64_t n_samples, tx_read_fn *read, void *user, double *loss);

/* User-defined numbers, such as how many answers are right: their sum over the data-parallel ranks, in all
 * ranks, added in the ranks' order. Of a pipeline the last stage's numbers count. Collective, between iterations.
 * @x [n] */
TX_API tx_status tx_engine_sum(tx_engine *e, double *x, int n);

/* ---- checkpoints ---- */

/* Publishes DIR/iter_NNNNNNN, or DIR/<tag>, and then DIR/latest. A crash or a full disk leaves what was there. Between
 * iterations only, collective.   @tag a user-defined name, or NULL: letters, digits, _ - . =; --keep-last
 * removes none of these   @client_state a JSON object that is kept with it, rank 0's, or NULL
 *
 *  TX_ERR_ARG: a tag or a state that cannot be; TX_ERR_NUMERIC: a parameter is not finite; nothing is written then. */
TX_API tx_status tx_engine_save_checkpoint(tx_engine *e, const char *dir, const char *tag, const char *client_state);

/* Reads one of triax's own checkpoints, of any layout, into an engine of the same shape; between iterations only,
 * collective. (Another program's is named as --load when the engine is made.)   @tag NULL: what DIR/latest names
 * @path gives the folder that was read; where there is nothing to load NULL, with a warning and TX_OK. NULL: not asked
 * for, and nothing to load is TX_ERR_NOTFOUND   @client_state gives what was saved with it; NULL where nothing was, or
 * NULL. Both: tx_text_free.   TX_ERR_ARG and TX_ERR_SHAPE list what differs; TX_ERR_FORMAT: it is damaged. */
TX_API tx_status tx_engine_load_checkpoint(tx_engine *e, const char *dir, const char *tag, char **path,
                                           char **client_state);

/* Writes the model as a Hugging Face folder: config.json and model.safetensors. Of one rank (TX_ERR_UNSUPPORTED of
 * several: triax convert makes it of a checkpoint). */
TX_API tx_status tx_engine_export(tx_engine *e, const char *dir);

/* ---- getters ---- */

TX_API int64_t tx_engine_iteration(const tx_engine *e); /* finished optimizer steps, skipped ones included */
TX_API double tx_engine_lr(const tx_engine *e);         /* for the next update */
TX_API double tx_engine_loss(const tx_engine *e);       /* mean over the micro-batches of the last iteration */
TX_API double tx_engine_grad_norm(const tx_engine *e);  /* of the last iteration, before clipping */

/* Parameters that this rank has, padding not counted: with tensor- or pipeline-parallel ranks its part of the model's,
 * and the whole model's is their sum over those ranks. ZeRO, which divides what belongs to them, changes nothing. */
TX_API int64_t tx_engine_n_params(const tx_engine *e);

/* What this rank has taken, in bytes. */
typedef struct tx_engine_memory {
    int64_t params, grads; /* with what ZeRO-3 gathers, and gradients on their way to the rank that keeps them */
    int64_t optimizer;     /* master weights and the optimizer's state */
    int64_t activations, workspace;        /* with those that are kept in the host's memory */
    int64_t offloaded_cpu, offloaded_nvme; /* model states that lie there */
    int64_t total;                         /* without what lies on a disk */
} tx_engine_memory;
TX_API tx_engine_memory tx_engine_memory_of(const tx_engine *e);

TX_API double tx_engine_cur_scale(const tx_engine *e);      /* the loss scale */
TX_API int64_t tx_engine_micro_steps(const tx_engine *e);   /* micro-batches of this rank since the engine was made */
TX_API int64_t tx_engine_skipped_steps(const tx_engine *e); /* updates that were skipped */
TX_API int tx_engine_global_rank(const tx_engine *e);
TX_API int tx_engine_world_size(const tx_engine *e);
TX_API int tx_engine_data_parallel_rank(const tx_engine *e); /* which share of the data this rank reads */
TX_API int tx_engine_data_parallel_size(const tx_engine *e);
TX_API int64_t tx_engine_train_micro_batch_size(const tx_engine *e); /* samples of a micro-batch */
TX_API int64_t tx_engine_train_batch_size(const tx_engine *e);       /* of the global batch under way, or the next */
TX_API int64_t tx_engine_gradient_accumulation_steps(const tx_engine *e); /* micro-batches of this rank in it */
TX_API int64_t tx_engine_global_samples(const tx_engine *e); /* trained on, by all ranks, skipped updates included */
TX_API int tx_engine_tensor_parallel_rank(const tx_engine *e);
TX_API int tx_engine_tensor_parallel_size(const tx_engine *e);
TX_API int tx_engine_pipeline_parallel_rank(const tx_engine *e);
TX_API int tx_engine_pipeline_parallel_size(const tx_engine *e);

/* Whether the step that has just been made updated the parameters: it ended a global batch and was not skipped. */
TX_API bool tx_engine_was_step_applied(const tx_engine *e);

/* Forgets the gradients of the global batch's micro-batches so far, which still count as done. (Behind an update they
 * are forgotten anyway.) TX_ERR_STATE between forward and step. Not collective; all ranks alike. */
TX_API tx_status tx_engine_zero_grad(tx_engine *e);

/* The engine's own, NULL without args.with_tokenizer. */
TX_API const tx_tokenizer *tx_engine_tokenizer(const tx_engine *e);

/* A learning rate of your own for the next update only, in place of the schedule's. TX_ERR_ARG: it is negative or not
 * finite; the schedule's stays. */
TX_API tx_status tx_engine_set_lr(tx_engine *e, double lr);

/* ---- the optimizer and the scheduler, as DeepSpeed's initialize gives them back ---- */

/* The engine's, valid as long as it is. Nothing here is collective: what one rank sets, all have to set alike, and
 * between a step and the next forward. */
typedef struct tx_optimizer tx_optimizer;
typedef struct tx_lr_scheduler tx_lr_scheduler;
TX_API tx_optimizer *tx_engine_optimizer(tx_engine *e);
TX_API tx_lr_scheduler *tx_engine_lr_scheduler(tx_engine *e);

/* A group of parameters as the next update has it: tx_engine_args.group's in their order, then all other parameters. */
typedef struct tx_optimizer_group {
    const char *pattern; /* NULL: the parameters that none matches */
    double lr;
    double weight_decay;  /* of those of its parameters that decay */
    double betas[2], eps; /* Adam's, of all groups the same */
    double momentum;      /* SGD's, likewise */
} tx_optimizer_group;

TX_API const char *tx_optimizer_name(const tx_optimizer *o); /* "adam", "sgd", or the name of a user-defined one */
TX_API int64_t tx_optimizer_steps(const tx_optimizer *o);    /* updates that were taken */
TX_API int tx_optimizer_n_groups(const tx_optimizer *o);
TX_API tx_status tx_optimizer_group_at(const tx_optimizer *o, int group, tx_optimizer_group *out); /* TX_ERR_ARG */

/* The learning rate of one group's next update alone, in place of the schedule's times its factor; its weight decay
 * from now on, in place of the options' times its factor; and Adam's betas and SGD's momentum from now on, of all
 * groups (OneCycle sets betas anew with each step). TX_ERR_ARG: there is no such group, or the number is negative, not
 * finite, or, of betas and momentum, not less than 1; nothing is changed then. All of these are part of checkpoints. */
TX_API tx_status tx_optimizer_set_lr(tx_optimizer *o, int group, double lr);
TX_API tx_status tx_optimizer_set_weight_decay(tx_optimizer *o, int group, double weight_decay);
TX_API tx_status tx_optimizer_set_betas(tx_optimizer *o, double beta1, double beta2);
TX_API tx_status tx_optimizer_set_momentum(tx_optimizer *o, double momentum);

/* These settings as a JSON object, and back, into an optimizer with the same groups. (The averages of an optimizer are
 * in the engine's checkpoints.)   @state tx_text_free   TX_ERR_FORMAT: it is none, or of other groups */
TX_API tx_status tx_optimizer_state(const tx_optimizer *o, char **state);
TX_API tx_status tx_optimizer_load_state(tx_optimizer *o, const char *state);

/* "WarmupLR" and the like, "client" of tx_engine_args.lr, "OptimizerParamScheduler", Megatron's, of the options. */
TX_API const char *tx_lr_scheduler_name(const tx_lr_scheduler *s);
TX_API double tx_lr_scheduler_lr(const tx_lr_scheduler *s); /* of the next update, groups' factors left out */

/* DeepSpeed's last_batch_iteration: -1 at first, and one more with each update that is taken. Megatron's counts samples
 * instead, from 0. */
TX_API int64_t tx_lr_scheduler_last_step(const tx_lr_scheduler *s);

/* tx_engine_step moves the scheduler; this moves it besides, by so many steps or, Megatron's, samples.
 * TX_ERR_ARG: increment < 1 */
TX_API tx_status tx_lr_scheduler_step(tx_lr_scheduler *s, int64_t increment);

/* Where it stands as a JSON object, such as {"last_batch_iteration":9}, and back; part of checkpoints.
 * @state tx_text_free   TX_ERR_FORMAT: it is none of such a scheduler */
TX_API tx_status tx_lr_scheduler_state(const tx_lr_scheduler *s, char **state);
TX_API tx_status tx_lr_scheduler_load_state(tx_lr_scheduler *s, const char *state);

#ifdef __cplusplus
}
#endif
#endif
