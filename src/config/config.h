/* config.h - the options of one run as a struct, for the rooms that read them.
 *
 *  options.def is the table; this header turns each of its rows into one member, named as Megatron names it: the flag
 *  with underscores (--micro-batch-size -> cfg->micro_batch_size). What an unset option looks like:
 *
 *      I64 0    F64 0.0    STR NULL    ENUM 0    LIST n = 0    FLAG false    FLAG_OFF (--no-...) true
 *
 *  cfg->given.<field> is true where the user typed it. A parsed config is complete: every rule holds and what follows
 *  from other options is filled in (tx_config_complete lists it). Treat it as const from then on. */
#ifndef TX_CONFIG_CONFIG_H
#define TX_CONFIG_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "kinds/commands.h"
#include "kinds/formats.h"
#include "kinds/models.h"
#include "kinds/optimizers.h"
#include "kinds/schedules.h"
#include "kinds/tasks.h"
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

/* A list of datasets, --data-path and its kin: one prefix, or pairs of weight and prefix. Their number, and the i-th
 * one's prefix and (unless NULL) weight; a prefix alone weighs 1. */
int tx_weighted_count(const tx_list *l);
const char *tx_weighted_at(const tx_list *l, int i, double *weight);

/* A size as --memory-limit takes it: a number alone, and B, is bytes; K, M, G, T, P and KiB, MiB, ... are powers of
 * 1024, KB, MB, ... of 1000. false if it is none, or below one byte. */
bool tx_size_parse(const char *text, size_t *bytes);

/* A share as --memory-limit takes it, 0 < share <= 1: "90%" or "0.9", a number with a point. */
bool tx_share_parse(const char *text, double *share);

/* Which iterations --profile asks for, [*first, *last], of a process that begins after `done` of them: N from the
 * third of the process on, --profile-steps of the process, or --profile-step-start and -end of the run. false: it is
 * not given, or, where the rules have not been asked, no such thing. */
bool tx_config_profiled(const tx_config *cfg, int64_t done, int64_t *first, int64_t *last);

/* A row of kinds/commands.h. */
typedef struct tx_command {
    enum tx_command_id id;
    const char *name, *summary; /* "pretrain-gpt" */
    unsigned traits;            /* of enum tx_command_trait */
    enum tx_command_load load;
    bool launches;   /* starts the ranks of another command */
    uint64_t groups; /* of options that it takes: a bit each */
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
};

/* A config with every option at the command's default, nothing given, nothing derived, no rule checked: for tests and
 * for programs that fill the struct themselves and then call tx_config_complete. TX_ERR_NOTFOUND: no such command. */
tx_status tx_config_new(tx_config **out, const char *command);

/* The number of arguments before the first that is neither a flag of the command nor a flag's value: where a launcher's
 * own flags end. A flag that the command does not know is the last one. */
int tx_config_own_flags(const char *command, int argc, char *const *argv);

/* Sets a STR member: frees the old text, keeps a copy of the new one (NULL: unset). Does not mark it given. */
tx_status tx_config_set_text(char **member, const char *text);

/* The same of a LIST member: `item` and nothing else. */
tx_status tx_config_set_item(tx_list *member, const char *item);

/* Fills in what follows from other options, then checks every rule across options; all violations are in the one
 * error text (TX_ERR_ARG). Parsing ends with this call. Whoever changes options later - a loader that has put the
 * shape of a checkpoint's model into the config - calls it again; it only fills members that are still 0 or NULL:
 *
 *      world_size = ranks that the launcher has started; of other commands than those that train one model's
 *      global_batch_size = micro_batch_size x data-parallel size
 *      ffn_hidden_size = 4 hidden_size, or 8/3 of it
 *      position_embedding_type = rope, none with use_rotary_position_embeddings, without add_position_embedding, and
 *                                                  these as it says
 *      max_position_embeddings = seq_length where no positions are learned and it is less
 *      kv_channels = hidden_size / heads           train_iters = train_samples / global_batch_size,
 *                                                  or counted through --rampup-batch-size
 *      lr_decay_iters = train_iters  or  lr_decay_samples = train_samples
 *      start_weight_decay = end_weight_decay = weight_decay when the style is constant
 *      tokenizer_type = BertWordPieceLowerCase with model_type BERT, NullTokenizer with mock_data and vocab_size
 *      grad_dtype = bf16 with grad_reduce_in_bf16
 *      zero_stage = 1 with use_distributed_optimizer       deepspeed = true with deepspeed_config
 *
 * sequence_parallel is false where the tensor-parallel size is 1.
 * Training with --load may leave out the four shape flags (num_layers, hidden_size, num_attention_heads,
 * max_position_embeddings); they are 0 until tx_config_from_json has filled them. */
tx_status tx_config_complete(tx_config *cfg);

/* A copy of a complete config with some flags more, or with other values: as they are typed, divided by blanks. What
 * the new flags do not say stays as it is in cfg, derived values too. TX_ERR_ARG: they break a rule, or are none of the
 * command's. */
tx_status tx_config_with(tx_config **out, const tx_config *cfg, const char *flags);

/* The global batch size of the iteration before which so many samples were consumed (--rampup-batch-size). */
int64_t tx_config_batch_size(const tx_config *cfg, int64_t consumed);

