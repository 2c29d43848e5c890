/* jobs.h - whole jobs, as the sub-commands do them: each takes a parsed config and speaks through the log sink. */
#ifndef TRIAX_JOBS_H
#define TRIAX_JOBS_H

#include <stdbool.h>

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this process among the ranks that a launcher has started (mpirun, srun, triax torchrun); 0 when it is
 * alone. From this call on lines below warnings reach the log's sink from rank 0 only. */
TX_API int tx_launched_rank(void);

/* For what one process does alone: TX_ERR_ARG where a launcher has started several, which would all do it. */
TX_API tx_status tx_launched_alone(void);

/* Trains as `triax pretrain-gpt` or `triax pretrain-bert`, for which cfg was parsed: tokenizer, data, model, resume,
 * loop, evaluation, checkpoints. cfg is completed from the checkpoint that --load names. As one of several ranks it is
 * collective; when one fails, it says why and all processes end. */
TX_API tx_status tx_pretrain(tx_config *cfg);

/* A checkpoint or model of one format to another, as `triax convert` and, parsed for their commands, upstream's
 * converters: reads a tensor at a time, reports of each what became of it, then reads the result and compares the
 * logits of both. Errors: those of reading and writing; TX_ERR_NUMERIC: the logits differ. The result stays, for a
 * look. */
TX_API tx_status tx_convert(tx_config *cfg);

/* Takes one line of a report, without a line end. */
typedef void tx_line_fn(void *user, const char *line);

/* How well a checkpoint predicts, as `triax evaluate`: the loss of a dataset (--data-path), or the scores of files on
 * --task. Results are told line by line, in words, or one line of JSON each with --json; with --per-token a line of
 * JSON for each token, and results go to the log. As one of several ranks it is collective; the first one reports. */
TX_API tx_status tx_evaluate(tx_config *cfg, tx_line_fn *line, void *user);

/* The words that a BERT would put where a text has [MASK], as `triax fill-mask`: --top of them for each, likeliest
 * first, with their probabilities; of two segments with [SEP] between them also the probability that they stand in
 * their order, by the head on sentences; and the text with the likeliest words put in. Line by line, or with --json a
 * line of JSON for each text. As one of several ranks it is collective; the first one reads texts and reports. */
TX_API tx_status tx_fill_mask(tx_config *cfg, tx_line_fn *line, void *user);

/* What a run with the same flags will take, as `triax plan`: parameters by kind, memory, tokens and
 * FLOPs, found by running its step without numbers; line by line, or with --json one line of JSON. Needs no data;
 * without a tokenizer's files it takes --vocab-size, or the size of GPT-2 or BERT. cfg holds the flags, parsed for the
 * command plan, and is completed from the checkpoint that --load names. TX_ERR_NOMEM, after the report: --memory-limit
 * was given, and it does not fit; the message has the changes that make it fit. */
TX_API tx_status tx_plan(tx_config *cfg, tx_line_fn *line, void *user);

/* What a dataset, a checkpoint, a Hugging Face folder or a .safetensors file holds, line by line, and every check that
 * reading it makes, as `triax inspect`. What was recognised by its files is shown as far as it is sound.
 * Errors: TX_ERR_NOTFOUND (nothing known there); TX_ERR_FORMAT (damaged; token ids beyond the vocabulary);
 * TX_ERR_NUMERIC (--verify found numbers that are not finite). */
TX_API tx_status tx_inspect(const tx_config *cfg, tx_line_fn *line, void *user);

/* The first samples of a run as JSON, one a line, as `triax inspect-samples`: the stretches of documents that a sample
 * is made of, its seq_length + 1 tokens, and for each but the last whether the prediction of the next counts, and its
 * position. Of a BERT (--model-type BERT): its document and sentences, tokens, types, what is masked and the labels
 * there.
 * With --stats one line: how often the run reads the documents. A document's number is its tokens read over its tokens,
 * so 0.5 is half of it once; the histogram rounds and leaves out those that are never read, which are counted apart.
 * cfg holds the flags of the run, parsed for the command inspect-samples. */
TX_API tx_status tx_inspect_samples(const tx_config *cfg, tx_line_fn *line, void *user);

/* Runs the iteration of a replay file again and watches it, as `triax replay`: from the checkpoint that the file names,
 * or from initial weights. TX_OK: the same value that is not finite was found. TX_ERR_NUMERIC: another one or none.
 * TX_ERR_NOTFOUND, TX_ERR_FORMAT, TX_ERR_ARG: the file, its checkpoint or data is not there, damaged or another's.
 * Nothing is written. */
TX_API tx_status tx_replay(const tx_config *cfg);

/* Reads metrics files of runs and writes one HTML page that needs nothing but itself, as `triax report`: curves, where
 * time and memory go, and each run's options. TX_ERR_NOTFOUND, TX_ERR_FORMAT name the file and line. */
TX_API tx_status tx_report(const tx_config *cfg);

/* What this machine has and what triax will use, and a self-test of a few seconds, as `triax doctor`.
 * A failed check is reported in the log and as the status. */
TX_API tx_status tx_doctor(const tx_config *cfg);

/* Puts into the environment what OpenMP's runtimes read when a program is loaded, for one that then starts itself over
 * as `triax` does: --threads or one thread a core (OMP_NUM_THREADS), a short spin, and, with may_bind and where
 * --cpu-bind says so, a core for each thread (OMP_PLACES, OMP_PROC_BIND). What the user has set stays. */
TX_API tx_status tx_threads_environment(const tx_config *cfg, bool may_bind);

#ifdef __cplusplus
}
#endif
#endif
