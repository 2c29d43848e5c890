/* config.h - the options of one run as a struct, for the library's other folders.
 *
 * options.def is the table; this header turns each of its rows into one member, named as Megatron names it: the flag
 * with underscores (--micro-batch-size -> cfg->micro_batch_size). What an unset option looks like:
 *
 *      I64 0    F64 0.0    STR NULL    ENUM 0    LIST n = 0    FLAG false    FLAG_OFF (--no-...) true
 *
 * cfg->given.<field> is true if the user typed the option. A parsed config is complete: every rule holds, and options
 * that follow from others are filled in (listed at tx_config_complete). Treat it as const afterwards. */
#ifndef TX_CONFIG_CONFIG_H
#define TX_CONFIG_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "kinds/chat_templates.h"
#include "kinds/commands.h"
#include "kinds/cp_comms.h"
#include "kinds/curricula.h"
#include "kinds/formats.h"
#include "kinds/models.h"
#include "kinds/ns_coefficients.h"
#include "kinds/optimizers.h"
#include "kinds/schedules.h"
#include "kinds/tasks.h"
#include "kinds/tiktoken_patterns.h"
#include "kinds/tokenizers.h"
#include "triax/config.h"

/* ---- the words of ENUM rows ---- */

/* The words of the ENUM row of `type` as enum tx_<type>, from 1 on, and the word of each; NULL of 0. Those of ENUM_OF
 * rows are made here or in src/kinds/. A switch over one has no default: the compiler then finds the place that a new
 * word needs. */
#define W(...)                                    TX_KIND_PLACE(__VA_ARGS__)
#define ENUM(field, flag, init, type, words, ...) enum { words };
#include "config/options.def"
#define W(...)                                    TX_KIND_CONSTANT(__VA_ARGS__)
#define ENUM(field, flag, init, type, words, ...) enum tx_##type{ words };
#include "config/options.def"
#define ENUM(field, flag, init, type, ...) const char *tx_##type##_word(enum tx_##type value);
#include "config/options.def"

/* ---- a config ---- */

typedef struct tx_list {
    char **item; /* owned by the config */
    int n;
} tx_list;

/* A list of datasets, as in --data-path and its kin: one prefix, or pairs of weight and prefix. Returns how many
 * datasets there are; the prefix of the i-th one and, unless NULL, its weight (1 for a prefix alone). */
int tx_weighted_count(const tx_list *l);
const char *tx_weighted_at(const tx_list *l, int i, double *weight);

/* A size as --memory-limit accepts it. A bare number, or B, is in bytes; K, M, G, T, P and KiB, MiB, ... are powers of
 * 1024; KB, MB, ... are powers of 1000. Returns false if the text is no size, or less than one byte. */
bool tx_size_parse(const char *text, size_t *bytes);

/* A fraction as --memory-limit accepts it, 0 < share <= 1: "90%", or a number with a decimal point such as "0.9". */
bool tx_share_parse(const char *text, double *share);

/* The iterations that --profile asks for, [*first, *last], in a process that starts after `done` of them. --profile N
 * counts from the third iteration of the process, --profile-steps counts those of the process, and
 * --profile-step-start and -end count those of the run. Returns false if --profile is not given or, before the rules
 * have been checked, is invalid. */
bool tx_config_profiled(const tx_config *cfg, int64_t done, int64_t *first, int64_t *last);

/* A row of kinds/commands.h. */
typedef struct tx_command {
    enum tx_command_id id;
    const char *name, *summary; /* "pretrain-gpt" */
    unsigned traits;            /* of enum tx_command_trait */
    enum tx_command_load load;
    bool launches;   /* starts the ranks of another command */
    uint64_t groups; /* of options that it accepts, one bit each */
} tx_command;

/* The command of that name, or NULL. */
const tx_command *tx_command_find(const char *name);

/* One bool per option. */
typedef struct tx_config_given {
#define I64(field, ...)      bool field;
#define F64(field, ...)      bool field;
#define STR(field, ...)      bool field;
#define ENUM(field, ...)     bool field;
#define ENUM_OF(field, ...)  bool field;
#define LIST(field, ...)     bool field;
#define FLAG(field, ...)     bool field;
#define FLAG_OFF(field, ...) bool field;
#include "config/options.def"
} tx_config_given;

