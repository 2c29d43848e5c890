/* deepspeed_env.h - the environment variables that ranks on other hosts get: those of DeepSpeed's .deepspeed_env, and
 * those that libraries read. */
#ifndef TX_LAUNCH_DEEPSPEED_ENV_H
#define TX_LAUNCH_DEEPSPEED_ENV_H

#include "launch/words.h"

/* Reads "NAME=VALUE" from each line; blank lines and comments are skipped. TX_ERR_FORMAT "<name>:<line>: ..." */
tx_status tx__deepspeed_env_parse(tx_words *out, const char *name, const char *text, size_t n);

/* Reads the files .deepspeed_env and .deepscale_env in the home folder and in the current one; of a repeated name the
 * last value counts. DS_ENV_FILE replaces the name, path or folder of .deepspeed_env. Without such a file *out stays
 * empty. */
tx_status tx__deepspeed_env_read(tx_words *out);

/* The names of this process's variables that begin with the prefixes of triax, libraries, drivers or networks (OMP_,
 * HSA_, NCCL_, FI_, ...), and PATH and LD_LIBRARY_PATH. */
tx_status tx__environment_to_hand_on(tx_words *out);

#endif
