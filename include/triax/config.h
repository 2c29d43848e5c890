/* config.h - the options of a run: parsed and checked together, constant afterwards.
 *
 *      tx_config *cfg;
 *      if (tx_config_parse(&cfg, "pretrain-gpt", argc - 2, argv + 2)) { puts(tx_last_error()); return 1; }
 *      ...
 *      tx_config_free(cfg);
 *
 * Options are Megatron-DeepSpeed's flags; `triax <command> --help` and docs/options.md list them. */
#ifndef TRIAX_CONFIG_H
#define TRIAX_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/log.h"
#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_config tx_config;

/* Parses a command's flags (argv without the names of the program and the command). It accepts "--flag value",
 * "--flag=value", underscores for dashes, and lists, which end at the next flag. The error text lists every violation
 * found, one per line. Flags that have no effect are logged, one line each.
 * Errors: TX_ERR_ARG; TX_ERR_NOTFOUND: there is no such command. */
TX_API tx_status tx_config_parse(tx_config **out, const char *command, int argc, char *const *argv);

/* Like tx_config_parse, for flags in one string that is split at blanks; for programs and tests. */
TX_API tx_status tx_config_parse_string(tx_config **out, const char *command, const char *flags);

/* ---- user-defined options in addition: DeepSpeed's add_config_arguments ---- */

typedef enum tx_argument_kind {
    TX_ARGUMENT_FLAG,
    TX_ARGUMENT_INT,
    TX_ARGUMENT_FLOAT,
    TX_ARGUMENT_TEXT
} tx_argument_kind;

/* One user-defined option: a row of a table that ends with a row without a flag.
 *
 *      int64_t epochs = 3;                        // the default
 *      const char *text = NULL;
 *      const tx_argument own[] = {
 *          { "epochs", TX_ARGUMENT_INT, &epochs, "N", "How often the data is read." },
 *          { "text", TX_ARGUMENT_TEXT, &text, "FILE", "What is read." },
 *          { 0 },
 *      }; */
typedef struct tx_argument {
    const char *flag; /* without the leading dashes */
    tx_argument_kind kind;
    void *value; /* where the value is stored when the flag is given: a bool, int64_t, double, or const char *, which
                  * then points into argv */
    const char *value_name, *help; /* for --help; value_name is NULL for a flag */
} tx_argument;

/* Adds the options of the table `own` to those of a command ("engine" for a user-defined model) and parses a command
 * line that may have both, as tx_config_parse does. Also TX_ERR_ARG: a row of the table is invalid, or has the flag of
 * an existing option.
 * @argv without the program's name
 * @defaults options of the command, in one string, that apply if neither argv nor its --deepspeed_config sets them; or
 * NULL */
TX_API tx_status tx_add_config_arguments(tx_config **out, const char *command, const tx_argument *own, int argc,
                                         char *const *argv, const char *defaults);

/* The text of --help for both, user-defined options first; freed with tx_text_free. */
TX_API tx_status tx_arguments_help(char **out, const char *command, const tx_argument *own);

TX_API void tx_config_free(tx_config *cfg); /* NULL allowed */

/* Activation checkpointing with DeepSpeed's options (deepspeed.checkpointing.configure). Layers form groups; only the
 * input of a group is kept, and its layers are recomputed in backward. The inputs can be partitioned or offloaded. */
typedef struct tx_checkpointing {
    size_t size;        /* sizeof(tx_checkpointing) */
    int64_t num_layers; /* layers per group: --checkpoint-activations --checkpoint-num-layers; 0: as the options say */
    bool partition_activations;    /* --partition-activations: each tensor-parallel rank keeps a part */
    bool contiguous_checkpointing; /* --contigious-checkpointing, for --number-checkpoints groups */
    int64_t num_checkpoints;
    bool checkpoint_in_cpu; /* --checkpoint-in-cpu: inputs are kept in host memory */
    bool profile;           /* --profile-backward */
} tx_checkpointing;

/* Adds these settings to options from which an engine will be created. Settings that are 0 or false leave the options
 * as they are. TX_ERR_ARG: the settings conflict with the options; cfg is then unchanged. */
TX_API tx_status tx_checkpointing_configure(tx_config *cfg, const tx_checkpointing *how);

/* deepspeed.checkpointing.is_configured: whether tx_checkpointing_configure was called for these options, or the
 * options themselves ask for activation checkpointing, --deepspeed-activation-checkpointing included. */
TX_API bool tx_checkpointing_is_configured(const tx_config *cfg);

/* The level of --log-level. To see the messages of parsing, install a sink before parsing. */
TX_API tx_log_level tx_config_log_level(const tx_config *cfg);

/* The i-th command's name and (unless NULL) its one-line summary; NULL past the last. Static. */
TX_API const char *tx_config_command(int i, const char **summary);

/* Suggestions for a mistyped command, such as "pretrain-gpt or pretrain-bert"; freed with tx_text_free. NULL if no
 * command is similar. */
TX_API tx_status tx_config_commands_like(char **out, const char *typed);

/* The text of `--help` for a command; freed with tx_text_free. TX_ERR_NOTFOUND: there is no such command. */
TX_API tx_status tx_config_help(char **out, const char *command);

/* Like tx_config_help, but only for the flags that have `word` in their name, another spelling of it, their group or
 * their text. TX_ERR_NOTFOUND also if there is none. */
TX_API tx_status tx_config_help_on(char **out, const char *command, const char *word);

TX_API void tx_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
