/* step_record.c - what records of experts come to. */
#include "base/step_record.h"

/* The largest load by the mean one; *all: their sum. */
static double imbalance(const tx_expert_record *r, double *all)
{
    double most = 0;
    *all = 0;
    for (int64_t e = 0; e < r->n_experts; e++) {
        *all += r->load[e];
        if (r->load[e] > most) most = r->load[e];
    }
    return *all > 0 ? most * (double)r->n_experts / *all : 1;
}

tx_expert_means tx_expert_means_of(const tx_expert_record *r, int n)
{
    tx_expert_means m = { .imbalance = 0 };
    double choices = 0;
    for (int k = 0; k < n; k++) {
        double all, worst = imbalance(&r[k], &all);
        if (worst > m.imbalance) m.imbalance = worst;
        m.aux_loss += r[k].aux_loss / n;
        m.z_loss += r[k].z_loss / n;
        m.dropped += r[k].dropped;
        choices += all;
    }
    m.dropped /= choices > 0 ? choices : 1;
    return m;
}
