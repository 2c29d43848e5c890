/* jobs.h - whole jobs, as the sub-commands run them.
 *
 * Each function takes a parsed config and logs to the sink of log.h. */
#ifndef TRIAX_JOBS_H
#define TRIAX_JOBS_H

#include <stdbool.h>

#include "triax/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rank of this process in the job that a launcher started (mpirun, srun, triax torchrun); 0 if no launcher did.
 * After this call, log lines below the level of warnings reach the sink from rank 0 only. */
TX_API int tx_launched_rank(void);

/* For jobs of a single process: TX_ERR_ARG if a launcher started several processes, since each would do the whole
 * job. */
TX_API tx_status tx_launched_alone(void);

/* Trains as `triax pretrain-gpt` or `triax pretrain-bert` does: tokenizer, data, model, resume, loop, evaluation,
 * checkpoints. `cfg` was parsed for one of these commands; options left out are filled in from the checkpoint that
 * --load names. Collective with several ranks: when one fails, it reports why and all processes end. */
TX_API tx_status tx_pretrain(tx_config *cfg);

/* Converts a checkpoint or model from one format to another, as `triax convert` does; `cfg` may also be parsed for the
 * commands of upstream's converters. Reads one tensor at a time and reports what became of each. Then it reads the
 * result and compares the logits of both.
 * Errors: those of reading and writing; TX_ERR_NUMERIC: the logits differ. The result is kept for inspection. */
TX_API tx_status tx_convert(tx_config *cfg);

/* Receives one line of a report, without a line end. */
typedef void tx_line_fn(void *user, const char *line);

/* Measures how well a checkpoint predicts, as `triax evaluate` does: the loss on a dataset (--data-path), or the
 * scores of the files of --task. Each result is one line of text, or one line of JSON with --json. With --per-token
 * each token is one line of JSON, and the results go to the log. Collective with several ranks: the first rank
 * reports. */
TX_API tx_status tx_evaluate(tx_config *cfg, tx_line_fn *line, void *user);

/* Predicts the words that a BERT puts in place of [MASK], as `triax fill-mask` does: for each [MASK] the --top
 * likeliest words with their probabilities, likeliest first; then the text with the likeliest words filled in. If a
 * text is two segments separated by [SEP], it also reports the probability that they are in order, by the
 * sentence-order head. Output is text, or with --json one line of JSON per text. Collective with several ranks: the
 * first rank reads the texts and reports. */
TX_API tx_status tx_fill_mask(tx_config *cfg, tx_line_fn *line, void *user);

/* Reports what a run with the same flags would need, as `triax plan` does: parameters by kind, memory, tokens and
 * FLOPs, and with --machine how long it would take there. It finds them by a dry run of the step, without numbers.
 * Output is text, or with --json one line of JSON. Needs no data. Without a tokenizer's files the vocabulary has
 * --vocab-size tokens, or GPT-2's or BERT's size. `cfg` holds the flags, parsed for the command "plan"; options left
 * out are filled in from the checkpoint that --load names.
 * TX_ERR_NOMEM, after the report: --memory-limit was given and is exceeded; the message lists the changes that would
 * make it fit. */
TX_API tx_status tx_plan(tx_config *cfg, tx_line_fn *line, void *user);

/* Reports what a dataset, a checkpoint, a Hugging Face folder or a .safetensors file contains, line by line, and the
 * result of every check made while reading it, as `triax inspect` does. If a file is damaged, everything before the
 * damage is still reported.
 * Errors: TX_ERR_NOTFOUND (nothing known there); TX_ERR_FORMAT (damaged; token ids beyond the vocabulary);
 * TX_ERR_NUMERIC (--verify found numbers that are not finite). */
TX_API tx_status tx_inspect(const tx_config *cfg, tx_line_fn *line, void *user);

/* Reports the first samples of a run as JSON, one per line, as `triax inspect-samples` does. A GPT sample lists the
 * document ranges that it is made of, its seq_length + 1 tokens, and for each token but the last its position and
 * whether the prediction of the next token counts. A BERT sample (--model-type BERT) lists its document and sentences,
 * tokens, token types, the masked positions and their labels.
 * With --stats it prints one line: how often the run reads each document. The number of a document is the tokens read
 * from it divided by its length, so 0.5 is half of it once. The histogram rounds. It omits documents that are never
 * read, which are counted separately.
 * `cfg` holds the flags of the run, parsed for the command "inspect-samples". */
TX_API tx_status tx_inspect_samples(const tx_config *cfg, tx_line_fn *line, void *user);

/* Measures how difficult each training sample is, as `triax analyze-data` does, and writes the files of each metric
 * into --save, which all ranks see: byte for byte those of DeepSpeed's DataAnalyzer. They do not depend on the number
 * of ranks. Training reads them with --data-efficiency-curriculum-learning. Collective with several ranks. Errors:
 * TX_ERR_NOTFOUND (vocab_rarity without total_vocab_freq); those of the dataset and of writing. */
TX_API tx_status tx_analyze_data(tx_config *cfg);

/* Runs the iteration of a replay file again and checks it, as `triax replay` does, from the checkpoint that the file
 * names or from initial weights. Writes nothing. TX_OK: the same non-finite value was found. TX_ERR_NUMERIC: a
 * different one or none was found. TX_ERR_NOTFOUND, TX_ERR_FORMAT, TX_ERR_ARG: the file, its checkpoint or its data is
 * missing, damaged or belongs to another run. */
TX_API tx_status tx_replay(const tx_config *cfg);

/* Reads the metrics files of runs and writes one self-contained HTML page, as `triax report` does: curves, where time
 * and memory go, and each run's options. TX_ERR_NOTFOUND, TX_ERR_FORMAT name the file and line. */
TX_API tx_status tx_report(const tx_config *cfg);

/* Reports the hardware of this machine and what triax will use of it, and runs a self-test of a few seconds, as `triax
 * doctor` does. A failed check is logged and returned as the status. */
TX_API tx_status tx_doctor(const tx_config *cfg);

/* Sets the environment variables that OpenMP runtimes read when a program is loaded, for a program that then restarts
 * itself, as `triax` does: --threads or one thread per core (OMP_NUM_THREADS), a short spin time, and, with may_bind
 * and if --cpu-bind asks for it, one core per thread (OMP_PLACES, OMP_PROC_BIND). Variables that the user has set are
 * kept. */
TX_API tx_status tx_threads_environment(const tx_config *cfg, bool may_bind);

#ifdef __cplusplus
}
#endif
#endif