struct tx_config {
#define I64(field, ...)                       int64_t field;
#define F64(field, ...)                       double field;
#define STR(field, ...)                       char *field;
#define ENUM(field, flag, init, type, ...)    enum tx_##type field;
#define ENUM_OF(field, flag, init, type, ...) enum tx_##type field;
#define LIST(field, ...)                      tx_list field;
#define FLAG(field, ...)                      bool field;
#define FLAG_OFF(field, ...)                  bool field;
#include "config/options.def"
    tx_config_given given;
    const tx_command *command;
    json_t *teacher; /* the options of --load-teacher's model, as checkpoints keep them; NULL: not read yet; owned */
};

/* A config with every option at the command's default: nothing is given, nothing is derived, and no rule is checked.
 * For tests, and for programs that fill in the struct themselves and then call tx_config_complete. TX_ERR_NOTFOUND: no
 * such command. */
tx_status tx_config_new(tx_config **out, const char *command);

/* Finds where a launcher's own flags end: the number of arguments before the first one that is neither a flag of the
 * command nor a flag's value. A flag that the command does not know counts as the last of them. */
int tx_config_own_flags(const char *command, int argc, char *const *argv);

/* Sets a STR member: frees the old text, keeps a copy of the new one (NULL: unset). Does not mark it given. */
tx_status tx_config_set_text(char **member, const char *text);

/* Sets a LIST member to the single item `item`. */
tx_status tx_config_set_item(tx_list *member, const char *item);

/* Fills in the options that follow from others, then checks every rule across options; the one error text has all
 * violations (TX_ERR_ARG). Parsing ends with this call. Code that changes options later, such as a loader that takes
 * the model's shape from a checkpoint, calls it again. It fills only members that are still 0 or NULL:
 *
 *      world_size = ranks that the launcher has started; of other commands than those that train one model's
 *      global_batch_size = micro_batch_size x data-parallel size
 *      ffn_hidden_size = 4 hidden_size, or 8/3 of it
 *      position_embedding_type = rope, none with use_rotary_position_embeddings, without add_position_embedding, and
 *                                                  these as it says
 *      max_position_embeddings = seq_length where no positions are learned and it is less
 *      rope_scaling_type and rope_scaling_factor as use_rope_scaling, rotary_seq_len_interpolation_factor and the word
 *                                                  yarn say
 *      rope_scaling_factor = 8 of llama3           rope_original_positions = 8192 of it, 4096 of yarn,
 *                                                  max_position_embeddings of dynamic
 *      kv_channels = hidden_size / heads           train_iters = train_samples / global_batch_size,
 *                                                  or counted through --rampup-batch-size
 *      lr_decay_iters = train_iters  or  lr_decay_samples = train_samples
 *      start_weight_decay = end_weight_decay = weight_decay when the style is constant
 *      tokenizer_type = BertWordPieceLowerCase with model_type BERT, NullTokenizer with mock_data and vocab_size
 *      grad_dtype = bf16 with grad_reduce_in_bf16
 *      zero_stage = 1 with use_distributed_optimizer       deepspeed = true with deepspeed_config
 *
 * sequence_parallel becomes false if the tensor-parallel size is 1.
 * Training with --load may omit the four shape flags (num_layers, hidden_size, num_attention_heads,
 * max_position_embeddings); they are 0 until tx_config_from_json has filled them in. */
tx_status tx_config_complete(tx_config *cfg);

/* Copies a complete config and sets some flags, given as one would type them, separated by blanks. Everything that the
 * new flags do not set stays as in cfg, derived values too. TX_ERR_ARG: the flags break a rule, or the command does
 * not have them. */
tx_status tx_config_with(tx_config **out, const tx_config *cfg, const char *flags);

/* The global batch size of the iteration that starts after `consumed` samples (--rampup-batch-size). */
int64_t tx_config_batch_size(const tx_config *cfg, int64_t consumed);

/* How many iterations' data are skipped before iteration `iteration` is trained (--skip-train-iteration-range). *last
 * is set to the last iteration of the range that begins at `iteration`, or to 0. */
