/* rows.c - published.csv as runs that are planned. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fit.h"
#include "triax/config.h"

enum { MAX_CSV = 16 << 20 };

/* The columns, in the file's order. */
enum {
    ID,
    SOURCE,
    SET,
    SWEEP,
    MACHINE,
    GPUS_PER_NODE,
    NODE_BANDWIDTH,
    WORLD_SIZE,
    ITERATION,
    DERIVED,
    MEMORY,
    FLAGS,
    NOTES,
    COLUMNS
};

static const char header[] = "id,source,set,sweep,machine,gpus_per_node,node_bandwidth_gb,world_size,iteration_s,"
                             "derived,memory_gb,flags,notes";

/* Ends the field at *at in place and returns it; *at is behind its comma or line end, of which *last tells. */
static char *next_field(char **at, bool *last)
{
    char *from = *at, *to = from, *begin = from;
    bool quoted = *from == '"';
    if (quoted) from++;
    for (;; from++) {
        if (!*from || (!quoted && (*from == ',' || *from == '\n'))) break;
        if (quoted && *from == '"' && *++from != '"') {
            quoted = false;
            from--;
            continue;
        }
        *to++ = *from;
    }
    *last = *from != ',';
    *at = *from ? from + 1 : from;
    *to = 0;
    return begin;
}

static tx_status find_set(fit_data *d, const char *name, int *out)
{
    for (*out = 0; *out < d->n_sets; ++*out)
        if (!strcmp(d->set[*out], name)) return TX_OK;
    if (d->n_sets == FIT_SETS) return TX_FAIL(TX_ERR_FORMAT, "more than %d sets", FIT_SETS);
    d->set[d->n_sets++] = name;
    return TX_OK;
}

static tx_status find_machine(fit_data *d, char *name, int *out)
{
    tx_str path = { 0 };
    for (*out = 0; *out < d->n_machines; ++*out)
        if (!strcmp(d->name[*out], name)) return TX_OK;
    if (d->n_machines == FIT_MACHINES) return TX_FAIL(TX_ERR_FORMAT, "more than %d machines", FIT_MACHINES);
    d->name[d->n_machines] = name;
    tx_status st = tx_str_printf(&path, "%s/%s.json", d->folder, name);
    if (!st) st = tx_machine_read(&d->machine[d->n_machines++], path.data);
    tx_str_free(&path);
    return st;
}

static tx_status read_row(fit_data *d, char *field[COLUMNS], const char *only)
{
    if (only && strcmp(only, field[SET]) && strcmp(only, field[MACHINE]) && strcmp(only, field[ID])) return TX_OK;
    fit_row *r = &d->row[d->n];
    *r = (fit_row){ .id = atoi(field[ID]),
                    .source = field[SOURCE],
                    .sweep = field[SWEEP],
                    .derived = field[DERIVED],
                    .flags = field[FLAGS],
                    .notes = field[NOTES],
                    .gpus_per_node = atof(field[GPUS_PER_NODE]),
                    .node_bandwidth = atof(field[NODE_BANDWIDTH]) * 1e9,
                    .measured = atof(field[ITERATION]),
                    .memory_gb = atof(field[MEMORY]),
                    .world_size = atoll(field[WORLD_SIZE]) };
    if (r->measured <= 0 || r->world_size < 1) return TX_FAIL(TX_ERR_FORMAT, "row %d: no seconds, or no GPUs", r->id);
    TX_TRY(find_set(d, field[SET], &r->set));
    TX_TRY(find_machine(d, field[MACHINE], &r->machine));
    d->n++;
    return TX_OK;
}

static tx_status read_rows(fit_data *d, const char *csv, const char *only)
{
    char *at = d->text.data;
    size_t lines = 0;
    bool last;
    for (const char *p = at; *p; p++) lines += *p == '\n';
    TX_TRY(tx_alloc(&d->row, lines + 1, sizeof *d->row, "published runs"));
    if (strncmp(at, header, strlen(header)) || at[strlen(header)] != '\n')
        return TX_FAIL(TX_ERR_FORMAT, "%s: its first line is not \"%s\"", csv, header);
    for (at += strlen(header) + 1; *at;) {
        char *field[COLUMNS];
        int n = 0;
        do {
            char *text = next_field(&at, &last);
            if (n < COLUMNS) field[n] = text;
            n++;
        } while (!last);
        if (n != COLUMNS) return TX_FAIL(TX_ERR_FORMAT, "%s: row %s has %d fields, not %d", csv, field[0], n, COLUMNS);
        TX_TRY(read_row(d, field, only));
    }
    return d->n ? TX_OK : TX_FAIL(TX_ERR_NOTFOUND, "%s: no row of \"%s\"", csv, only ? only : "");
}

