/* run_report.c - the job `triax report`: metrics files in, one page out. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "config/config.h"
#include "report/page.h"
#include "triax/jobs.h"

/* A run as the user named it: its folder, or the file itself. */
static tx_status read_run(tx_history *h, const char *run)
{
    char path[4096];
    if (!tx_path_is_dir(run)) return tx_history_read(h, run);
    TX_TRY(tx_path_join(path, sizeof path, run, TX_METRICS_FILE));
    if (!tx_path_exists(path))
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "%s: holds no " TX_METRICS_FILE ": name the folder of --save, or the file of --metrics-file",
                       run);
    return tx_history_read(h, path);
}

tx_status tx_report(const tx_config *cfg)
{
    int n = cfg->runs.n;
    tx_history *run = NULL;
    tx_status st;
    TX_GOTO(tx_alloc(&run, (size_t)n, sizeof *run, "the runs"));
    for (int i = 0; i < n; i++) {
        TX_GOTO(read_run(&run[i], cfg->runs.item[i]));
        tx_info("%s: %zu lines of the log, %zu evaluations", cfg->runs.item[i], run[i].n_steps, run[i].n_evaluations);
    }
    TX_GOTO(tx_page_write(cfg->report_output, n, (const char *const *)cfg->runs.item, run));
    tx_info("%s is written; open it in a browser", cfg->report_output);
out:
    for (int i = 0; run && i < n; i++) tx_history_free(&run[i]);
    tx_free(run);
    return st;
}
