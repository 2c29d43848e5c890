/* products.h - how a GPU's library makes the matrix products of a run: each shape's algorithm is the quickest where it
 * is first needed, and from then on the run's (gpu_module.h). All ranks are to have the same, and a resumed run
 * those of the run before, because another choice rounds differently. On a CPU there is nothing to choose.
 *
 *      a run that begins      reads DIR/gpu_products.txt (--save), chooses what is not there, and writes it
 *      a checkpoint           keeps the text, also of shapes that came later
 *      a resumed run          takes the text of its checkpoint   */
#ifndef TX_TRAIN_PRODUCTS_H
#define TX_TRAIN_PRODUCTS_H

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"

/* Collective: of all shapes that the dry run has shown and that have no algorithm each gets one, on the first rank that
 * has it. Takes memory for the time of it. */
tx_status tx_products_choose(tx_ctx *c, tx_comm *world);

/* Collective: the algorithm of a shape becomes that of the first rank that has one.   @text rank 0's, out: tx_free();
 * NULL where there is nothing to choose */
tx_status tx_products_agree(tx_ctx *c, tx_comm *world, char **text);

/* From now on products are made as `text` says; `where` it was found is logged. TX_ERR_FORMAT names it. */
tx_status tx_products_take(tx_ctx *c, const char *text, const char *where);

/* The text of DIR/gpu_products.txt as rank 0 finds it, if there is one. Collective. */
tx_status tx_products_read(tx_ctx *c, tx_comm *world, const char *dir);
tx_status tx_products_write(const char *text, const char *dir);

#endif
