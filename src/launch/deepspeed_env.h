/* deepspeed_env.h - which variables ranks on other hosts are given: DeepSpeed's .deepspeed_env, and those of libraries.
 */
#ifndef TX_LAUNCH_DEEPSPEED_ENV_H
#define TX_LAUNCH_DEEPSPEED_ENV_H

#include "launch/words.h"

/* "NAME=VALUE" of each line; blank lines and comments are left out. TX_ERR_FORMAT "<name>:<line>: ..." */
tx_status tx__deepspeed_env_parse(tx_words *out, const char *name, const char *text, size_t n);

/* Those of the files .deepspeed_env and .deepscale_env in the home folder and here, of a name the last one; DS_ENV_FILE
 * is another name or path for the former, or its folder. No file: none. */
tx_status tx__deepspeed_env_read(tx_words *out);

/* The names of those of this process that begin as triax', libraries', drivers' and networks' do (OMP_, HSA_, NCCL_,
 * FI_, ...), and PATH and LD_LIBRARY_PATH. */
tx_status tx__environment_to_hand_on(tx_words *out);

#endif
