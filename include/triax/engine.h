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
 * One thread uses an engine at a time. A process may have several engines. All memory is allocated when the engine is
 * created.
 *
 * With several ranks, each rank has an engine of the same world (world.h). Each data-parallel rank feeds its engine
 * its own micro-batches; tensor- and pipeline-parallel ranks with the same data-parallel rank feed the same ones.
 * Calls are collective. Losses after an iteration and gradient norms are over all ranks. After a call has failed on a
 * rank with anything but TX_ERR_STATE, the ranks may be out of step: that rank reports the error and ends the job
 * (tx_world_abort, or the end of its process; a thread returns the status). */
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

/* ---- what a program may pass in, as to DeepSpeed's initialize: model.h, optimizer.h, data.h, world.h ---- */

typedef struct tx_engine_args {
    size_t size;       /* sizeof(tx_engine_args) */
    tx_config *config; /* as tx_engine_create's cfg */
    int64_t vocab_size;
    bool with_tokenizer; /* in place of vocab_size: the engine opens the tokenizer that the options name or, if they
                          * name no file, the one beside the checkpoint of --load, and takes the vocabulary size and
                          * the end-of-document id from it. Not for a user-defined model */
    tx_world *world;     /* the ranks; borrowed, must outlive the engine. NULL: this process as its launcher started
                          * it; the engine opens and closes the world, and MPI with it. With --world-size 1 the
                          * engine is always alone */
    /* From here on NULL means: as the options say. Everything that is pointed to must outlive the engine. */
    const tx_client_model *model; /* model.h; vocab_size is then ignored */
    const tx_client_optimizer *optimizer;
    tx_lr_fn *lr;
    void *lr_user;
    const tx_param_group *group; /* [n_groups] */
    int n_groups;
    const tx_training_data *data; /* used by tx_engine_forward and tx_engine_train_batch when they are called without
                                   * a batch */
    const tx_rank_place *place; /* NULL: Megatron's order, in which the tensor axis varies fastest, then context, data,
                                 * pipeline. Either all ranks set it or none does, and no two ranks have the same
                                 * (TX_ERR_ARG) */
    tx_loss_gradient_fn *loss_gradient; /* NULL: the objective is the mean of the losses. For a user-defined model */
    void *loss_user;
} tx_engine_args;

/* Like tx_engine_create, for several ranks and with everything in tx_engine_args. Collective. Also TX_ERR_ARG: ranks
 * have different options, or the layout does not fit the world; TX_ERR_COMM. */
TX_API tx_status tx_engine_initialize(tx_engine **out, const tx_engine_args *args);

/* Builds the model of `cfg` for vocab_size tokens; the embedding is padded as --make-vocab-size-divisible-by says.
 * With --load it reads that checkpoint, which may come from any program that `triax convert` reads. Shape options that
 * were left out are filled in from the checkpoint, so `cfg` is changed here; it must outlive the engine.
 * In a process that a launcher started as one of several, the engine is one rank of that job.
 * Errors: TX_ERR_ARG, TX_ERR_SHAPE (the checkpoint has another shape), TX_ERR_NOTFOUND, TX_ERR_FORMAT, TX_ERR_NOMEM
 * (also: the engine would need more than --memory-limit; reported before anything large is allocated). */
TX_API tx_status tx_engine_create(tx_engine **out, tx_config *cfg, int64_t vocab_size);
TX_API void tx_engine_destroy(tx_engine *e); /* NULL allowed. Collective, unless a call has failed */

/* ---- one micro-batch; forward, backward, step, in this order (else TX_ERR_STATE) ---- */

/* Runs forward on one micro-batch.
 * @batch this rank's next micro-batch, in host memory; NULL: the next one of the training data (tx_engine_args.data)
 * - "pretrain-gpt": const int32_t [micro_batch_size][seq_length + 1]. The first seq_length are the inputs, the last
 *   seq_length the labels.
 * - "pretrain-bert": const int32_t [micro_batch_size][3 seq_length + 2]. A row has seq_length tokens, seq_length token
 *   types (0, 1), seq_length labels (the masked token's id, or -1), the number of real tokens (the rest is padding at
 *   the end), and 1 if the second segment comes first. At most --mask-prob of a micro-batch's positions have a label.
 * - user-defined model: const void *const [n_inputs], the address of each input, [micro_batch_size, as declared].
 *
 * @loss mean cross-entropy over the micro-batch's tokens, in nats; for BERT the sum of both losses
 * Errors: TX_ERR_FORMAT: an id is outside the vocabulary, or a row is not valid. */
