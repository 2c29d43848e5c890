/* classifier_model.c - the network's numbers, and the digits it is to tell apart. */
#include "classifier_model.h"

#include <math.h>
#include <string.h>

const classifier_param classifier_params[N_PARAMS] = {
    [CONV_WEIGHT] = { "conv.weight", { CHANNELS, 9 } },
    [CONV_BIAS] = { "conv.bias", { CHANNELS, 0 } },
    [LINEAR_WEIGHT] = { "linear.weight", { CLASSES, FEATURES } },
    [LINEAR_BIAS] = { "linear.bias", { CLASSES, 0 } },
};

int64_t classifier_numel(int param)
{
    const int64_t *dim = classifier_params[param].dim;
    return dim[0] * (dim[1] ? dim[1] : 1);
}

/* ---- numbers that look random: a hash of what they are for (splitmix64) ---- */

static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In [-1, 1). */
static float uniform(uint64_t x)
{
    return (float)(hash(x) >> 40) * 0x1p-23f - 1;
}

void classifier_initial(void *unused, const char *name, int64_t first, int64_t n, float *x)
{
    uint64_t seed = 0;
    (void)unused;
    for (const char *at = name; *at; at++) seed = hash(seed ^ (unsigned char)*at);
    float range = strstr(name, "bias") ? 0 : strstr(name, "conv") ? 0.5f : 0.1f;
    for (int64_t i = 0; i < n; i++) x[i] = range * uniform(seed + (uint64_t)(first + i));
}

/* ---- digits ---- */

static const char *const font[CLASSES][7] = {
    { ".###.", "#...#", "#..##", "#.#.#", "##..#", "#...#", ".###." },
    { "..#..", ".##..", "..#..", "..#..", "..#..", "..#..", ".###." },
    { ".###.", "#...#", "....#", "...#.", "..#..", ".#...", "#####" },
    { ".###.", "#...#", "....#", "..##.", "....#", "#...#", ".###." },
    { "...#.", "..##.", ".#.#.", "#..#.", "#####", "...#.", "...#." },
    { "#####", "#....", "####.", "....#", "....#", "#...#", ".###." },
    { "..##.", ".#...", "#....", "####.", "#...#", "#...#", ".###." },
    { "#####", "....#", "...#.", "..#..", ".#...", ".#...", ".#..." },
    { ".###.", "#...#", "#...#", ".###.", "#...#", "#...#", ".###." },
    { ".###.", "#...#", "#...#", ".####", "....#", "...#.", ".##.." },
};

void classifier_samples(int64_t first, int64_t n, float *image, int32_t *label)
{
    for (int64_t j = 0; j < n; j++) {
        uint64_t h = hash((uint64_t)(first + j));
        int digit = (int)(h % CLASSES), down = 2 + (int)(h >> 8 & 1), right = 3 + (int)(h >> 16 & 1);
        float *pixel = image + j * PIXELS;
        label[j] = digit;
        for (int i = 0; i < PIXELS; i++) pixel[i] = 0.4f * uniform(h + (uint64_t)i);
        for (int y = 0; y < 7; y++)
            for (int x = 0; x < 5; x++) pixel[(y + down) * SIDE + x + right] += font[digit][y][x] == '#';
    }
}

/* ---- forward and backward ---- */

/* map = ReLU(conv(pixel)) of one sample */
static void convolve(float *map, const float *pixel, const float *weight, const float *bias)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < MAP; y++)
            for (int x = 0; x < MAP; x++) {
                float sum = bias[c];
                for (int i = 0; i < 9; i++) sum += weight[c * 9 + i] * pixel[(y + i / 3) * SIDE + x + i % 3];
                map[(c * MAP + y) * MAP + x] = sum > 0 ? sum : 0;
            }
}

/* feature = means of 2 x 2 of one sample */
static void pool(float *feature, const float *map)
{
    for (int i = 0; i < FEATURES; i++) {
        int c = i / (POOLED * POOLED), y = i / POOLED % POOLED, x = i % POOLED;
        const float *at = map + (c * MAP + 2 * y) * MAP + 2 * x;
        feature[i] = 0.25f * (at[0] + at[1] + at[MAP] + at[MAP + 1]);
    }
}

/* probability = softmax(linear(feature)) of one sample; gives the loss. */
static float classify(float *probability, const float *feature, const float *weight, const float *bias, int label)
{
    float z[CLASSES], most = -INFINITY, sum = 0;
    for (int k = 0; k < CLASSES; k++) {
        z[k] = bias[k];
        for (int i = 0; i < FEATURES; i++) z[k] += weight[k * FEATURES + i] * feature[i];
        most = fmaxf(most, z[k]);
    }
    for (int k = 0; k < CLASSES; k++) sum += probability[k] = expf(z[k] - most);
    for (int k = 0; k < CLASSES; k++) probability[k] /= sum;
    return logf(sum) + most - z[label];
}

void classifier_forward(float *const weight[N_PARAMS], const float *image, const int32_t *label, int64_t n,
                        classifier_saved *s, float *loss)
{
    for (int64_t j = 0; j < n; j++) {
        float *map = s->map + j * CHANNELS * MAP * MAP, *feature = s->feature + j * FEATURES;
        convolve(map, image + j * PIXELS, weight[CONV_WEIGHT], weight[CONV_BIAS]);
        pool(feature, map);
        loss[j] = classify(s->probability + j * CLASSES, feature, weight[LINEAR_WEIGHT], weight[LINEAR_BIAS], label[j]);
    }
}

void classifier_backward(float *const weight[N_PARAMS], const float *image, const int32_t *label, int64_t n,
                         const classifier_saved *s, const float *loss_weight, float *const grad[N_PARAMS])
{
    for (int64_t j = 0; j < n; j++) {
        const float *map = s->map + j * CHANNELS * MAP * MAP, *feature = s->feature + j * FEATURES;
        const float *pixel = image + j * PIXELS;
        float d_feature[FEATURES] = { 0 };
        for (int k = 0; k < CLASSES; k++) {
            float dz = loss_weight[j] * (s->probability[j * CLASSES + k] - (k == label[j]));
            grad[LINEAR_BIAS][k] += dz;
            for (int i = 0; i < FEATURES; i++) {
                grad[LINEAR_WEIGHT][k * FEATURES + i] += dz * feature[i];
                d_feature[i] += dz * weight[LINEAR_WEIGHT][k * FEATURES + i];
            }
        }
        for (int c = 0; c < CHANNELS; c++)
            for (int y = 0; y < MAP; y++)
                for (int x = 0; x < MAP; x++) {
                    if (map[(c * MAP + y) * MAP + x] <= 0) continue;
                    float d = 0.25f * d_feature[(c * POOLED + y / 2) * POOLED + x / 2];
                    grad[CONV_BIAS][c] += d;
                    for (int i = 0; i < 9; i++)
                        grad[CONV_WEIGHT][c * 9 + i] += d * pixel[(y + i / 3) * SIDE + x + i % 3];
                }
    }
}

int64_t classifier_right(const classifier_saved *s, const int32_t *label, int64_t n)
{
    int64_t right = 0;
    for (int64_t j = 0; j < n; j++) {
        const float *p = s->probability + j * CLASSES;
        int best = 0;
        for (int k = 1; k < CLASSES; k++) best = p[k] > p[best] ? k : best;
        right += best == label[j];
    }
    return right;
}
