/* replay_file.h - what a run that stopped at numbers which are not finite leaves, so that its last iteration can run
 * again: one JSON object (docs/formats/replay.md). The flags lead to the parameters, the ids are the samples. */
#ifndef TX_CHECKPOINT_REPLAY_FILE_H
#define TX_CHECKPOINT_REPLAY_FILE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

#define TX_REPLAY_PREFIX "replay-iteration-" /* <N>.json */

enum { TX_REPLAY_MAX_IDS = 1 << 20 }; /* that a writer puts into a file, unless one micro-batch alone has more */

typedef struct tx_replay_file {
    const char *command;            /* that ran: "pretrain-gpt" or "pretrain-bert"; as read it is a constant */
    json_t *flags;                  /* array of strings: of the command, without those that write */
    int64_t iteration;              /* that was skipped, from 1 */
    int64_t consumed_train_samples; /* before it */
    int64_t skipped_before;         /* iterations in a row right before it that were skipped, too */
    int64_t vocab_size;
    int32_t eod;         /* or -1 */
    json_t *found;       /* string: what was found there (train/non_finite.h) */
    json_t *documents;   /* string: of the micro-batch where */
    int64_t first_micro; /* micro-batch that the ids begin with, from 0 */
    int64_t n_rows, row; /* samples, and ids of each */
    int32_t *id;         /* [n_rows][row] */
} tx_replay_file;

/* Publishes it. Takes none of its members. */
tx_status tx_replay_file_write(const tx_replay_file *r, const char *path);

/* Reads and checks one; freed with tx_replay_file_free. Every id of a GPT is of the vocabulary, a BERT's rows are for
 * the model to check; all texts are printable; whether the flags are any is for the parser of flags to say.
 * TX_ERR_FORMAT names the file and the member. */
tx_status tx_replay_file_read(tx_replay_file *out, const char *path);
void tx_replay_file_free(tx_replay_file *r); /* a zeroed one is fine */

#endif