TX_API tx_status tx_engine_forward(tx_engine *e, const void *batch, double *loss);

/* Accumulates the gradients of that loss, averaged over the micro-batches of the global batch. */
TX_API tx_status tx_engine_backward(tx_engine *e);

/* ---- backward of a loss that the program changes; only for a user-defined model (else TX_ERR_UNSUPPORTED) ----
 *
 * The engine still applies its own factors: the mean over the micro-batches of the global batch, and the loss scale of
 * fp16. tx_engine_forward and tx_engine_loss still return the mean of what the last layer wrote. The last layer's
 * forward runs a second time, with the new tx_layer_call.loss_weight, because its first run was given the weights of
 * the mean. For whole global batches and for pipelines use tx_engine_args.loss_gradient. */

/* In place of tx_engine_backward: backward of `factor` times the loss, such as a weight for this micro-batch. With 0
 * nothing is accumulated.
 * TX_ERR_ARG: the factor is not finite; backward still has to be called. */
TX_API tx_status tx_engine_backward_scaled(tx_engine *e, double factor);

/* In place of tx_engine_backward: backward of the objective that has this gradient with respect to each loss.
 * @dloss [micro_batch_size, losses_per_sample], in host memory; 1 / (b x losses) each would be the mean */
TX_API tx_status tx_engine_backward_from(tx_engine *e, const float *dloss);

/* The losses of the micro-batch, between its forward and its backward.
 * @loss [micro_batch_size, losses_per_sample] */
TX_API tx_status tx_engine_losses(tx_engine *e, float *loss);

/* Ends the micro-batch. After the last micro-batch of a global batch it clips the gradients, updates the parameters
 * and advances the learning-rate schedule. If gradients are not finite, the update is skipped with a warning.
 * TX_ERR_NUMERIC: --max-consecutive-skips updates in a row were skipped. TX_ERR_ARG: a user-defined schedule returned
 * a learning rate that is negative or not finite; nothing is updated. */
TX_API tx_status tx_engine_step(tx_engine *e);

/* Whether the next step updates the parameters. */
TX_API bool tx_engine_is_gradient_accumulation_boundary(const tx_engine *e);

/* The loss of a micro-batch without dropout and gradients. Call it between iterations or micro-batches, not between
 * forward and step. */
TX_API tx_status tx_engine_evaluate(tx_engine *e, const void *batch, double *loss);

/* ---- a whole global batch: required with pipeline parallelism (forward, backward and step are then TX_ERR_STATE)
 * ---- */

/* Returns this rank's micro-batch `micro` of the global batch, from 0, in the form that tx_engine_forward takes;
 * borrowed until the next call. Called on the ranks that read inputs. */
typedef tx_status tx_read_fn(void *user, int64_t micro, const void **batch);

/* Forward and backward of all micro-batches, then step.
 * @read NULL: the training data (tx_engine_args.data)
 * @loss the mean over the micro-batches of all ranks */
TX_API tx_status tx_engine_train_batch(tx_engine *e, tx_read_fn *read, void *user, double *loss);

/* The mean loss of n_samples samples, without dropout and gradients; call it between iterations. The samples are the
 * first n_samples when the micro-batches of the data-parallel ranks are taken in turn. */
TX_API tx_status tx_engine_eval_batch(tx_engine *e, int64_t n_samples, tx_read_fn *read, void *user, double *loss);

/* Sums user-defined numbers, such as how many answers are right, over the data-parallel ranks. All ranks get the sum,
 * added in the order of the ranks. With a pipeline the numbers of the last stage count. Collective, between
 * iterations.
 * @x [n] */
TX_API tx_status tx_engine_sum(tx_engine *e, double *x, int n);

