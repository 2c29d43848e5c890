/* formats.h - the formats of checkpoints: --from and --to of convert, --save-format of a run. */
#ifndef TX_KINDS_FORMATS_H
#define TX_KINDS_FORMATS_H

#include "kinds/kind.h"

/* Those that a run saves. X(constant, word) */
#define TX_SAVE_FORMATS(X)            \
    X(TX_FORMAT_NATIVE, "native")     \
    X(TX_FORMAT_MEGATRON, "megatron") \
    X(TX_FORMAT_DEEPSPEED, "deepspeed")

/* All, in the order in which they are listed. */
#define TX_FORMATS(X)                       \
    X(TX_FORMAT_NATIVE, "native")           \
    X(TX_FORMAT_HUGGINGFACE, "huggingface") \
    X(TX_FORMAT_MEGATRON, "megatron")       \
    X(TX_FORMAT_DEEPSPEED, "deepspeed")     \
    X(TX_FORMAT_UNIVERSAL, "universal")

TX_KIND(checkpoint_format, TX_FORMATS)

#endif
