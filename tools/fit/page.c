/* page.c - docs/howto/predict-runs.md. */
#include <math.h>
#include <string.h>

#include "fit.h"

static const char top[] =
    "# Predicted against measured: %d published runs\n"
    "\n"
    "`tools/fit_machines --leave-one-out --page` writes this page and its picture from\n"
    "[machines/published.csv](../../machines/published.csv) and the machine files. [What the "
    "rows are, and what is guessed in\n"
    "them](../../machines/README.md); [how the time model works](predict.md).\n"
    "\n"
    "A row is planned as any run is, for instance the first one:\n"
    "\n"
    "    triax plan --num-layers 24 --hidden-size 2304 --num-attention-heads 24 --seq-length 2048 \\\n"
    "        --max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 16 --global-batch-size 512 \\\n"
    "        --fp16 --checkpoint-activations --world-size 32 --machine a100-80g\n"
    "\n"
    "![Predicted against measured rates of all runs, by source](predicted.svg)\n"
    "\n"
    "An error is predicted seconds of an iteration by measured ones, less 1. The mean, the "
    "median and the worst are of its\n"
    "amount; bias is the mean with its sign. *Fitted* is by the machine files as they are, whose "
    "numbers were fitted to all of\n"
    "these sets. *Left out* is by numbers that were fitted without the set, which is how wrong "
    "they are about others.\n";

static const char pool[] = "\n"
                           "Sets in bold have the least guessed in them. The mean error of these five is **%.1f %%** "
                           "of all their rows, fitted";

static tx_status put_judgement(tx_str *out, const char *name, const fit_judgement *j, const fit_judgement *left)
{
    bool bold = fit_set_is_pooled(name);
    TX_TRY(tx_str_printf(out, "| %s%s%s | %d | %.1f %% | %.1f %% | %.1f %% (%d) | %+.1f %% |", bold ? "**" : "", name,
                         bold ? "**" : "", j->n, 100 * j->mean, 100 * j->median, 100 * j->worst, j->worst_id,
                         100 * j->bias));
    if (left && left->n) TX_TRY(tx_str_printf(out, " %.1f %% | %.1f %% |", 100 * left->mean, 100 * left->median));
    if (left && !left->n) TX_TRY(tx_str_puts(out, " | |"));
    return tx_str_puts(out, "\n");
}

double fit_mean_left_out(const fit_data *d, const fit_judgement *left)
{
    double sum = 0, n = 0;
    for (int i = 0; i < d->n_sets; i++) {
        if (!fit_set_is_pooled(d->set[i])) continue;
        sum += left[i].n * left[i].mean;
        n += left[i].n;
    }
    return n > 0 ? sum / n : 0;
}

static double mean_of_sets(const fit_data *d, const fit_judgement *left)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < d->n_sets; i++) {
        if (!fit_set_is_pooled(d->set[i])) continue;
        sum += left[i].mean;
        n++;
    }
    return n ? sum / n : 0;
}

static tx_status put_pool(tx_str *out, const fit_data *d, const fit_judgement *left)
{
    fit_judgement all = fit_judge(d, fit_is_pooled, d);
    TX_TRY(tx_str_printf(out, pool, 100 * all.mean));
    if (left)
        TX_TRY(tx_str_printf(out, "; left out it is **%.1f %%**, and %.1f %% as the mean of the five sets'",
                             100 * fit_mean_left_out(d, left), 100 * mean_of_sets(d, left)));
    return tx_str_puts(out, ".\n");
}

static tx_status put_sets(tx_str *out, const fit_data *d, const fit_judgement *left)
{
    TX_TRY(tx_str_printf(
        out,
        "\n## By source\n\n| set | rows | mean, fitted | median | worst (row) | bias |%s\n| --- | --- | --- "
        "| --- | --- | --- |%s\n",
        left ? " mean, left out | median |" : "", left ? " --- | --- |" : ""));
    for (int i = 0; i < d->n_sets; i++) {
        fit_judgement j = fit_judge(d, fit_of_set, &i);
        TX_TRY(put_judgement(out, d->set[i], &j, left ? &left[i] : NULL));
    }
    TX_TRY(put_pool(out, d, left));
    TX_TRY(tx_str_puts(out, "\n## By machine\n\n| machine | rows | mean, fitted | median | worst (row) | bias |\n"
                            "| --- | --- | --- | --- | --- | --- |\n"));
    for (int i = 0; i < d->n_machines; i++) {
        fit_judgement j = fit_judge(d, fit_of_machine, &i);
        TX_TRY(put_judgement(out, d->name[i], &j, NULL));
    }
    return TX_OK;
}

