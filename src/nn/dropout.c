/* dropout.c - random streams of the dropout sites. */
#include "nn/dropout.h"

#include <math.h>

tx_dropout tx_dropout_at(const tx_dropout_key *key, double p, int layer, tx_dropout_site site)
{
    long drop = lround(p * 65536.0);
    return (tx_dropout){
        .rng = { .seed = key->seed, .stream = (uint32_t)layer << 8 | (uint32_t)site, .step = key->iteration },
        .drop = !key->on       ? 0
                : drop > 65535 ? 65535
                               : (uint32_t)drop,
        .sample = key->sample,
        .s_global = key->s_global,
        .at = key->at,
    };
}
