/* show_schedule.h - the pipeline in time: --schedule-picture and --schedule-svg. */
#ifndef TX_API_SHOW_SCHEDULE_H
#define TX_API_SHOW_SCHEDULE_H

#include "api/show_time.h"

/* The schedule as lines of text; with a machine to scale.   @time of --machine; NULL: without one, in units of a
 * forward */
tx_status tx__show_schedule(tx__report *r, const tx_config *cfg, const tx_plan_time *time);

/* Writes it to the file of --schedule-svg, and says so unless the plan is JSON. */
tx_status tx__write_schedule(tx__report *r, const tx_config *cfg, const tx_plan_time *time);

#endif
