/* client.h - what a program that uses the library brings to a run in place of what the options name. */
#ifndef TX_TRAIN_CLIENT_H
#define TX_TRAIN_CLIENT_H

#include "triax/data.h"
#include "triax/model.h"
#include "triax/optimizer.h"

/* All borrowed. Zeroed: the options' own. */
typedef struct tx_client {
    const tx_client_model *model;
    const tx_client_optimizer *optimizer;
    tx_lr_fn *lr;
    void *lr_user;
    const tx_param_group *group; /* [n_groups] */
    int n_groups;
    tx_loss_gradient_fn *loss_gradient;
    void *loss_user;
} tx_client;

extern const tx_client tx_no_client;

#endif