int64_t tx_config_skipped_iterations(const tx_config *cfg, int64_t iteration, int64_t *last);

/* How many tokens of each sample an iteration trains on, from 1: --seq-length, or what --curriculum-schedule has for
 * it. *last is set to an iteration up to which it stays so; INT64_MAX: for ever. */
int64_t tx_config_sample_length(const tx_config *cfg, int64_t iteration, int64_t *last);

/* How many tokens of each sample the layers of --random-ltd compute in an iteration, from 1; all of them where the
 * sample has no more. 0: there are no such layers. *last as above. And whether a layer, from 0, is one of them; how
 * many are. */
int64_t tx_config_reserved_length(const tx_config *cfg, int64_t iteration, int64_t *last);
int64_t tx_config_kept(const tx_config *cfg, int64_t iteration, int64_t *last); /* likewise; then --seq-length */
bool tx_config_drops_tokens(const tx_config *cfg, int64_t layer);
int64_t tx_config_n_dropping(const tx_config *cfg);

/* Megatron-DeepSpeed's measure of a sample of s tokens, of which layers with --random-ltd compute r: the mean over all
 * layers, rounded down. It counts as the tokens that are consumed. */
int64_t tx_config_layer_tokens(const tx_config *cfg, int64_t s, int64_t r);

/* theta of --progressive-layer-drop in an iteration, from 1; 1 without it. */
double tx_config_layer_theta(const tx_config *cfg, int64_t iteration);

/* Tokens of the first so many iterations of --global-batch-size samples. */
double tx_config_tokens(const tx_config *cfg, int64_t iterations);

/* ---- parallel layout ---- */

/* The data-parallel size: world_size / (tensor- x pipeline- x context-parallel size). */
int64_t tx_config_data_parallel(const tx_config *cfg);

/* Ranks that have the same parameters, among which ZeRO divides: the data-parallel ones times those that divide the
 * positions of a sample. */
int64_t tx_config_sharers(const tx_config *cfg);

/* How attention sees all positions then. In a complete config --cp-comm-type has one of the words. */
enum tx_cp_comm tx_config_cp_comm(const tx_config *cfg);

/* With a2a+p2p: how many of those exchange heads; else 0. */
int64_t tx_config_heads_ranks(const tx_config *cfg);

/* Whether each of the latter has two runs of a sample's positions (Megatron's halves), so that all compute as much of
 * causal attention; else one, as where attention is not causal, or one in each chunk (tx_config_chunking). */
bool tx_config_zigzag(const tx_config *cfg);

/* Whether a layout is looked for (--search, --gpus-for): the one that the options have does not count then, and rules
 * about it do not hold. */
bool tx_config_searches(const tx_config *cfg);

/* Model chunks per pipeline stage: more than 1 with the interleaved schedule. */
int tx_config_chunks(const tx_config *cfg);

/* How many seconds a rank waits for others. */
double tx_config_timeout(const tx_config *cfg);

/* ---- other derived values ---- */

/* How the model encodes positions. In a complete config --position-embedding-type has the first of the words for it,
 * and add_position_embedding and use_rotary_position_embeddings agree. */
typedef enum tx_positions {
    TX_POSITIONS_LEARNED,
    TX_POSITIONS_ALIBI,
    TX_POSITIONS_ROPE,
    TX_POSITIONS_NONE
} tx_positions;
tx_positions tx_config_positions(const tx_config *cfg);

/* Whether the MLP is gated: --swiglu, --gated-activation, --glu-activation. */
bool tx_config_is_gated(const tx_config *cfg);

/* upstreams.c: a flag of the model's shape that is given and that the args of Megatron-DeepSpeed's checkpoints have no
 * word for, as an error names it; NULL: there is none. */
const char *tx_config_not_upstreams(const tx_config *cfg);

/* Norms of a layer that have --hidden-size weights. */
int tx_config_layer_norms(const tx_config *cfg);

/* The number of elements of a head that rotary embeddings rotate: Megatron's int(head * percent). */
int64_t tx_config_rotary_dim(const tx_config *cfg);

/* How many tokens before itself a token sees in layer `layer`, from 0; 0: all of them. And what scores of attention are
 * multiplied by. */
