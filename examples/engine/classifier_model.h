/* classifier_model.h - a small convolutional network on drawn digits, in plain C: what both classifiers train.
 *
 *      image [12, 12] -> 8 convolutions 3 x 3, ReLU -> mean of 2 x 2 -> linear -> softmax cross-entropy
 *
 *  No line of it knows triax. Arrays are row-major, n is a number of samples. */
#ifndef CLASSIFIER_MODEL_H
#define CLASSIFIER_MODEL_H

#include <stdint.h>

enum {
    SIDE = 12,
    PIXELS = SIDE * SIDE,
    CHANNELS = 8,
    MAP = SIDE - 2,   /* side of a convolution's result */
    POOLED = MAP / 2, /* and of what is left of it */
    FEATURES = CHANNELS * POOLED * POOLED,
    CLASSES = 10
};

enum { CONV_WEIGHT, CONV_BIAS, LINEAR_WEIGHT, LINEAR_BIAS, N_PARAMS };

typedef struct classifier_param {
    const char *name;
    int64_t dim[2]; /* [1] is 0 of a vector */
} classifier_param;

extern const classifier_param classifier_params[N_PARAMS];

int64_t classifier_numel(int param);

/* Initial values of elements [first, first + n) of parameter "classifier.<name>"; a function of these alone. */
void classifier_initial(void *unused, const char *name, int64_t first, int64_t n, float *x);

/* Samples first .. first + n - 1 of an endless set: digits, each a little moved and under noise.
 * @image [n, PIXELS]   @label [n] */
void classifier_samples(int64_t first, int64_t n, float *image, int32_t *label);

/* What forward leaves for backward. */
typedef struct classifier_saved {
    float *map;         /* [n, CHANNELS, MAP, MAP], behind the ReLU */
    float *feature;     /* [n, FEATURES] */
    float *probability; /* [n, CLASSES] */
} classifier_saved;

/* @loss [n] */
void classifier_forward(float *const weight[N_PARAMS], const float *image, const int32_t *label, int64_t n,
                        classifier_saved *s, float *loss);

/* Adds the gradient of Σ loss_weight[i] loss[i] to grad. */
void classifier_backward(float *const weight[N_PARAMS], const float *image, const int32_t *label, int64_t n,
                         const classifier_saved *s, const float *loss_weight, float *const grad[N_PARAMS]);

/* How many of n samples have the largest probability at their label. */
int64_t classifier_right(const classifier_saved *s, const int32_t *label, int64_t n);

#endif
