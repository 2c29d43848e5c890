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
 *      tx_engine_save_checkpoint(e, "checkpoints");
 *      tx_engine_destroy(e);
 *      tx_config_free(cfg);
 *
 *  One thread uses an engine at a time; several engines may live side by side. All memory is taken by create. */
#ifndef TRIAX_ENGINE_H
#define TRIAX_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_engine tx_engine;

/* Builds the model of `cfg` for vocab_size tokens (its rows are padded as --make-vocab-size-divisible-by says) and, if
 * cfg has --load, reads that checkpoint, of any program that `triax convert` reads. Shape options that were left out
 * are filled in from it, so cfg is changed here; it must outlive the engine.
 * The engine is one rank's alone (TX_ERR_UNSUPPORTED in a process that a launcher has started as one of several).
 * Errors: TX_ERR_ARG, TX_ERR_SHAPE (a checkpoint of another shape), TX_ERR_NOTFOUND, TX_ERR_FORMAT, TX_ERR_NOMEM (also:
 * it would take more than --memory-limit, before anything large is taken). */
TX_API tx_status tx_engine_create(tx_engine **out, tx_config *cfg, int64_t vocab_size);
TX_API void tx_engine_destroy(tx_engine *e); /* NULL allowed */

/* ---- one micro-batch; forward, backward, step, in this order (else TX_ERR_STATE) ---- */

/* @tokens [micro_batch_size][seq_length + 1]: inputs are the first seq_length, labels the last.
 * An engine of "pretrain-bert" takes a row of 3 seq_length + 2 numbers a sample: seq_length tokens, then as many token
 * types (0, 1) and labels (what is under the mask, or -1), how many of the tokens are real, the others being padding at
 * the end, and 1 where the second segment stands first. At most --mask-prob of a micro-batch's positions have a label.
 * @loss mean cross-entropy over the micro-batch's tokens, nats; of a BERT the sum of both losses. Errors:
 * TX_ERR_FORMAT for an id outside the vocabulary, or a row that cannot be. */
TX_API tx_status tx_engine_forward(tx_engine *e, const int32_t *tokens, double *loss);

/* Adds the gradients of that loss, averaged over the micro-batches of the global batch. */
TX_API tx_status tx_engine_backward(tx_engine *e);

/* Ends the micro-batch. After the last of a global batch: clips, updates, moves the learning-rate schedule on. An
 * update with gradients that are not finite is skipped, with a warning; TX_ERR_NUMERIC after --max-consecutive-skips in
 * a row. */
TX_API tx_status tx_engine_step(tx_engine *e);

/* Whether the next step updates. */
TX_API bool tx_engine_is_gradient_accumulation_boundary(const tx_engine *e);

/* The same without dropout and gradients; between iterations or micro-batches, not between forward and step. */
TX_API tx_status tx_engine_evaluate(tx_engine *e, const int32_t *tokens, double *loss);

/* ---- checkpoints ---- */

/* Publishes DIR/iter_NNNNNNN and then DIR/latest. A crash or a full disk leaves what was there. Between iterations
 * only. TX_ERR_NUMERIC: a parameter is not finite; nothing is written. */
TX_API tx_status tx_engine_save_checkpoint(tx_engine *e, const char *dir);

/* Reads one of triax's own checkpoints into an engine of the same shape; between iterations only. (A Hugging Face
 * folder is named as --load when the engine is made.) TX_ERR_NOTFOUND when there is none, TX_ERR_ARG and TX_ERR_SHAPE
 * list what differs. */
TX_API tx_status tx_engine_load_checkpoint(tx_engine *e, const char *dir);

/* Writes the model as a Hugging Face folder: config.json and model.safetensors. */
TX_API tx_status tx_engine_export(tx_engine *e, const char *dir);

/* ---- getters ---- */

TX_API int64_t tx_engine_iteration(const tx_engine *e); /* finished optimizer steps, skipped ones included */
TX_API double tx_engine_lr(const tx_engine *e);         /* for the next update */
TX_API double tx_engine_loss(const tx_engine *e);       /* mean over the micro-batches of the last iteration */
TX_API double tx_engine_grad_norm(const tx_engine *e);  /* of the last iteration, before clipping */
TX_API int64_t tx_engine_n_params(const tx_engine *e);  /* padding not counted */
TX_API int64_t tx_engine_memory_bytes(const tx_engine *e);

/* A learning rate of your own for the next update only, in place of the schedule's. */
TX_API void tx_engine_set_lr(tx_engine *e, double lr);

#ifdef __cplusplus
}
#endif
#endif
