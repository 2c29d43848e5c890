/* char_lm_model.c - the transformer's tables, its attention, and the sentences it is to write. */
#include "char_lm_model.h"

#include <math.h>
#include <string.h>

static const char_lm_param embedding[N_EMBEDDING] = {
    [WORD] = { "word.weight", { VOCAB, HIDDEN } },
    [POSITION] = { "position.weight", { LENGTH, HIDDEN } },
};
static const char_lm_param block[N_BLOCK] = {
    [LN1_W] = { "norm1.weight", { HIDDEN, 0 } },        [LN1_B] = { "norm1.bias", { HIDDEN, 0 } },
    [QKV_W] = { "qkv.weight", { 3 * HIDDEN, HIDDEN } }, [QKV_B] = { "qkv.bias", { 3 * HIDDEN, 0 } },
    [OUT_W] = { "out.weight", { HIDDEN, HIDDEN } },     [OUT_B] = { "out.bias", { HIDDEN, 0 } },
    [LN2_W] = { "norm2.weight", { HIDDEN, 0 } },        [LN2_B] = { "norm2.bias", { HIDDEN, 0 } },
    [UP_W] = { "up.weight", { INNER, HIDDEN } },        [UP_B] = { "up.bias", { INNER, 0 } },
    [DOWN_W] = { "down.weight", { HIDDEN, INNER } },    [DOWN_B] = { "down.bias", { HIDDEN, 0 } },
};
static const char_lm_param head[N_HEAD] = {
    [LN_W] = { "norm.weight", { HIDDEN, 0 } },
    [LN_B] = { "norm.bias", { HIDDEN, 0 } },
    [LOGIT_W] = { "logits.weight", { VOCAB, HIDDEN } },
};

const char_lm_layer char_lm_layers[N_LAYERS] = {
    { "embedding", embedding, N_EMBEDDING },
    { "block.0", block, N_BLOCK },
    { "block.1", block, N_BLOCK },
    { "head", head, N_HEAD },
};

/* ---- numbers that look random: a hash of what they are for (splitmix64) ---- */

static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void char_lm_initial(void *unused, const char *name, int64_t first, int64_t n, float *x)
{
    uint64_t seed = 0;
    (void)unused;
    for (const char *at = name; *at; at++) seed = hash(seed ^ (unsigned char)*at);
    if (strstr(name, "bias") || strstr(name, "norm")) {
        for (int64_t i = 0; i < n; i++) x[i] = strstr(name, "bias") ? 0 : 1;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float in_0_2 = (float)(hash(seed + (uint64_t)(first + i)) >> 40) * 0x1p-23f;
        x[i] = 0.15f * (in_0_2 - 1);
    }
}

/* ---- text ---- */

static const char *const grammar[5][8] = {
    { "a small ", "the old ", "my ", "every ", "one ", "your ", "the ", "a red " },
    { "cat ", "king ", "river ", "child ", "stone ", "fox ", "boat ", "star " },
    { "sees ", "finds ", "likes ", "carries ", "knows ", "follows ", "wants ", "hears " },
    { "the green ", "a ", "her ", "no ", "the last ", "some ", "this ", "a quiet " },
    { "house.", "song.", "road.", "tree.", "door.", "word.", "hill.", "friend." },
};

static int32_t number_of(char c)
{
    return c == ' ' ? 0 : c == '.' ? 1 : c - 'a' + 2;
}

void char_lm_sample(int64_t i, int32_t *token, int32_t *next)
{
    int32_t text[LENGTH + 1];
    int n = 0;
    for (uint64_t word = 0; n <= LENGTH; word++) {
        const char *at = grammar[word % 5][hash((uint64_t)i * 64 + word) % 8];
        for (; *at && n <= LENGTH; at++) text[n++] = number_of(*at);
    }
    memcpy(token, text, LENGTH * sizeof *text);
    memcpy(next, text + 1, LENGTH * sizeof *text);
}

/* ---- attention ---- */

enum { ROW = 3 * HIDDEN }; /* of qkv */

static float dot(const float *a, const float *b)
{
    float sum = 0;
    for (int i = 0; i < HEAD; i++) sum += a[i] * b[i];
    return sum;
}

static void add(float *y, float factor, const float *x)
{
    for (int i = 0; i < HEAD; i++) y[i] += factor * x[i];
}

void char_lm_attention_fwd(float *o, float *p, const float *qkv, int64_t b)
{
    const float scale = 1 / sqrtf(HEAD);
    memset(o, 0, (size_t)b * LENGTH * HIDDEN * sizeof *o);
    for (int64_t j = 0; j < b * HEADS; j++) {
        const float *q = qkv + j / HEADS * LENGTH * ROW + j % HEADS * HEAD, *k = q + HIDDEN, *v = k + HIDDEN;
        float *to = o + j / HEADS * LENGTH * HIDDEN + j % HEADS * HEAD;
        for (int at = 0; at < LENGTH; at++) {
            float *row = p + (j * LENGTH + at) * LENGTH, most = -INFINITY, sum = 0;
            memset(row, 0, LENGTH * sizeof *row);
            for (int i = 0; i <= at; i++) most = fmaxf(most, row[i] = scale * dot(q + at * ROW, k + i * ROW));
            for (int i = 0; i <= at; i++) sum += row[i] = expf(row[i] - most);
            for (int i = 0; i <= at; i++) add(to + at * HIDDEN, row[i] /= sum, v + i * ROW);
        }
    }
}

/* With dp = do vᵀ:  ds = p (dp - Σ p dp),  dq = scale ds k,  dk = scale dsᵀ q,  dv = pᵀ do. */
void char_lm_attention_bwd(float *dqkv, const float *d_o, const float *p, const float *qkv, int64_t b)
{
    const float scale = 1 / sqrtf(HEAD);
    memset(dqkv, 0, (size_t)b * LENGTH * ROW * sizeof *dqkv);
    for (int64_t j = 0; j < b * HEADS; j++) {
        int64_t first = j / HEADS * LENGTH * ROW + j % HEADS * HEAD;
        const float *q = qkv + first, *k = q + HIDDEN, *v = k + HIDDEN;
        float *dq = dqkv + first, *dk = dq + HIDDEN, *dv = dk + HIDDEN;
        for (int at = 0; at < LENGTH; at++) {
            const float *row = p + (j * LENGTH + at) * LENGTH;
            const float *from = d_o + (j / HEADS * LENGTH + at) * HIDDEN + j % HEADS * HEAD;
            float dp[LENGTH], mean = 0;
            for (int i = 0; i <= at; i++) mean += row[i] * (dp[i] = dot(from, v + i * ROW));
            for (int i = 0; i <= at; i++) {
                float ds = scale * row[i] * (dp[i] - mean);
                add(dq + at * ROW, ds, k + i * ROW);
                add(dk + i * ROW, ds, q + at * ROW);
                add(dv + i * ROW, row[i], from);
            }
        }
    }
}
