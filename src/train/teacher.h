/* teacher.h - the model that a student learns from (--kd, --mos): forward alone, without dropout, on the ranks and in
 * the precision of the student. Its weights are whole on every data-parallel rank, whatever the student's ZeRO stage.
 *
 *      stage 0   teacher's layers -> y  ---->  stage 1   teacher's layers -> y  ---->  ...   features
 *                student's layers -> y  ---->            student's layers -> y  ---->        head_loss(student,
 * features)
 *
 *  Its layers are divided over the stages by themselves, and its stream goes beside the student's, in the same
 * instructions. Its logits never exist whole: the student's head makes them of `features`, in its own chunks of rows.
 * Nothing of it is kept for backward, and nothing of it is saved. */
#ifndef TX_TRAIN_TEACHER_H
#define TX_TRAIN_TEACHER_H

#include "model/model.h"

typedef struct tx_teacher {
    tx_config *cfg;     /* owned: the teacher's (tx_config_teacher) */
    tx_model *m;        /* owned; NULL: there is none */
    void *value;        /* owned: its weights, where ops run */
    tx_arena acts;      /* y and features; then what its forward needs */
    tx_tensor x;        /* the caller's: [s, b, its h] of its stream, from the stage before */
    tx_tensor y;        /* likewise to the next one, one micro-batch at a time. Absent at the end */
    tx_tensor features; /* [s*b, its h]: the last stage's */
} tx_teacher;

/* In c's dry run, for a zeroed t. TX_ERR_ARG, TX_ERR_SHAPE: it cannot teach this student. */
tx_status tx_teacher_open(tx_teacher *t, tx_ctx *c, const tx_model *student, const tx_config *cfg);
/* Ends the dry run: takes the memory. Weights are what they are until tx_teacher_load. Without a teacher these three do
 * nothing. */
tx_status tx_teacher_take(tx_teacher *t, tx_ctx *c);
void tx_teacher_close(tx_teacher *t, tx_ctx *c);
size_t tx_teacher_bytes(const tx_teacher *t); /* of its weights */

/* Reads --load-teacher. Collective over all ranks. TX_ERR_SHAPE: it has another vocabulary. */
tx_status tx_teacher_load(tx_teacher *t, tx_ctx *c, const tx_config *cfg);

/* What goes between its stages; s positions of a sample. */
tx_tensor tx_teacher_stream(const tx_teacher *t, tx_ctx *c, int64_t s, int64_t b);
void tx_teacher_set_length(tx_teacher *t, tx_ctx *c, int64_t s, int64_t b);

/* The forward of the batch's chunk, from x; sets y, or of the last chunk what the batch's student needs. */
tx_status tx_teacher_fwd(tx_teacher *t, tx_ctx *c, tx_batch *batch);

#endif
