/* py_room.h - memory of an arena, and containers that grow. Shared inside the torch room. All return NULL (or
 * false) when memory is short. */
#ifndef TX_TORCH_PY_ROOM_H
#define TX_TORCH_PY_ROOM_H

#include "torch/py.h"

/* Zeroed memory of at least `bytes`, aligned for any value. */
void *tx__py_memory(tx_py_arena *a, size_t bytes);
/* A copy that ends with a NUL. */
char *tx__py_text(tx_py_arena *a, const void *bytes, size_t n);

tx_py *tx__py_new(tx_py_arena *a, tx_py_kind kind);
tx_py *tx__py_string(tx_py_arena *a, tx_py_kind kind, const void *bytes, size_t n); /* STR or BYTES */

/* None, a bool, an int of -1 to 255 or the empty tuple need no memory; NULL for any other. */
const tx_py *tx__py_small(tx_py_kind kind, int64_t i);

/* At the end of a list, tuple, set that grew by this alone; of a dict, whatever its keys are. */
bool tx__py_push(tx_py_arena *a, tx_py *list, const tx_py *item);
bool tx__py_push_pair(tx_py_arena *a, tx_py *dict, const tx_py *key, const tx_py *value);

#endif
