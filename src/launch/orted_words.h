/* orted_words.h - the one command that a waiting torchrun runs for another: Open MPI's daemon, orted, with parameters
 * that cannot make it run anything else. */
#ifndef TX_LAUNCH_ORTED_WORDS_H
#define TX_LAUNCH_ORTED_WORDS_H

#include "launch/words.h"

/* mpirun's words for its remote shell (without the host) to those that are run: without what is meant for a shell
 * (blanks, quotes, reading ~/.profile), and without the parameters that name that remote shell. */
tx_status tx__orted_clean(tx_words *out, char *const *words, int n);

/* TX_OK: `words` is "orted" and pairs "-mca NAME VALUE", no NAME being one that loads code or starts programs. Else
 * TX_ERR_ARG names the word. */
tx_status tx__orted_check(char *const *words, int n);

#endif
