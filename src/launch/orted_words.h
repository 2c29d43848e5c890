/* orted_words.h - the one command that a waiting torchrun runs for another.
 *
 * It is orted, Open MPI's daemon, with parameters that cannot make it run anything else. */
#ifndef TX_LAUNCH_ORTED_WORDS_H
#define TX_LAUNCH_ORTED_WORDS_H

#include "launch/words.h"

/* Turns the arguments that mpirun passes to its remote shell (without the host) into the command that is run: removes
 * what is meant for a shell (blanks, quotes, reading ~/.profile) and the parameters that name the remote shell. */
tx_status tx__orted_clean(tx_words *out, char *const *words, int n);

/* Checks the command. TX_OK: it is "orted" with pairs "-mca NAME VALUE", and no NAME is one that loads code or starts
 * programs. Else TX_ERR_ARG names the word. */
tx_status tx__orted_check(char *const *words, int n);

#endif
