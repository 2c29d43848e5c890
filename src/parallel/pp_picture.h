/* pp_picture.h - a pipeline's timeline as lines of text, and what other pictures of it need: which part of the time is
 * shown, and how large. */
#ifndef TX_PARALLEL_PP_PICTURE_H
#define TX_PARALLEL_PP_PICTURE_H

#include "base/str.h"
#include "parallel/pp_times.h"

/* What a stage does besides forwards and backwards: sums of gradients, the update. */
typedef struct tx_pp_extra {
    const char *name; /* its first letter, as a capital, stands for it in text */
    int stage;
    double start, end;
} tx_pp_extra;

typedef struct tx_pp_drawing {
    const tx_pp_timeline *t;
    const tx_pp_extra *extra; /* those of a stage in the order of time */
    int n_extras;
    double ms; /* milliseconds in a unit of the timeline; 0: it counts units */
} tx_pp_drawing;

/* Sizes of a picture, in columns or pixels: of its whole width, and of a forward. */
typedef struct tx_pp_room {
    double least, most;   /* width */
    double label, narrow; /* a forward that holds its label; the narrowest that is better than leaving some out */
    double gap;           /* width of what is left out */
} tx_pp_room;

/* Times [0, head) and [tail, end) are shown; head == tail: all. */
typedef struct tx_pp_cut {
    double scale; /* columns of a unit of time */
    double head, tail, end;
} tx_pp_cut;

tx_pp_cut tx_pp_cut_of(const tx_pp_drawing *d, const tx_pp_room *room);

/* 'F', 'B', 'W' */
char tx_pp_letter(const tx_pp_span *b);

/* Until when there is something to draw. */
double tx_pp_end_of(const tx_pp_drawing *d);

/* The share of that time in which a stage does nothing. */
double tx_pp_waits(const tx_pp_drawing *d, int stage);

/* The distance of marks on an axis of time: the least of 1, 2, 5, 10, ... that is at least so much. */
double tx_pp_mark_step(double least);

/* Digits behind the point of marks so far apart. */
int tx_pp_mark_digits(double step);

/* Appends one line a stage, as in pp_schedule.h, of a timeline whose times are whole numbers: a column is one unit. */
tx_status tx_pp_draw_units(const tx_pp_timeline *t, tx_str *out);

/* Appends a picture to scale: one line a stage and an axis. "F3--" and "B3.1--" are as long as they take; a label that
 * does not fit is cut. Of more than 16 stages the first and the last 8 are shown; of a time that would need more than
 * 200 columns its begin and its end. */
tx_status tx_pp_draw_to_scale(const tx_pp_drawing *d, tx_str *out);

#endif