/* ---- checkpoints ---- */

/* Saves DIR/iter_NNNNNNN, or DIR/<tag>, and then updates DIR/latest. A crash or a full disk leaves earlier checkpoints
 * intact. Collective, between iterations only.
 * @tag a user-defined name of letters, digits, _ - . and =, or NULL; --keep-last removes none of these
 * @client_state a JSON object that is saved with the checkpoint (rank 0's), or NULL
 * TX_ERR_ARG: an invalid tag or state. TX_ERR_NUMERIC: a parameter is not finite. Nothing is written in either case. */
TX_API tx_status tx_engine_save_checkpoint(tx_engine *e, const char *dir, const char *tag, const char *client_state);

/* Loads one of triax's own checkpoints, saved with any layout, into an engine of the same shape. Collective, between
 * iterations only. (To load another program's checkpoint, create the engine with --load.)
 * @tag NULL: the checkpoint that DIR/latest names
 * @path receives the folder that was read; or NULL, with a warning and TX_OK, if there is nothing to load. If `path`
 * itself is NULL, nothing to load is TX_ERR_NOTFOUND
 * @client_state receives what was saved with the checkpoint, or NULL if nothing was; may itself be NULL
 * Free both with tx_text_free. TX_ERR_ARG and TX_ERR_SHAPE list what differs. TX_ERR_FORMAT: the checkpoint is
 * damaged. */
TX_API tx_status tx_engine_load_checkpoint(tx_engine *e, const char *dir, const char *tag, char **path,
                                           char **client_state);

/* Writes the model as a Hugging Face folder: config.json and model.safetensors. Only with one rank (TX_ERR_UNSUPPORTED
 * with several: save a checkpoint and use triax convert). */
TX_API tx_status tx_engine_export(tx_engine *e, const char *dir);

/* ---- getters ---- */

TX_API int64_t tx_engine_iteration(const tx_engine *e); /* finished optimizer steps, skipped ones included */
TX_API double tx_engine_lr(const tx_engine *e);         /* for the next update */
TX_API double tx_engine_loss(const tx_engine *e);       /* mean over the micro-batches of the last iteration */
TX_API double tx_engine_grad_norm(const tx_engine *e);  /* of the last iteration, before clipping */

/* Number of parameters on this rank, without padding. With tensor or pipeline parallelism this is the rank's part of
 * the model; the sum over those ranks is the whole model. ZeRO does not change the number: parameters that it
 * partitions count as if they were whole. */
TX_API int64_t tx_engine_n_params(const tx_engine *e);

