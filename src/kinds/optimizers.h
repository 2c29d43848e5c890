/* optimizers.h - the optimizers: --optimizer. */
#ifndef TX_KINDS_OPTIMIZERS_H
#define TX_KINDS_OPTIMIZERS_H

#include "kinds/kind.h"

/*   X(constant, word) */
#define TX_OPTIMIZERS(X)         \
    X(TX_OPTIMIZER_ADAM, "adam") \
    X(TX_OPTIMIZER_SGD, "sgd")

TX_KIND(optimizer_kind, TX_OPTIMIZERS)

#endif