static tx_status put_sweeps(tx_str *out, const fit_data *d)
{
    fit_sweep *s;
    int n;
    tx_status st;
    TX_TRY(fit_sweeps(d, &s, &n));
    TX_GOTO(tx_str_puts(
        out, "\n## Sweeps\n\nRows that vary one run. *Rank* is Spearman's correlation of predicted and measured "
             "rates. *Loses* is how much longer\nthe layout with the best prediction takes than the best that "
             "was measured, for each model and number of GPUs of the\nsweep: the mean, and the most.\n\n"
             "| set | sweep | rows | rank | choices | loses |\n| --- | --- | --- | --- | --- | --- |\n"));
    for (int i = 0; i < n; i++) {
        TX_GOTO(tx_str_printf(out, "| %s | %s | %d | %.2f |", d->set[s[i].set], s[i].name, s[i].n, s[i].rank));
        if (s[i].choices)
            TX_GOTO(tx_str_printf(out, " %d | %.1f %%, %.1f %% |\n", s[i].choices, 100 * s[i].lost, 100 * s[i].most));
        else
            TX_GOTO(tx_str_puts(out, " | |\n"));
    }
    st = TX_OK;
out:
    fit_sweeps_free(s, n);
    return st;
}

static tx_status put_row(tx_str *out, const fit_row *r)
{
    const tx_config *c = r->cfg;
    char layout[160];
    TX_TRY(tx_str_printf(out, "| %d | %s | %lld x %lld, %lld heads, s %lld | %lld | %s |", r->id, r->source,
                         (long long)c->num_layers, (long long)c->hidden_size, (long long)c->num_attention_heads,
                         (long long)c->seq_length, r->world_size, fit_layout(layout, r)));
    return tx_str_printf(out, " %.4g | %.4g | %+.1f %% |\n", r->measured, r->time.iteration,
                         100 * (exp(r->log_error) - 1));
}

static const char memory[] =
    "\n## Memory\n\n"
    "What a plan counts is tensors: parameters, gradients, state, activations, workspace. What a source counts may "
    "have the\nCUDA context, buffers of NCCL and what the allocator keeps besides; none says. The sources print GB, "
    "which are taken as GiB here. An\nerror is the plan's stage that takes most by what is printed, less 1.\n\n"
    "| set | rows | within 5 % | mean | median | worst (row) | bias |\n| --- | --- | --- | --- | --- | --- | --- |\n";

static tx_status put_memory_row(tx_str *out, const fit_row *r)
{
    char layout[160];
    return tx_str_printf(out, "| %d | %s | %lld x %lld | %lld | %s | %.4g | %.4g | %+.1f %% |\n", r->id, r->source,
                         (long long)r->cfg->num_layers, (long long)r->cfg->hidden_size, r->world_size,
                         fit_layout(layout, r), r->memory_gb, fit_memory(r), 100 * (fit_memory(r) / r->memory_gb - 1));
}

static tx_status put_memory(tx_str *out, const fit_data *d)
{
    TX_TRY(tx_str_puts(out, memory));
    for (int i = 0; i < d->n_sets; i++) {
        fit_judgement j = fit_judge_memory(d, i);
        if (j.n)
            TX_TRY(tx_str_printf(out, "| %s | %d | %d | %.1f %% | %.1f %% | %.1f %% (%d) | %+.1f %% |\n", d->set[i],
                                 j.n, j.within, 100 * j.mean, 100 * j.median, 100 * j.worst, j.worst_id, 100 * j.bias));
    }
    TX_TRY(tx_str_puts(out, "\n| row | source | model | GPUs | layout | measured, GB | predicted, GiB | error |\n"
                            "| --- | --- | --- | --- | --- | --- | --- | --- |\n"));
    for (int i = 0; i < d->n; i++)
        if (d->row[i].memory_gb > 0) TX_TRY(put_memory_row(out, &d->row[i]));
    return TX_OK;
}

tx_status fit_page(tx_str *out, const fit_data *d, const fit_judgement *left_out)
{
    TX_TRY(tx_str_printf(out, top, d->n));
    TX_TRY(put_sets(out, d, left_out));
    TX_TRY(put_sweeps(out, d));
    TX_TRY(put_memory(out, d));
    TX_TRY(tx_str_puts(
        out, "\n## Every row\n\nThe model is layers x hidden size; of a layout \"2 of 2048\" is the micro-batch and "
             "the global batch, and \"PP 8 x 3\" has\nthree virtual stages each.\n"));
    for (int m = 0; m < d->n_machines; m++) {
        TX_TRY(
            tx_str_printf(out,
                          "\n### %s\n\n| row | source | model | GPUs | layout | measured, s | predicted, s | error |\n"
                          "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
                          d->name[m]));
        for (int i = 0; i < d->n; i++)
            if (d->row[i].machine == m) TX_TRY(put_row(out, &d->row[i]));
    }
    return TX_OK;
}
