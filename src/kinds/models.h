/* models.h - the models that triax trains by its own commands: --model-type, and the model that a checkpoint names. */
#ifndef TX_KINDS_MODELS_H
#define TX_KINDS_MODELS_H

#include "kinds/kind.h"

/*   X(constant, word, its tx_model_type (model/model.h), which a file in the model's folder in src/model/ defines,
 *     samples: the kind that it is trained on, tx_<samples>_samples of data/samples.h) */
#define TX_MODELS(X)                          \
    X(TX_MODEL_GPT, "GPT", tx_model_gpt, gpt) \
    X(TX_MODEL_BERT, "BERT", tx_model_bert, bert)

TX_KIND(model_kind, TX_MODELS)

#endif