int64_t tx_config_window(const tx_config *cfg, int64_t layer);
double tx_config_attention_scale(const tx_config *cfg);
/* Whether layer `layer`, from 0, has no rotary positions (--no-rope-freq). */
bool tx_config_skips_rope(const tx_config *cfg, int64_t layer);

/* Where the warm-up of WarmupLR and WarmupDecayLR ends. *flag: the option that says it. */
double tx_config_warmup_max_lr(const tx_config *cfg, const char **flag);

/* What backward recomputes: the recomputation options in one struct. */
typedef struct tx_recompute {
    bool selective;   /* in every layer only what is cheap: the outputs of its norms and of its activation function */
    int64_t n_layers; /* whole layers: this many, from the first layer on, ... */
    int64_t group;    /* ... in groups of this many (the last may be shorter), of which only the input is kept, ... */
    bool divided;     /* ... partitioned over the tensor-parallel ranks, ... */
    bool in_host;     /* ... or offloaded to host memory */
} tx_recompute;
tx_recompute tx_config_recompute(const tx_config *cfg);

/* Whether layers compute their positions in chunks: --ds-sequence-parallel-fpdt in one struct. */
typedef struct tx_chunking {
    int64_t positions; /* of a chunk; 0: layers compute all at once */
    bool in_host;      /* what is kept of all of them is in the host's memory, or in a file; */
    bool inputs;       /* so are inputs of layers, which are not computed again as a whole */
} tx_chunking;
tx_chunking tx_config_chunking(const tx_config *cfg);

/* Which matrices have adapters (--lora-rank), an or of TX_LORA_BIT of kinds/lora_targets.h; 0: none has. And what a
 * word of --lora-targets means, 0: there is no such word. */
unsigned tx_config_lora_targets(const tx_config *cfg);
unsigned tx_config_lora_word(const char *word);

/* The feed-forward half of a layer. */
typedef struct tx_moe_shape {
    int64_t n_experts;                /* 1: it is dense, and nothing else counts */
    int64_t k;                        /* experts that a token chooses */
    int64_t ffn, shared_ffn;          /* widths inside an expert, and inside the shared one; 0: there is none */
    bool shared_gate;                 /* the shared expert's output has a weight, a sigmoid */
    bool residual;                    /* --mlp-type residual */
    bool sigmoid;                     /* scores are sigmoids, not softmax */
    bool softmax_after;               /* weights are the softmax of the chosen logits */
    bool renormalise;                 /* weights are divided by their sum */
    bool deepspeed;                   /* what is dropped, and what counts as load, is as DeepSpeed has it */
    bool drops_small;                 /* else: of more tokens than an expert takes those of small weights are dropped */
    bool noisy_second;                /* of a token's two choices */
    double scale;                     /* of the weights */
    double train_factor, eval_factor; /* of an expert's capacity; 0: nothing is dropped */
    int64_t min_capacity;
    double aux_coeff, z_coeff;
    bool bias; /* experts are chosen with one, which the load changes by bias_rate a step */
    double bias_rate;
} tx_moe_shape;

/* Of layer `layer`, from 0. */
tx_moe_shape tx_config_moe(const tx_config *cfg, int64_t layer);

/* How many of the first `before` layers have experts, where --num-experts gives them any. */
int64_t tx_config_expert_layers(const tx_config *cfg, int64_t before);

/* Whether any layer has experts; whether ranks of a stage have others than their neighbours, or whole ones beside
 * tensor parallelism; and whether tensor ranks split their matrices. */
bool tx_config_has_experts(const tx_config *cfg);
bool tx_config_divides_experts(const tx_config *cfg);
bool tx_config_expert_tensor(const tx_config *cfg);

/* Whether the student learns from a teacher (--kd, --mos). */
bool tx_config_has_teacher(const tx_config *cfg);

/* Options of the teacher's model on the ranks and in the precision of the student: its shape is that of cfg->teacher,
 * or where that has not been read the student's, but for the flags that name the teacher's. TX_ERR_ARG: these are
 * another model's, or the layout cannot have it. The caller frees *out with tx_config_free(). */
tx_status tx_config_teacher(tx_config **out, const tx_config *cfg);

