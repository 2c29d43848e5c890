/* products.h - which algorithms a GPU library uses for the matrix products of a run.
 *
 * The algorithm of each shape is the fastest one when the shape is first needed, and is then fixed for the run
 * (gpu_module.h). All ranks use the same algorithms, and a resumed run uses those of the run before, because another
 * algorithm rounds differently. On a CPU there is nothing to choose.
 *
 *      a new run              reads DIR/gpu_products.txt (--save), chooses what is missing, and writes the file
 *      a checkpoint           has the text, with shapes that were added later
 *      a resumed run          uses the text of its checkpoint   */
#ifndef TX_TRAIN_PRODUCTS_H
#define TX_TRAIN_PRODUCTS_H

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"

/* Chooses an algorithm for each shape of the dry run that has none, on the first rank that has the shape. Allocates
 * memory temporarily. Collective. */
tx_status tx_products_choose(tx_ctx *c, tx_comm *world);

/* Each shape gets the algorithm of the first rank that has one. Collective.
 * @text rank 0's text, freed with tx_free(); NULL if there is nothing to choose */
tx_status tx_products_agree(tx_ctx *c, tx_comm *world, char **text);

/* Uses the algorithms of `text`; logs `where` it was found. TX_ERR_FORMAT names it. */
tx_status tx_products_take(tx_ctx *c, const char *text, const char *where);

/* Reads the text of DIR/gpu_products.txt on rank 0, if the file exists. Collective. */
tx_status tx_products_read(tx_ctx *c, tx_comm *world, const char *dir);
tx_status tx_products_write(const char *text, const char *dir);

#endif
