/* formats.h - the formats of checkpoints: --from and --to of convert, --save-format of a run.
 *
 *  A format more is a row here, with its place in the lists, and two files in convert/: how it is read
 * (convert/source.h), and how it is written (convert/sink.h). */
#ifndef TX_KINDS_FORMATS_H
#define TX_KINDS_FORMATS_H

#include "kinds/kind.h"

/* X(constant, word, tx_ckpt_kind's constant, what a folder of it holds, sign, its tx_source_type, its tx_sink_type)
 *
 *  sign: a file that every folder of the format has and no other. NULL: checkpoint/checkpoint_place.c recognises it by
 * the names of several. */
#define TX_FORMAT_ROW_NATIVE(X) \
    X(TX_FORMAT_NATIVE, "native", TX_CKPT_NATIVE, "triax's own checkpoints", NULL, tx_source_native, tx_sink_native)
#define TX_FORMAT_ROW_HUGGINGFACE(X)                                                                                  \
    X(TX_FORMAT_HUGGINGFACE, "huggingface", TX_CKPT_HUGGINGFACE, "a Hugging Face model", NULL, tx_source_huggingface, \
      tx_sink_huggingface)
#define TX_FORMAT_ROW_MEGATRON(X)                                                                          \
    X(TX_FORMAT_MEGATRON, "megatron", TX_CKPT_MEGATRON, "a Megatron checkpoint", NULL, tx_source_megatron, \
      tx_sink_megatron)
#define TX_FORMAT_ROW_DEEPSPEED(X)                                                                              \
    X(TX_FORMAT_DEEPSPEED, "deepspeed", TX_CKPT_DEEPSPEED, "a DeepSpeed checkpoint", NULL, tx_source_deepspeed, \
      tx_sink_deepspeed)
#define TX_FORMAT_ROW_UNIVERSAL(X)                                                                   \
    X(TX_FORMAT_UNIVERSAL, "universal", TX_CKPT_UNIVERSAL, "a universal DeepSpeed checkpoint", NULL, \
      tx_source_universal, tx_sink_universal)

#define TX_FORMAT_ROW_TORCH_DIST(X)                                                                              \
    X(TX_FORMAT_TORCH_DIST, "torch_dist", TX_CKPT_TORCH_DIST, "a distributed checkpoint of Megatron Core", NULL, \
      tx_source_torch_dist, tx_sink_torch_dist)

#define TX_FORMAT_ROW_PEFT(X) \
    X(TX_FORMAT_PEFT, "peft", TX_CKPT_PEFT, "an adapter of PEFT", "adapter_config.json", tx_source_peft, tx_sink_peft)

/* Those that a run saves. */
#define TX_SAVE_FORMATS(X)    \
    TX_FORMAT_ROW_NATIVE(X)   \
    TX_FORMAT_ROW_MEGATRON(X) \
    TX_FORMAT_ROW_DEEPSPEED(X)

/* All, in the order in which they are listed. */
#define TX_FORMATS(X)            \
    TX_FORMAT_ROW_NATIVE(X)      \
    TX_FORMAT_ROW_HUGGINGFACE(X) \
    TX_FORMAT_ROW_MEGATRON(X)    \
    TX_FORMAT_ROW_DEEPSPEED(X)   \
    TX_FORMAT_ROW_UNIVERSAL(X)   \
    TX_FORMAT_ROW_TORCH_DIST(X)  \
    TX_FORMAT_ROW_PEFT(X)

TX_KIND(checkpoint_format, TX_FORMATS)

/* clang-format off */
#define TX_FORMAT_WHAT(constant, word, kind, what, ...) case constant: return what;
#define TX_FORMAT_SIGN(constant, word, kind, what, sign, ...) case constant: return sign;
#define TX_FORMAT_SAVES(constant, ...) if (format == constant) return 1;
/* clang-format on */

/* "a Megatron checkpoint", and its sign; NULL of 0, and where there is none. */
static inline const char *tx_checkpoint_format_what(enum tx_checkpoint_format format)
{
    switch (format) {
        TX_FORMATS(TX_FORMAT_WHAT)
    }
    return NULL;
}

static inline const char *tx_checkpoint_format_sign(enum tx_checkpoint_format format)
{
    switch (format) {
        TX_FORMATS(TX_FORMAT_SIGN)
    }
    return NULL;
}

/* Whether it is a word of --save-format. */
static inline int tx_checkpoint_format_is_saved(enum tx_checkpoint_format format)
{
    TX_SAVE_FORMATS(TX_FORMAT_SAVES)
    return 0;
}

#endif
