/* picture.c - predicted against measured rates as an SVG: both axes logarithmic, a colour and a marker of each set. */
#include <math.h>
#include <string.h>

#include "fit.h"

/* The square that is drawn in, and what it shows, in TFLOP/s of a GPU. */
enum { LEFT = 70, TOP = 40, SIDE = 620, WIDTH = 960, HEIGHT = 740 };
#define LEAST 1.0
#define MOST  600.0

#define BAND 0.12

/* Colours that also the colour-blind tell apart; markers repeat only with another one. */
static const char *const color[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#3a3a3a", "#56b4e9" };
static const char *const marker[] = { "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
                                      "M-3.5,-3.5h7v7h-7z",
                                      "M0,-4.5L4.2,3.2H-4.2z",
                                      "M0,-4.8L4.8,0L0,4.8L-4.8,0z",
                                      "M0,4.5L4.2,-3.2H-4.2z",
                                      "M-1.3,-4.4h2.6v3.1h3.1v2.6h-3.1v3.1h-2.6v-3.1h-3.1v-2.6h3.1z",
                                      "M0,-4.8L4.6,-1.5L2.8,3.9H-2.8L-4.6,-1.5z",
                                      "M-4.5,-2.4h9v4.8h-9z" };
enum { COLORS = sizeof color / sizeof *color, MARKERS = sizeof marker / sizeof *marker };

static double x_of(double tflops)
{
    return LEFT + SIDE * log(fmin(fmax(tflops, LEAST), MOST) / LEAST) / log(MOST / LEAST);
}

static double y_of(double tflops)
{
    return TOP + SIDE - (x_of(tflops) - LEFT);
}

static tx_status put_head(tx_str *out, const fit_data *d)
{
    fit_judgement j = fit_judge(d, NULL, NULL);
    return tx_str_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\" "
        "role=\"img\" aria-labelledby=\"title desc\">\n"
        "<title id=\"title\">Predicted against measured rates of %d published runs</title>\n"
        "<desc id=\"desc\">A point for each run, by the TFLOP/s of a GPU that were measured (across) and predicted "
        "(up), "
        "both logarithmic from 1 to 600. The points lie around the diagonal: half of them within %.1f per cent of the "
        "time. The table of the page has the numbers.</desc>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
        WIDTH, HEIGHT, j.n, 100 * j.median, WIDTH, HEIGHT);
}

static tx_status put_axes(tx_str *out)
{
    static const double tick[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500 };
    TX_TRY(tx_str_printf(out, "<path fill=\"#e4e4e4\" d=\"M%.1f,%.1fL%.1f,%.1fL%d,%dL%.1f,%dL%d,%.1fL%d,%.1fz\"/>\n",
                         (double)LEFT, y_of(LEAST * (1 + BAND)), x_of(MOST / (1 + BAND)), (double)TOP, LEFT + SIDE, TOP,
                         (double)(LEFT + SIDE), TOP, LEFT + SIDE, y_of(MOST / (1 + BAND)), LEFT, (double)(TOP + SIDE)));
    for (size_t i = 0; i < sizeof tick / sizeof *tick; i++) {
        double x = x_of(tick[i]), y = y_of(tick[i]);
        TX_TRY(tx_str_printf(out, "<path stroke=\"#ccc\" d=\"M%.1f,%dV%dM%d,%.1fH%d\"/>\n", x, TOP, TOP + SIDE, LEFT, y,
                             LEFT + SIDE));
        TX_TRY(tx_str_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x, TOP + SIDE + 18,
                             tick[i]));
        TX_TRY(tx_str_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y + 4.5,
                             tick[i]));
    }
    return tx_str_printf(
        out,
        "<path stroke=\"#555\" fill=\"none\" d=\"M%d,%dH%dV%dH%dz\"/>\n"
        "<path stroke=\"#555\" d=\"M%d,%dL%d,%d\"/>\n"
        "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured: model TFLOP/s of a GPU</text>\n"
        "<text transform=\"translate(22,%d)rotate(-90)\" text-anchor=\"middle\">predicted: model TFLOP/s of "
        "a GPU</text>\n"
        "<text x=\"%d\" y=\"%d\" font-size=\"15\">Predicted against measured; grey: within %.0f %%</text>\n",
        LEFT, TOP, LEFT + SIDE, TOP + SIDE, LEFT, LEFT, TOP + SIDE, LEFT + SIDE, TOP, LEFT + SIDE / 2, TOP + SIDE + 42,
        TOP + SIDE / 2, LEFT, TOP - 14, 100 * BAND);
}

static tx_status put_marker(tx_str *out, int set, double x, double y)
{
    return tx_str_printf(out, "<path transform=\"translate(%.1f,%.1f)\" d=\"%s\"/>\n", x, y, marker[set % MARKERS]);
}

static tx_status put_set(tx_str *out, const fit_data *d, int set)
{
    const char *c = color[set % COLORS];
    int y = TOP + 12 + 24 * set;
    TX_TRY(tx_str_printf(out, "<g fill=\"%s\" fill-opacity=\"0.55\" stroke=\"%s\" stroke-width=\"0.8\">\n", c, c));
    TX_TRY(put_marker(out, set, LEFT + SIDE + 24, y));
    for (int i = 0; i < d->n; i++) {
        const fit_row *r = &d->row[i];
        if (r->set != set) continue;
        TX_TRY(
            put_marker(out, set, x_of(fit_rate(r, r->measured) / 1e12), y_of(fit_rate(r, r->time.iteration) / 1e12)));
    }
    fit_judgement j = fit_judge(d, fit_of_set, &set);
    return tx_str_printf(out, "</g>\n<text x=\"%d\" y=\"%d\">%s: %d, %.0f %% off</text>\n", LEFT + SIDE + 36, y + 4,
                         d->set[set], j.n, 100 * j.mean);
}

tx_status fit_picture(tx_str *out, const fit_data *d)
{
    TX_TRY(put_head(out, d));
    TX_TRY(put_axes(out));
    for (int i = 0; i < d->n_sets; i++) TX_TRY(put_set(out, d, i));
    return tx_str_puts(out, "</svg>\n");
}
