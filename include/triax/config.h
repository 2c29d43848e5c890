/* config.h - a run's options: parsed, checked all at once, and constant from then on.
 *
 *      tx_config *cfg;
 *      if (tx_config_parse(&cfg, "pretrain-gpt", argc - 2, argv + 2)) { puts(tx_last_error()); return 1; }
 *      ...
 *      tx_config_free(cfg);
 *
 *  Options are Megatron-DeepSpeed's flags; `triax <command> --help` and docs/options.md list them. */
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

/* Parses a command's flags (argv without the program's and the command's name). "--flag value", "--flag=value",
 * underscores for dashes, lists until the next flag. Every violation found is in the one error text, one a line.
 * Flags without effect here are logged, one line each. Errors: TX_ERR_ARG; TX_ERR_NOTFOUND: no such command. */
TX_API tx_status tx_config_parse(tx_config **out, const char *command, int argc, char *const *argv);

/* The same from flags in one string, split at blanks: for programs and tests. */
TX_API tx_status tx_config_parse_string(tx_config **out, const char *command, const char *flags);

/* ---- user-defined options beside them: DeepSpeed's add_config_arguments ---- */

typedef enum tx_argument_kind {
    TX_ARGUMENT_FLAG,
    TX_ARGUMENT_INT,
    TX_ARGUMENT_FLOAT,
    TX_ARGUMENT_TEXT
} tx_argument_kind;

/* A row of a table of user-defined options. A row without a flag ends the table:
 *
 *      int64_t epochs = 3;                        // the default
 *      const char *text = NULL;
 *      const tx_argument own[] = {
 *          { "epochs", TX_ARGUMENT_INT, &epochs, "N", "How often the data is read." },
 *          { "text", TX_ARGUMENT_TEXT, &text, "FILE", "What is read." },
 *          { 0 },
 *      };
 */
typedef struct tx_argument {
    const char *flag; /* without dashes in front */
    tx_argument_kind kind;
    void *value; /* a bool, int64_t, double, or const char *, which then points into argv; written when it is given */
    const char *value_name, *help; /* for --help; the first is NULL of a flag */
} tx_argument;

/* Adds the options of a command, "engine" for a user-defined model, to those of the table `own` and parses a
 * command line of both, as tx_config_parse does. Also TX_ERR_ARG: a row that cannot be, or has an option's flag.
 * @argv without the program's name
 * @defaults options of the command that hold where neither argv nor its --deepspeed_config says something else, in one
 * string; or NULL */
TX_API tx_status tx_add_config_arguments(tx_config **out, const char *command, const tx_argument *own, int argc,
                                         char *const *argv, const char *defaults);

/* The text of --help for both, beginning with the user-defined ones; freed with tx_text_free. */
TX_API tx_status tx_arguments_help(char **out, const char *command, const tx_argument *own);

TX_API void tx_config_free(tx_config *cfg); /* NULL allowed */

/* Activation checkpointing by DeepSpeed's words (deepspeed.checkpointing.configure): whole layers are computed again in
 * backward, in groups of which only the input is kept, and that may be kept elsewhere. */
typedef struct tx_checkpointing {
    size_t size;        /* sizeof(tx_checkpointing) */
    int64_t num_layers; /* of a group: --checkpoint-activations --checkpoint-num-layers; 0: as the options say */
    bool partition_activations;    /* --partition-activations: a part on each tensor-parallel rank */
    bool contiguous_checkpointing; /* --contigious-checkpointing, of --number-checkpoints groups */
    int64_t num_checkpoints;
    bool checkpoint_in_cpu; /* --checkpoint-in-cpu: in the host's memory */
    bool profile;           /* --profile-backward */
} tx_checkpointing;

/* Adds what is asked for to options that an engine is to be made of; what is not asked for stays as they say.
 * TX_ERR_ARG: they do not go together with it; cfg is then as before. */
TX_API tx_status tx_checkpointing_configure(tx_config *cfg, const tx_checkpointing *how);

/* deepspeed.checkpointing.is_configured: whether the above was called for these options, or they ask for something of
 * it themselves, --deepspeed-activation-checkpointing included. */
TX_API bool tx_checkpointing_is_configured(const tx_config *cfg);

/* What --log-level asks for. A program that wants the messages of parsing sets its sink before it parses. */
TX_API tx_log_level tx_config_log_level(const tx_config *cfg);

/* The i-th command's name and (unless NULL) its one-line summary; NULL past the last. Static. */
TX_API const char *tx_config_command(int i, const char **summary);

/* The commands that a mistyped name may mean, "pretrain-gpt or pretrain-bert", freed with tx_text_free; NULL when it is
 * like none. */
TX_API tx_status tx_config_commands_like(char **out, const char *typed);

/* The text of `--help` for a command; freed with tx_text_free. TX_ERR_NOTFOUND for a command that does not exist. */
TX_API tx_status tx_config_help(char **out, const char *command);

/* The same for the flags alone that have `word` in their name, another spelling of it, their group or their text.
 * TX_ERR_NOTFOUND also when none has. */
TX_API tx_status tx_config_help_on(char **out, const char *command, const char *word);

TX_API void tx_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
