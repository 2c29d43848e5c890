/* classifier_plain.c - trains the classifier with a loop, memory and an optimizer of its own.
 *
 *      cc classifier_plain.c classifier_model.c -lm -o classifier_plain && ./classifier_plain --steps 200
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classifier_model.h"

enum { BATCH = 32, TEST = 500, FIRST_TEST = 1 << 30 };

static float *weight[N_PARAMS], *grad[N_PARAMS], *m[N_PARAMS], *v[N_PARAMS];
static classifier_saved saved;

static float *numbers(int64_t n)
{
    float *x = calloc((size_t)n, sizeof *x);
    if (!x) exit((fprintf(stderr, "classifier_plain: no memory\n"), 1));
    return x;
}

static void initialize(void)
{
    for (int p = 0; p < N_PARAMS; p++) {
        int64_t n = classifier_numel(p);
        char name[64];
        snprintf(name, sizeof name, "classifier.%s", classifier_params[p].name);
        weight[p] = numbers(n), grad[p] = numbers(n), m[p] = numbers(n), v[p] = numbers(n);
        classifier_initial(NULL, name, 0, n, weight[p]);
    }
    saved.map = numbers(TEST * CHANNELS * MAP * MAP);
    saved.feature = numbers(TEST * FEATURES);
    saved.probability = numbers(TEST * CLASSES);
}

/* Adam; gradients are 0 then. */
static void update(int step, double lr)
{
    double correct_m = 1 - pow(0.9, step), correct_v = 1 - pow(0.999, step);
    for (int p = 0; p < N_PARAMS; p++)
        for (int64_t i = 0; i < classifier_numel(p); i++) {
            double g = grad[p][i];
            m[p][i] = (float)(0.9 * m[p][i] + 0.1 * g);
            v[p][i] = (float)(0.999 * v[p][i] + 0.001 * g * g);
            weight[p][i] -= (float)(lr * (m[p][i] / correct_m) / (sqrt(v[p][i] / correct_v) + 1e-8));
            grad[p][i] = 0;
        }
}

int main(int argc, char **argv)
{
    static float image[TEST * PIXELS], loss[TEST], loss_weight[BATCH];
    static int32_t label[TEST];
    int steps = argc == 3 && !strcmp(argv[1], "--steps") ? atoi(argv[2]) : 200;

    initialize();
    for (int j = 0; j < BATCH; j++) loss_weight[j] = 1.0f / BATCH;
    for (int step = 1; step <= steps; step++) {
        double mean = 0;
        classifier_samples((int64_t)(step - 1) * BATCH, BATCH, image, label);
        classifier_forward(weight, image, label, BATCH, &saved, loss);
        classifier_backward(weight, image, label, BATCH, &saved, loss_weight, grad);
        update(step, 3e-3);
        for (int j = 0; j < BATCH; j++) mean += loss[j] / BATCH;
        printf("step %4d  loss %.9g\n", step, mean);
    }
    classifier_samples(FIRST_TEST, TEST, image, label);
    classifier_forward(weight, image, label, TEST, &saved, loss);
    printf("accuracy %.3f\n", (double)classifier_right(&saved, label, TEST) / TEST);
    for (int p = 0; p < N_PARAMS; p++) free(weight[p]), free(grad[p]), free(m[p]), free(v[p]);
    free(saved.map), free(saved.feature), free(saved.probability);
    return 0;
}