/* How many iterations' data is passed over before iteration `iteration` is trained (--skip-train-iteration-range).
 * *last: where `iteration` begins a range its last one, else 0. */
int64_t tx_config_skipped_iterations(const tx_config *cfg, int64_t iteration, int64_t *last);

/* ---- how the ranks divide the work ---- */

/* Ranks along the data axis: world_size / (tensor- x pipeline-parallel size). */
int64_t tx_config_data_parallel(const tx_config *cfg);

/* Model chunks of a pipeline stage: more than 1 when the schedule is interleaved. */
int tx_config_chunks(const tx_config *cfg);

/* Seconds that a rank waits for others. */
double tx_config_timeout(const tx_config *cfg);

/* ---- other things that follow ---- */

/* How the model knows positions. --position-embedding-type has the first of the words that mean one, in a complete
 * config, and add_position_embedding and use_rotary_position_embeddings say the same. */
typedef enum tx_positions {
    TX_POSITIONS_LEARNED,
    TX_POSITIONS_ALIBI,
    TX_POSITIONS_ROPE,
    TX_POSITIONS_NONE
} tx_positions;
tx_positions tx_config_positions(const tx_config *cfg);

/* Elements of a head that rotary positions turn: Megatron's int(head * percent). */
int64_t tx_config_rotary_dim(const tx_config *cfg);

/* What of the layers backward computes again: the RECOMPUTE options in one. */
typedef struct tx_recompute {
    bool selective;   /* of every layer what is cheap: the outputs of its norms and of its activation function */
    int64_t n_layers; /* whole layers: so many, from the first one on, ... */
    int64_t group;    /* ... in groups of so many (the last may be shorter) of which only the input is kept: */
    bool divided;     /* a part of it on each tensor rank */
    bool in_host;     /* in the host's memory */
} tx_recompute;
tx_recompute tx_config_recompute(const tx_config *cfg);

/* ---- the part of a config that lives in a checkpoint ---- */

/* How an option is kept (a column of options.def). Options with paths in them are never kept. */
enum tx_kept {
    TX_KEPT_NO = 0,
    TX_KEPT_SHAPE = 1,    /* the model's function: a checkpoint cannot be read with another value */
    TX_KEPT_HINT = 2,     /* taken from the checkpoint when left out, free to differ when given (--seq-length) */
    TX_KEPT_RUN = 4,      /* the trajectory: batch sizes, dropout, seed, ... */
    TX_KEPT_SCHEDULE = 8, /* learning rate and weight decay: for the record; optim/schedule.h compares what they make */
    TX_KEPT_ALL_GIVEN = 16 /* not of a row: every option counts as given, nothing is filled */
};

/* An object of all kept options, in the table's order, unset ones as null. Caller json_decref()s *out. */
tx_status tx_config_to_json(const tx_config *cfg, json_t **out);

/* The model's shape: every option that is kept as SHAPE, at its default, unset ones as null. */
tx_status tx_config_shape(json_t **out);

/* Whether an option, by its field, is one of these. */
bool tx_config_is_shape(const char *field);

/* Compares and fills from such an object. `which` is an or of tx_kept:
 *      SHAPE  left-out options are filled; a given one that differs is an error that lists all that differ
 * (TX_ERR_ARG), but max_position_embeddings of a model that learns no positions, which is a hint HINT   left-out
 * options are filled; given ones win RUN    nothing is filled; each difference is one warning in the log. Only options
 * that the command takes. Members missing from `saved` are left alone; a value of the wrong type or out of bounds is
 * TX_ERR_FORMAT. cfg is unchanged on failure. Call tx_config_complete afterwards. */
tx_status tx_config_from_json(tx_config *cfg, const json_t *saved, unsigned which);

/* Appends what of the shape differs: "its --hidden-size is 64, this run's 128; its ...". TX_ERR_FORMAT as above. */
tx_status tx_config_shape_differences(const tx_config *cfg, const json_t *saved, tx_str *out);

/* ---- all that was given, as flags ---- */

/* The command line that gives these options: an array of strings for tx_config_parse. Left out are deepspeed_config,
 * whose values are options by now, and the options whose fields `without` names, NULL at its end. Caller json_decref()s
 * *out. TX_ERR_ARG: a value is not UTF-8. */
tx_status tx_config_to_flags(const tx_config *cfg, const char *const *without, json_t **out);

/* ---- all options, for people ---- */

/* item(user, field, value) for each of the command's options, sorted, values as Python prints them; stops at a failure
 * and gives it back. */
typedef tx_status tx_config_item_fn(void *user, const char *name, const char *value);
tx_status tx_config_each(const tx_config *cfg, tx_config_item_fn *item, void *user);

/* A list of arguments in Megatron's form, one call per line:
 *      ------------------------ arguments ------------------------
 *        lr .............................................. 0.001
 * Those that were given, and those that differ from the defaults; with --log-level debug the others after them. Where
 * --log-dialect is given the list is Megatron's: all in one.
 * `line` NULL: each line is logged with tx_info. */
tx_status tx_config_print(const tx_config *cfg, void (*line)(void *user, const char *text), void *user);

#endif
