/* layer_pattern.h - which layers something is in, as Megatron Core's --moe-layer-freq says it: a number N, the first of
 * every N layers, or a list of 0 and 1, one for each layer, in Python's words: lists, sums and repetitions of them, and
 * parentheses. (--window-attn-skip-freq has the same words, and of a number N all layers but the last of every N.)
 *
 *      [0]+[1]*3           0 1 1 1
 *      ([1,0]*2+[0])*2     1 0 1 0 0 1 0 1 0 0 */
#ifndef TX_CONFIG_LAYER_PATTERN_H
#define TX_CONFIG_LAYER_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tx_layer_pattern {
    bool listed;
    int64_t n; /* of layers in the list; else the number */
    bool at;   /* whether the layer that was asked for is one; false behind the list's end */
} tx_layer_pattern;

/* False: `text` is neither; a list has at most a million layers.   @layer from 0 */
bool tx_layer_pattern_read(const char *text, int64_t layer, tx_layer_pattern *out);

#endif