/* Memory that this rank has allocated, in bytes. */
typedef struct tx_engine_memory {
    int64_t params, grads; /* with the buffers into which ZeRO-3 gathers, and with gradients that are still to be
                            * reduced to the rank that keeps them */
    int64_t optimizer;     /* master weights and the optimizer's state */
    int64_t activations, workspace;        /* with activations that are offloaded to host memory */
    int64_t offloaded_cpu, offloaded_nvme; /* model states offloaded to each */
    int64_t total;                         /* without what is on disk */
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

/* Whether the last step updated the parameters: it completed a global batch and was not skipped. */
TX_API bool tx_engine_was_step_applied(const tx_engine *e);

/* Clears the gradients accumulated so far in this global batch; its micro-batches still count as done. (An update
 * clears them anyway.) TX_ERR_STATE between forward and step. Not collective, but all ranks must call it alike. */
TX_API tx_status tx_engine_zero_grad(tx_engine *e);

/* The engine's tokenizer, owned by the engine; NULL without args.with_tokenizer. */
TX_API const tx_tokenizer *tx_engine_tokenizer(const tx_engine *e);

/* Sets the learning rate of the next update only, in place of the schedule's. TX_ERR_ARG: it is negative or not
 * finite; the schedule's then stays in effect. */
TX_API tx_status tx_engine_set_lr(tx_engine *e, double lr);

/* ---- the optimizer and the scheduler, as DeepSpeed's initialize returns them ---- */

/* Owned by the engine and valid as long as it is. Nothing here is collective: all ranks must set the same values,
 * between a step and the next forward. */
typedef struct tx_optimizer tx_optimizer;
typedef struct tx_lr_scheduler tx_lr_scheduler;
TX_API tx_optimizer *tx_engine_optimizer(tx_engine *e);
TX_API tx_lr_scheduler *tx_engine_lr_scheduler(tx_engine *e);

/* A parameter group as the next update uses it. The groups are those of tx_engine_args.group in order, then one with
 * all other parameters. */
typedef struct tx_optimizer_group {
    const char *pattern; /* NULL: the parameters that no pattern matches */
    double lr;
    double weight_decay;  /* for those of its parameters that decay */
    double betas[2], eps; /* Adam's, Lion's betas, Adagrad's eps, the same for all groups; 0: it has none */
    double momentum;      /* SGD's, likewise */
} tx_optimizer_group;

TX_API const char *tx_optimizer_name(const tx_optimizer *o); /* --optimizer's word, or a user-defined one's name */
TX_API int64_t tx_optimizer_steps(const tx_optimizer *o);    /* updates that were taken */
TX_API int tx_optimizer_n_groups(const tx_optimizer *o);
TX_API tx_status tx_optimizer_group_at(const tx_optimizer *o, int group, tx_optimizer_group *out); /* TX_ERR_ARG */

/* tx_optimizer_set_lr: the learning rate of one group for the next update only, in place of the schedule's times the
 * group's factor.
 * tx_optimizer_set_weight_decay: the weight decay of one group from now on, in place of the options' times its factor.
 * tx_optimizer_set_betas, tx_optimizer_set_momentum: Adam's or Lion's betas and SGD's momentum from now on, for all
 * groups. (OneCycle sets the betas again with each step.)
 * TX_ERR_ARG: there is no such group, or the number is negative, not finite or, for betas and momentum, not less than
 * 1; nothing is changed. Checkpoints contain all of these settings. */
TX_API tx_status tx_optimizer_set_lr(tx_optimizer *o, int group, double lr);
TX_API tx_status tx_optimizer_set_weight_decay(tx_optimizer *o, int group, double weight_decay);
TX_API tx_status tx_optimizer_set_betas(tx_optimizer *o, double beta1, double beta2);
TX_API tx_status tx_optimizer_set_momentum(tx_optimizer *o, double momentum);

/* Saves these settings as a JSON object, and loads them into an optimizer with the same groups. (The engine's
 * checkpoints have the optimizer's moments.)
 * @state freed with tx_text_free
 * TX_ERR_FORMAT: the text is not such a state, or is of other groups */
TX_API tx_status tx_optimizer_state(const tx_optimizer *o, char **state);
TX_API tx_status tx_optimizer_load_state(tx_optimizer *o, const char *state);

/* "WarmupLR" and the like; "client" with tx_engine_args.lr; "OptimizerParamScheduler" for Megatron's schedule of the
 * options. */
TX_API const char *tx_lr_scheduler_name(const tx_lr_scheduler *s);
TX_API double tx_lr_scheduler_lr(const tx_lr_scheduler *s); /* of the next update, groups' factors left out */

/* DeepSpeed's last_batch_iteration: -1 at first, and one more after each update that is not skipped. Megatron's
 * scheduler counts samples instead, from 0. */
TX_API int64_t tx_lr_scheduler_last_step(const tx_lr_scheduler *s);

/* Advances the scheduler in addition to what tx_engine_step does, by this many steps or, for Megatron's, samples.
 * TX_ERR_ARG: increment < 1 */
TX_API tx_status tx_lr_scheduler_step(tx_lr_scheduler *s, int64_t increment);

/* Saves the scheduler's position as a JSON object, such as {"last_batch_iteration":9}, and loads it; part of
 * checkpoints.
 * @state freed with tx_text_free
 * TX_ERR_FORMAT: the text is not a state of this scheduler */
TX_API tx_status tx_lr_scheduler_state(const tx_lr_scheduler *s, char **state);
TX_API tx_status tx_lr_scheduler_load_state(tx_lr_scheduler *s, const char *state);

#ifdef __cplusplus
}
#endif
#endif
