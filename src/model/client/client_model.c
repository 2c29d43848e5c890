/* client_model.c - a client's own model (triax/model.h) as the trainer sees one. */
#include "model/model.h"

tx_status tx_client_model_create(tx_model **out, const tx_config *cfg, const tx_client_model *client,
                                 const tx_grid *grid)
{
    (void)out, (void)cfg, (void)grid;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a client's model is not built yet", client->name);
}
