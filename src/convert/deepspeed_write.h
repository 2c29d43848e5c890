/* deepspeed_write.h - the model-states files and the optimizer's small state, which both DeepSpeed's folders and
 * universal ones have. */
#ifndef TX_CONVERT_DEEPSPEED_WRITE_H
#define TX_CONVERT_DEEPSPEED_WRITE_H

#include "convert/upstream_write.h"

#define TX__DS_VERSION "0.19.8" /* whose files these are like */

/* Whether a folder has files of ZeRO, of stage c->zero_stage. */
bool tx__has_zero(const tx_conversion *c);

/* Whether its optimizer sends signs: then bf16 without ZeRO is as fp16. */
bool tx__is_compressed(const tx_conversion *c);

/* Parameters are named and grouped as the engine does it. */
tx_status tx__ds_rank_open(tx__rank *r, const tx_conversion *c, tx__place at);

/* [zero_pp_rank_D_]mp_rank_NN_model_states.pt of data rank `dp` (< 0: of all), but for a pipeline with weights. */
tx_status tx__ds_write_states(tx_conversion *c, const char *dir, const tx__rank *r, int dp);

/* Without ZeRO the optimizer's state, or None: in the model's file, of a model with experts in one of its own. */
tx_py *tx__ds_plain_optimizer(tx__file *f, const tx__rank *r);

/* The members of ZeRO's state other than the numbers of parameters: a new dict. */
tx_py *tx__ds_global_state(tx__file *f, const tx__rank *r);
tx_py *tx__ds_param_groups(tx__file *f, const tx__rank *r);
tx_py *tx__ds_zero_stage(tx__file *f);
tx_py *tx__ds_config(tx__file *f);

/* Elements of a group's flat numbers with its padding: ZeRO aligns to twice the ranks that divide it. */
int64_t tx__ds_padded(const tx__group *g);

/* Elements [begin, end) of a group's flat numbers; beyond the group's end zeros. */
tx_py *tx__ds_flat(tx__file *f, const tx__rank *r, const tx__group *g, int part, int64_t begin, int64_t end);
/* tx__optim_state of these. */
tx_py *tx__ds_flat_state(tx__file *f, const tx__rank *r, const tx__group *g, int64_t begin, int64_t end);

#endif
