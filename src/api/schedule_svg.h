/* schedule_svg.h - a pipeline in time as an SVG picture. */
#ifndef TX_API_SCHEDULE_SVG_H
#define TX_API_SCHEDULE_SVG_H

#include "parallel/pp_picture.h"

typedef struct tx__svg_words {
    const char *title, *about; /* a line each: the run; its schedule and time */
} tx__svg_words;

/* Appends the picture: a row a stage, light boxes for forwards and dark ones for backwards, one colour and one pattern
 * a chunk, hatched ones for what else there is, an axis of time, what part of it each stage waits. Nothing in it needs
 * colours or a script; it has a title and a description for those who cannot see it. */
tx_status tx__schedule_svg(tx_str *out, const tx_pp_drawing *d, const tx__svg_words *words);

#endif
