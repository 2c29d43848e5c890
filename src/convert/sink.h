/* sink.h - writes a model in a format, and the state of its run where the format has a place for it. The other side of
 * source.h. A sink takes parameters one at a time from a conversion, so that only one of them is in memory. */
#ifndef TX_CONVERT_SINK_H
#define TX_CONVERT_SINK_H

#include "checkpoint/safetensors.h"
#include "convert/source.h"

/* What to write. */
typedef struct tx_conversion {
    tx_source *src;
    const tx_model *m;                  /* of one rank: all parameters, padded for n_tp; no weights */
    const tx_config *cfg;               /* complete: the model's options, and as many of the run's as the source has */
    const json_t *options;              /* the source's own, as its type gave them */
    const char *out;                    /* folder */
    const char *name;                   /* universal: of the step's folder in it; NULL: by the iteration */
    int n_tp, n_pp, n_dp;               /* ranks that the folder is for: Megatron, DeepSpeed */
    int n_ep;                           /* DeepSpeed: ranks that share a layer's experts; 0 is 1 */
    bool expert_tensor;                 /* DeepSpeed: tensor ranks split each expert, else each expert is whole */
    int zero_stage;                     /* DeepSpeed: 0 to 3 */
    bool pipeline;                      /* DeepSpeed: as its pipeline engine writes; with n_pp > 1 always */
    tx_st_dtype dtype;                  /* of weights: F32, BF16, F16; masters and moments are float32 */
    bool with_optim;                    /* the source has it, and it is wanted */
    bool release;                       /* Megatron: no run, weights to start from; --for-release */
    int64_t shard_bytes;                /* Hugging Face: a file's largest size; 0: one file */
    const tx_ckpt_tokenizer *tokenizer; /* native: what the checkpoint keeps of one; NULL: none */

    float *whole; /* what was fetched last; tx_conversion_fetch */
    int part, row;
} tx_conversion;

typedef struct tx_sink_type {
    enum tx_checkpoint_format format; /* of kinds/formats.h */
    bool has_optim;
    /* Writes the folder, whose parent exists. On failure nothing is left that could be taken for a checkpoint. */
    tx_status (*write)(tx_conversion *c);
    unsigned (*change)(const tx_conversion *c, const tx_param *p); /* tx_tensor_change: what a parameter is there */
    /* Of formats that runs save in beside the native one (save_as.h), else false and NULL: whether readers follow a
     * file `latest`, which may name any folder (else one that is called by its iteration); whether the format has a
     * place for such a run; and a rank's own files of an iteration into its folder, without another rank's help. */
    bool has_latest;
    tx_status (*check)(const tx_conversion *c);
    tx_status (*write_rank)(tx_conversion *c, const char *dir, int tp, int pp, int dp);
} tx_sink_type;

/* Of each row: tx_sink_native, ... */
#define TX_SINK_DECLARE(constant, word, kind, what, sign, source, sink) extern const tx_sink_type sink;
TX_FORMATS(TX_SINK_DECLARE)

const tx_sink_type *tx_sink_type_of(enum tx_checkpoint_format format); /* NULL of 0 */

/* Whether the layout is possible: stages divide the layers, tensor ranks what they split. TX_ERR_SHAPE */
tx_status tx_conversion_check(const tx_conversion *c);

/* Row `row` of c->m's table of part src->part[part], whole. Borrowed until the next call; a call for the same
 * row reads nothing again.   *whole [p->whole], padding zeroed */
tx_status tx_conversion_fetch(tx_conversion *c, int part, int row, const float **whole);

/* The same of a native source's tensor for that row, in the shape that it has there (tx_checkpoint_tensor). */
tx_status tx_conversion_fetch_tensor(tx_conversion *c, int part, int row, const tx_param *tensor, const float **whole);

#endif
