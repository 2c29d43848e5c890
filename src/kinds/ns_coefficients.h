/* ns_coefficients.h - the coefficients of Newton-Schulz iterations, x <- a x + (b A + c A²) x with A = x xᵀ:
 * --muon-coefficient-type.
 *
 *  The numbers are those of NVIDIA's emerging_optimizers, which Megatron Core takes them from, with their sources:
 *  simple K. Jordan (kellerjordan.github.io/posts/muon), quintic F. Cesista
 * (leloykun.github.io/ponder/muon-opt-coeffs), polar_express arXiv:2505.16932 with its factor of safety, cans
 * arXiv:2506.10935, aol T. Boissin's flash-newton-schulz, deepseekv4 and cubic5 (arXiv:2606.00371). */
#ifndef TX_KINDS_NS_COEFFICIENTS_H
#define TX_KINDS_NS_COEFFICIENTS_H

#include "kinds/kind.h"

/* What comes after the last set of a row. */
typedef enum tx_ns_after { TX_NS_CYCLES, TX_NS_REPEATS_LAST } tx_ns_after;

/*   X(constant, word, what comes after the last set, sets { a, b, c }...) */
/* clang-format off */
#define TX_NS_COEFFICIENTS(X)                                                              \
    X(TX_NS_SIMPLE, "simple", TX_NS_CYCLES, { 3.4445, -4.7750, 2.0315 })                   \
    X(TX_NS_QUINTIC, "quintic", TX_NS_CYCLES,                                              \
      { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 }, { 3.7418, -5.5913, 2.3037 }, \
      { 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 })                            \
    X(TX_NS_POLAR_EXPRESS, "polar_express", TX_NS_REPEATS_LAST,                            \
      { 8.2051, -22.9019, 16.4607 }, { 4.0664, -2.8612, 0.5184 }, { 3.9096, -2.8234, 0.5250 }, \
      { 3.2856, -2.4153, 0.4853 }, { 2.2779, -1.6198, 0.3985 }, { 1.8726, -1.2307, 0.3585 }, \
      { 1.8564, -1.2132, 0.3568 }, { 1.8750, -1.2500, 0.3750 })                            \
    X(TX_NS_CANS, "cans", TX_NS_REPEATS_LAST,                                              \
      { 8.4703, -25.1081, 18.6293 }, { 4.1828, -3.1087, 0.5806 }, { 3.9619, -2.9541, 0.5630 }, \
      { 3.2866, -2.4647, 0.5074 }, { 2.2737, -1.6447, 0.4162 })                            \
    X(TX_NS_AOL, "aol", TX_NS_CYCLES,                                                      \
      { 4.0098, -7.0585, 2.4635 }, { 3.4585, -5.5479, 2.5959 }, { 2.7573, -3.2939, 1.4254 }, \
      { 2.7215, -3.0494, 1.3169 })                                                         \
    X(TX_NS_DEEPSEEKV4, "deepseekv4", TX_NS_REPEATS_LAST,                                  \
      { 3.4445, -4.7750, 2.0315 }, { 3.4445, -4.7750, 2.0315 }, { 3.4445, -4.7750, 2.0315 }, \
      { 3.4445, -4.7750, 2.0315 }, { 3.4445, -4.7750, 2.0315 }, { 3.4445, -4.7750, 2.0315 }, \
      { 3.4445, -4.7750, 2.0315 }, { 3.4445, -4.7750, 2.0315 }, { 2.0, -1.5, 0.5 })        \
    X(TX_NS_CUBIC5, "cubic5", TX_NS_CYCLES,                                                \
      { 3.3656576, -3.3420992, 0.0 }, { 2.5744352, -1.4957376, 0.0 }, { 2.5368962, -1.4312570, 0.0 }, \
      { 2.4418906, -1.2764040, 0.0 }, { 2.2230472, -0.9630650, 0.0 })
/* clang-format on */

TX_KIND(ns_coefficients, TX_NS_COEFFICIENTS)

#endif
