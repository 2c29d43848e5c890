/* torch_dist_sink.c - Megatron Core's distributed checkpoints are read only.
 */
#include "convert/sink.h"

static tx_status write(tx_conversion *c)
{
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "%s: distributed checkpoints of Megatron Core (torch_dist) are read only; write --to megatron or "
                   "huggingface",
                   c->src->path);
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c, (void)p;
    return TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_torch_dist = { .format = TX_FORMAT_TORCH_DIST, .write = write, .change = change };
