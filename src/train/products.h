/* products.h - how a GPU's library makes the matrix products of a run: each shape's algorithm is chosen where it
 * is first needed, and is from then on the run's (gpu_module.h). All ranks are to have the same, and a resumed run
 * those of the run before, because another choice rounds differently. On a CPU there is nothing to choose.
 *
 *      a run that begins      reads DIR/gpu_products.txt (--save), chooses what is not there, and writes it
 *      a checkpoint           keeps the text, also of shapes that came later
 *      a resumed run          takes the text of its checkpoint   */
#ifndef TX_TRAIN_PRODUCTS_H
#define TX_TRAIN_PRODUCTS_H

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"

/* Chooses an algorithm for each shape of the dry run that has none, on the first rank that has the shape. Allocates
 * memory temporarily. Collective. */
tx_status tx_products_choose(tx_ctx *c, tx_comm *world);

/* Collective: the algorithm of a shape becomes that of the first rank that has one.   @text rank 0's, out: tx_free();
 * NULL where there is nothing to choose */
tx_status tx_products_agree(tx_ctx *c, tx_comm *world, char **text);

/* Uses the algorithms of `text`; logs `where` it was found. TX_ERR_FORMAT names it. */
tx_status tx_products_take(tx_ctx *c, const char *text, const char *where);

/* Reads the text of DIR/gpu_products.txt on rank 0, if the file exists. Collective. */
tx_status tx_products_read(tx_ctx *c, tx_comm *world, const char *dir);
tx_status tx_products_write(const char *text, const char *dir);

#endif
