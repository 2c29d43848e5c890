/* deepspeed_env.h - which variables ranks on other hosts are given: DeepSpeed's .deepspeed_env, and those of libraries.
 */
#ifndef TX_LAUNCH_DEEPSPEED_ENV_H
#define TX_LAUNCH_DEEPSPEED_ENV_H

#include "launch/words.h"

/* "NAME=VALUE" of each line; blank lines and comments are left out. TX_ERR_FORMAT "<name>:<line>: ..." */
tx_status tx__deepspeed_env_parse(tx_words *out, const char *name, const char *text, size_t n);

/* Those of the file: DS_ENV_FILE, or .deepspeed_env in the home folder or here. No file: none. */
tx_status tx__deepspeed_env_read(tx_words *out);

/* Those of this process that begin as libraries' and triax' own do (OMP_, KMP_, NCCL_, UCX_, ...). */
tx_status tx__environment_to_hand_on(tx_words *out);

#endif
