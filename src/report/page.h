/* page.h - runs as one HTML page that needs nothing but itself: page.html with the runs' numbers in it. */
#ifndef TX_REPORT_PAGE_H
#define TX_REPORT_PAGE_H

#include "report/history.h"

/* Publishes the page. @name, @run [n_runs] */
tx_status tx_page_write(const char *path, int n_runs, const char *const *name, const tx_history *run);

/* The same, appended to a text. */
tx_status tx__page_text(tx_str *out, int n_runs, const char *const *name, const tx_history *run);

/* Which rows of a run are drawn, in order: all, or of each of max/2 ranges the two with the least and the highest
 * loss, so that no spike is lost, and the last. @row room for `max` + 1; returns their number */
size_t tx__page_rows(const tx_history *run, size_t max, size_t *row);

/* page.html; its NUL-terminated text is made part of the library by the build. */
extern const unsigned char tx__page_html[];

#endif