/* ---- the part of a config that lives in a checkpoint ---- */

/* How a checkpoint keeps an option (a column of options.def). Options that contain paths are never kept. */
enum tx_kept {
    TX_KEPT_NO = 0,
    TX_KEPT_SHAPE = 1,     /* defines the model: a checkpoint cannot be loaded with another value */
    TX_KEPT_HINT = 2,      /* taken from the checkpoint if left out; may differ if given (--seq-length) */
    TX_KEPT_RUN = 4,       /* affects the course of training: batch sizes, dropout, seed, ... */
    TX_KEPT_SCHEDULE = 8,  /* learning rate and weight decay: saved for information; optim/schedule.h compares the
                            * resulting schedules */
    TX_KEPT_ALL_GIVEN = 16 /* never in a row: treats every option as given, so nothing is filled in */
};

/* An object with all kept options, in the table's order; unset ones are null. The caller frees *out with
 * json_decref(). */
tx_status tx_config_to_json(const tx_config *cfg, json_t **out);

/* The options of the model's shape (SHAPE), and those with which it computes something else though its weights are the
 * same (how rotary positions are scaled), at their defaults; unset ones are null. */
tx_status tx_config_shape(json_t **out);

/* Whether the option with this field is one of them. */
bool tx_config_is_shape(const char *field);

/* The options of cfg's shape as they are meant: those that mean nothing beside the others are left out, and what can be
 * said in several ways is said in one. They can be read again (tx_config_from_json). Two models of which these are the
 * same compute the same. The caller frees *out with json_decref(). */
tx_status tx_config_shape_of(const tx_config *cfg, json_t **out);
/* The same of options that were read; TX_ERR_FORMAT: one has a value that it cannot have. */
tx_status tx_config_shape_meant(const json_t *options, json_t **out);
/* How many of them differ, and how: "--swiglu is on, there off; ..." is appended to out. -1: not enough memory. */
int tx_config_shapes_differ(const json_t *a, const json_t *b, tx_str *out);

/* Compares cfg with such an object, and fills in options from it. `which` is a combination of tx_kept:
 *
 *      SHAPE  options that were left out are filled in; given ones that differ are an error that lists all of them
 *             (TX_ERR_ARG). max_position_embeddings counts as HINT if the model learns no positions
 *      HINT   options that were left out are filled in; given ones stay
 *      RUN    nothing is filled in; each difference is one warning in the log
 *
 * Only options that the command accepts are compared. Members missing from `saved` are ignored. A value of the wrong
 * type or out of bounds is TX_ERR_FORMAT. On failure cfg is unchanged. Call tx_config_complete afterwards. */
tx_status tx_config_from_json(tx_config *cfg, const json_t *saved, unsigned which);

/* Appends how the shapes differ: "its --hidden-size is 64, this run's 128; its ...". TX_ERR_FORMAT as above. */
tx_status tx_config_shape_differences(const tx_config *cfg, const json_t *saved, tx_str *out);

/* ---- all that was given, as flags ---- */

/* The command line that yields these options: an array of strings for tx_config_parse. It omits deepspeed_config,
 * whose values are options by now, and the options whose fields are in the NULL-terminated list `without`. The caller
 * frees *out with json_decref(). TX_ERR_ARG: a value is not UTF-8. */
tx_status tx_config_to_flags(const tx_config *cfg, const char *const *without, json_t **out);

/* ---- all options, for people ---- */

/* Calls item(user, field, value) for each of the command's options, sorted, with values as Python prints them. Stops
 * at the first failure and returns it. */
typedef tx_status tx_config_item_fn(void *user, const char *name, const char *value);
tx_status tx_config_each(const tx_config *cfg, tx_config_item_fn *item, void *user);

/* Prints the arguments in Megatron's form, one call per line:
 *      ------------------------ arguments ------------------------
 *        lr .............................................. 0.001
 * Lists the options that were given and those that differ from the defaults; with --log-level debug the others follow.
 * With --log-dialect it is one list, as in Megatron.
 * `line` NULL: each line is logged with tx_info. */
tx_status tx_config_print(const tx_config *cfg, void (*line)(void *user, const char *text), void *user);

#endif
