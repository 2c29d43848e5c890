/* profiled.c - --profile as triax, Megatron-DeepSpeed and Megatron-LM have it: which iterations. */
#include <stdio.h>
#include <string.h>

#include "config/option_table.h"
#include "config/rules.h"

enum { WARM_UP = 2, MOST = 10000 }; /* iterations: left out before N, profiled */

static bool steps_parse(const char *text, int64_t *a, int64_t *b)
{
    char first[32];
    const char *comma = strchr(text, ',');
    if (!comma || (size_t)(comma - text) >= sizeof first) return false;
    snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
    return tx__integer_parse(first, a) && tx__integer_parse(comma + 1, b) && *a >= 0 && *b >= *a && *b < 1000000000;
}

/* "--profile", "--profile N" or a word of upstream's. */
static const char *value_of(const tx_config *cfg)
{
    return cfg->profile.n ? cfg->profile.item[0] : "";
}

static bool is_word(const char *value)
{
    return !strcmp(value, "pt") || !strcmp(value, "pt-full") || !strcmp(value, "pytorch");
}

static bool names_steps(const tx_config *cfg)
{
    return cfg->given.profile_step_start || cfg->given.profile_step_end || !*value_of(cfg);
}

bool tx_config_profiled(const tx_config *cfg, int64_t done, int64_t *first, int64_t *last)
{
    int64_t a, b, n;
    if (!cfg->given.profile) return false;
    if (names_steps(cfg)) {
        *first = cfg->profile_step_start + 1;
        *last = cfg->profile_step_end;
    } else if (is_word(value_of(cfg))) {
        if (!steps_parse(cfg->profile_steps, &a, &b)) return false;
        *first = done + a + 1;
        *last = done + b + 1;
    } else {
        if (!tx__integer_parse(value_of(cfg), &n)) return false;
        *first = done + WARM_UP + 1;
        *last = done + WARM_UP + n;
    }
    if (*first <= done) *first = done + 1; /* of a run that goes on behind it */
    return *first <= *last;
}

void tx__check_profile(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *value = value_of(c);
    int64_t a = 0, b = 0, n = 0;
    if (!k->g->profile || k->bad->profile) return;
    bool word = is_word(value), number = tx__integer_parse(value, &n);
    if (*value && !word && (!number || n < 1 || n > MOST))
        tx__violate(k->v,
                    "--profile %.60s: allowed are a number of iterations, 1 to %d, pt, pt-full or pytorch, or no value",
                    value, MOST);
    else if (number && (k->g->profile_step_start || k->g->profile_step_end))
        tx__violate(k->v,
                    "--profile %.60s says how many iterations, --profile-step-start and --profile-step-end say "
                    "which: give one of the two",
                    value);
    else if (word && !names_steps(c) && !k->bad->profile_steps &&
             (!steps_parse(c->profile_steps, &a, &b) || b - a >= MOST))
        tx__violate(k->v, "--profile-steps %.60s: must be A,B with 0 <= A <= B, at most %d iterations",
                    c->profile_steps, MOST);
    else if (names_steps(c) &&
             (c->profile_step_end <= c->profile_step_start || c->profile_step_end - c->profile_step_start > MOST))
        tx__violate(k->v, "--profile-step-end %lld is not behind --profile-step-start %lld, or more than %d behind",
                    (long long)c->profile_step_end, (long long)c->profile_step_start, MOST);
}
