/* curricula.h - how the length of training samples, or the difficulty of those that are drawn, grows:
 * --curriculum-schedule, DeepSpeed's schedule_type.
 *
 *  A row is X(constant, word, difficulty, takes). `difficulty` is an expression that config/curriculum.c evaluates, of
 * the curriculum c and the iteration `step`, from 1. `takes` is the parameters that the schedule needs beside the
 * lowest and highest difficulty, as schedule_config names them. Source: DeepSpeed,
 * runtime/data_pipeline/curriculum_scheduler.py.
 */
#ifndef TX_KINDS_CURRICULA_H
#define TX_KINDS_CURRICULA_H

#include "kinds/kind.h"

#define TX_CURRICULA(X)                                                                                           \
    X(TX_CURRICULUM_LINEAR, "fixed_linear", root_difficulty(c, step, 1), "total_curriculum_step|difficulty_step") \
    X(TX_CURRICULUM_ROOT, "fixed_root", root_difficulty(c, step, c->root_degree),                                 \
      "total_curriculum_step|difficulty_step|root_degree")                                                        \
    X(TX_CURRICULUM_DISCRETE, "fixed_discrete", listed_difficulty(c, step), "difficulty|max_step")

TX_KIND(curriculum_kind, TX_CURRICULA)

#endif
