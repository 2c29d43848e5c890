/* autotune.h - triax deepspeed --autotuning, shared by its files:
 *
 *      autotune_layouts.c    which layouts there are, and what each should take
 *      autotune_trial.c      a layout as a command line; a short run of it, measured
 *      autotune_results.c    the folders, as DeepSpeed's autotuner has them
 *      autotune.c            which layout is measured next, and the end of it
 */
#ifndef TX_API_AUTOTUNE_H
#define TX_API_AUTOTUNE_H

#include "config/tuning.h"
#include "launch/short_run.h"
#include "predict/correction.h"
#include "predict/machine.h"

typedef struct tx__tuned {
    tx_layout_choice is;
    bool as_given;        /* the run's own flags, which `is` may say only in part */
    int64_t global_batch; /* samples */
    char name[128];       /* of its folder, "z1_tp2_pp1_tmbspg4_gas2" */
    double predicted;     /* seconds of an iteration; 0: of the run's own flags, which cannot be planned */
    double measured;      /* the same; 0: not measured, or in vain */
    double spread;        /* of its iterations: half of them are within this share of the median */
    double tflops;        /* of a rank, as the run has told them */
    bool tried;
    char *why; /* it was in vain; owned */
} tx__tuned;

typedef struct tx__tuning_job {
    tx_deepspeed_line line;
    tx_tuning set;
    tx_config *cfg; /* the run as the user gave it */
    int64_t vocab_size;
    tx_machine machine; /* with as many ranks in a node as the run has */
    tx__tuned *layout;  /* owned; the run's own first */
    int n, cap, n_tried;
    tx_correction correction;
    double start; /* tx_clock */
    int stopped;  /* a stop signal */
} tx__tuning_job;

/* What is compared, the less the better: seconds of an iteration or of a sample. */
double tx__tuning_score(const tx__tuning_job *j, const tx__tuned *l, double seconds);

/* The fastest that was measured; NULL: none was. */
tx__tuned *tx__tuning_best(tx__tuning_job *j);

/* ---- autotune_layouts.c ---- */

/* Lists the layouts that the settings allow and that fit into the machine's memory, with their predictions.
 * TX_ERR_NOMEM: none fits. */
tx_status tx__tuning_list(tx__tuning_job *j);

/* The options of the run in that layout; *out NULL: it may not have it. */
tx_status tx__tuning_config(tx_config **out, const tx__tuning_job *j, const tx__tuned *l);

/* "TP 2, PP 1, DP 2, ZeRO 1, micro-batch 4" */
tx_status tx__tuning_words(tx_str *out, const tx__tuned *l);

/* ---- autotune_trial.c ---- */

/* The words behind `triax` that train in that layout, as a JSON array of strings; with `folder` for a trial whose
 * files are there. */
tx_status tx__tuning_line(json_t **out, const tx__tuning_job *j, const tx__tuned *l, const char *folder);

/* Measures it, or takes what was measured with the same command line before. A run that fails leaves the reason in
 * l->why. */
tx_status tx__tuning_measure(tx__tuning_job *j, tx__tuned *l);

/* Takes what earlier calls have measured. */
tx_status tx__tuning_recall(tx__tuning_job *j, tx__tuned *l);

/* Runs words of triax with their output in files of the folder.   @words an array of strings */
tx_status tx__tuning_child(tx__tuning_job *j, const json_t *words, const char *folder, int *code);

/* ---- autotune_results.c ---- */

/* The folder of a layout's trial in results_dir; tx_free. */
tx_status tx__tuning_folder(char **out, const tx__tuning_job *j, const tx__tuned *l);

/* Makes the two folders, empty where the settings say so, and has the machine measured unless it was. */
tx_status tx__tuning_open(tx__tuning_job *j);

/* What is written before a trial: cmd.txt, ds_config.json, exp.json, and exp.json's copy in exps_dir. */
tx_status tx__tuning_describe(const tx__tuning_job *j, const tx__tuned *l);

/* metrics.json, or exp.json with why there is none. */
tx_status tx__tuning_keep(const tx__tuning_job *j, const tx__tuned *l);

/* summary.txt, and of the best layout ds_config_optimal.json and cmd_optimal.txt. */
tx_status tx__tuning_publish(tx__tuning_job *j);

/* The table of all that was measured, with how far the predictions were off. */
tx_status tx__tuning_table(tx_str *out, const tx__tuning_job *j);

#endif
