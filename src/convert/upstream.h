/* upstream.h - what Megatron and DeepSpeed call things: parameters in their three spellings, options in `args`, a run's
 * state. Shared by readers and writers of their folders; the one place that knows these names.
 *
 *      ours          encoder.layers.1.self_attention.query_key_value.weight
 *      Megatron's    language_model.encoder.layers.1.self_attention.query_key_value.weight    (`transformer`,
 * `attention`: before 2022) a pipeline's  3.self_attention.query_key_value.weight      number of the layer in
 * DeepSpeed's PipelineModule */
#ifndef TX_CONVERT_UPSTREAM_H
#define TX_CONVERT_UPSTREAM_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"
#include "nn/param.h"
#include "torch/py.h"

typedef enum tx__name_kind {
    TX__NAME_OURS, /* a parameter: its name is given */
    TX__NAME_COPY, /* another rank's or another name's copy of one */
    TX__NAME_ELSE  /* not a parameter of our models */
} tx__name_kind;

/* "language_model.encoder.layers.0.x", first layer of the file's being layer `first`. Split: position embeddings
 * whose rows the tensor ranks share, as with --sequence-parallel. */
tx__name_kind tx__megatron_name(const char *theirs, int64_t first, char ours[TX_PARAM_NAME_MAX], bool *split);

/* "3.input_layernorm.weight", "tied_modules.embed.word_embeddings.weight": a pipeline's, whose first transformer layer
 * has number `first` and which has n of them. */
tx__name_kind tx__pipeline_name(const char *theirs, int64_t first, int64_t n, char ours[TX_PARAM_NAME_MAX],
                                bool *split);

/* The number that the name begins with if it is of a transformer layer of a pipeline, else -1. */
int64_t tx__pipeline_layer(const char *theirs);

/* Our name in the spellings; of a tied embedding in a pipeline `tied`. */
void tx__to_megatron_name(const char *ours, int64_t first, char theirs[2 * TX_PARAM_NAME_MAX]);
void tx__to_pipeline_name(const char *ours, int64_t n_layers, bool tied, char theirs[2 * TX_PARAM_NAME_MAX]);

/* Whether our name is that of an expert's parameter, and which; gives it another expert's number. */
bool tx__expert_of(const char *ours, int64_t *layer, int64_t *expert);
void tx__set_expert(char ours[TX_PARAM_NAME_MAX], int64_t expert);

/* Calls found() for every tensor of nested dicts, whose keys, joined by dots, are its name; other values are passed
 * over. In the order of the file, which is that of the model's parameters. */
typedef tx_status tx__tensor_fn(void *user, const char *name, const tx_pt_tensor *t);
tx_status tx__each_tensor(const tx_py *v, tx__tensor_fn *found, void *user);

/* Megatron's rule for which parameters decay: matrices. */
bool tx__decays(const char *name, int n_dims);

/* Whether a parameter's rows are the vocabulary's. */
bool tx__is_vocabulary(const char *ours);

/* Options of tx_config_from_json from a file's `args`; `all` has the names to look for. TX_ERR_UNSUPPORTED: a model
 * that has something that is not built.   @model as --model-type has it: args do not say */
tx_status tx__args_to_options(const tx_py *args, const char *model, const json_t *all, const char *path, json_t **out);

/* Of these, how rotary positions are scaled and which layers have none (upstream_rope.c).   @yarn args'
 * position_embedding_type says so */
void tx__rope_from_args(json_t *o, const tx_py *args, bool yarn);

/* Whether the model has layers with experts; TX_ERR_UNSUPPORTED where it has. */
bool tx__args_have_experts(const tx_py *args);
tx_status tx__refuse_experts(const tx_py *args, const char *path);

/* Flags of ours that switch something off, and the members of args that say what is on; NULLs end them. */
extern const char *const tx__opposites[][2];

/* The run's state from args and the members next to them; zeros where nothing is known. */
void tx__args_to_state(const tx_py *root, tx_ckpt_state *state);

/* Tokens of the model: the tokenizer's, where the file says so, else with the padding. */
int64_t tx__vocabulary_of(const tx_py *root);

/* What args of a run of triax have besides its options, as native checkpoints' configs have it; NULL ends them. */
extern const char *const tx__run_keys[];

/* tx__run_keys', "opt_param_scheduler", "lr_scheduler" and "grad_scaler" of tx_source.run. args fill what old
 * schedulers do not say. scaler: Megatron's dict or DeepSpeed's object, or NULL */
tx_status tx__run_of(const tx_py *scheduler, const tx_py *args, const tx_py *scaler, json_t **out);

#endif