static tx_status plan_row(fit_row *r)
{
    tx_str flags = { 0 };
    tx_status st;
    TX_GOTO(tx_str_printf(&flags, "%s --world-size %lld", r->flags, r->world_size));
    TX_GOTO(tx_config_parse_string(&r->cfg, "plan", flags.data));
    st = tx_run_work_make(&r->work, r->cfg, r->cfg->vocab_size);
out:
    tx_str_free(&flags);
    return st;
}

static tx_status plan_rows(fit_data *d)
{
    tx_status worst = TX_OK;
    char why[400] = "";
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < d->n; i++) {
        tx_status st = plan_row(&d->row[i]);
        if (!st) continue;
#pragma omp critical
        {
            worst = st;
            snprintf(why, sizeof why, "row %d: %s", d->row[i].id, tx_last_error());
        }
    }
    return worst ? TX_FAIL(worst, "%s", why) : TX_OK;
}

tx_status fit_read(fit_data *d, const char *csv, const char *folder, const char *only)
{
    *d = (fit_data){ .folder = folder };
    TX_TRY(tx_file_read(csv, MAX_CSV, &d->text));
    TX_TRY(read_rows(d, csv, only));
    return plan_rows(d);
}

void fit_free(fit_data *d)
{
    for (int i = 0; i < d->n; i++) {
        tx_run_work_free(&d->row[i].work);
        tx_config_free(d->row[i].cfg);
    }
    for (int i = 0; i < d->n_machines; i++) tx_machine_free(&d->machine[i]);
    tx_free(d->row);
    tx_str_free(&d->text);
}

tx_machine fit_machine_of(const fit_data *d, const fit_row *row)
{
    tx_machine m = d->machine[row->machine];
    if (row->gpus_per_node > 0) m.ranks_per_node = row->gpus_per_node;
    if (row->node_bandwidth > 0) m.net_bandwidth = row->node_bandwidth;
    return m;
}

int fit_kind(const char *machine)
{
    static const char *const kind[][2] = {
        { "a100-80g", "a100-40g" }, { "h100", "h200" }, { "mi250x-gcd", "mi210" }, { "v100-32g", "" }
    };
    int n = (int)(sizeof kind / sizeof *kind);
    for (int i = 0; i < n; i++)
        if (!strcmp(machine, kind[i][0]) || !strcmp(machine, kind[i][1])) return i;
    return n;
}

int fit_maker(const char *machine)
{
    return *machine == 'v' || *machine == 'a' || *machine == 'h' ? 0 : *machine == 'm' ? 1 : 2;
}

const char *fit_layout(char buf[160], const fit_row *r)
{
    const tx_config *c = r->cfg;
    const tx_pp_shape *p = &r->work.shape;
    int n = snprintf(buf, 160, "TP %d", r->work.layout.size[TX_AXIS_TENSOR]);
    n += snprintf(buf + n, 160 - (size_t)n, "%s", c->sequence_parallel ? " SP" : "");
    n += snprintf(buf + n, 160 - (size_t)n, " PP %d", p->p);
    if (p->n_chunks > 1) n += snprintf(buf + n, 160 - (size_t)n, " x %d", p->n_chunks);
    n += snprintf(buf + n, 160 - (size_t)n, " DP %lld", (long long)tx_config_data_parallel(c));
    if (c->zero_stage) n += snprintf(buf + n, 160 - (size_t)n, " ZeRO-%d", (int)c->zero_stage);
    n += snprintf(buf + n, 160 - (size_t)n, ", %lld of %lld", (long long)c->micro_batch_size,
                  (long long)c->global_batch_size);
    bool again = c->recompute_activations || c->recompute_granularity == TX_RECOMPUTE_SELECTIVE;
    snprintf(buf + n, 160 - (size_t)n, "%s",
             r->work.flops_again > 0 ? ", all recomputed"
             : again                 ? ", selectively recomputed"
                                     : "");
    return buf;
}
