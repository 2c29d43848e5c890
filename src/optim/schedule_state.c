/* schedule_state.c - a schedule in a checkpoint, and what a resumed run does with it. Upstream's names and words. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "optim/schedule.h"

enum part { EVERY, OF_WD_RAMP, OF_WSD, OF_DECOUPLED }; /* what has to be on for a field to matter */
enum kind { NUMBER, LR_STYLE, WSD_STYLE, WD_STYLE };

static const struct field {
    const char *key, *name;
    const char *flags; /* that say it, for an error; "" where the name says enough */
    enum part part;
    enum kind kind; /* a double, or an enum of kinds/schedules.h */
    size_t offset;
} fields[] = {
    { "max_lr", "learning rate", "", EVERY, NUMBER, offsetof(tx_schedule, max_lr) },
    { "min_lr", "minimum learning rate", "", EVERY, NUMBER, offsetof(tx_schedule, min_lr) },
    { "init_lr", "learning rate of the warm-up's beginning", "", EVERY, NUMBER, offsetof(tx_schedule, init_lr) },
    { "decoupled_lr", "decoupled learning rate", " (--decoupled-lr)", OF_DECOUPLED, NUMBER,
      offsetof(tx_schedule, decoupled_lr) },
    { "decoupled_min_lr", "minimum decoupled learning rate", " (--decoupled-min-lr)", OF_DECOUPLED, NUMBER,
      offsetof(tx_schedule, decoupled_min_lr) },
    { "lr_warmup_steps", "warmup iterations", " (--lr-warmup-iters, -samples or -fraction)", EVERY, NUMBER,
      offsetof(tx_schedule, warmup) },
    { "lr_warmup_tokens", "warmup tokens", "", EVERY, NUMBER, offsetof(tx_schedule, warmup_tokens) },
    { "lr_decay_steps", "total number of iterations", " (--lr-decay-iters or -samples, else --train-iters or -samples)",
      EVERY, NUMBER, offsetof(tx_schedule, decay) },
    { "lr_decay_tokens", "decay tokens", "", EVERY, NUMBER, offsetof(tx_schedule, decay_tokens) },
    { "lr_decay_style", "learning rate decay style", "", EVERY, LR_STYLE, offsetof(tx_schedule, lr_style) },
    { "wsd_decay_steps", "WSD decay iterations", "", OF_WSD, NUMBER, offsetof(tx_schedule, wsd_decay) },
    { "lr_wsd_decay_style", "WSD decay style", "", OF_WSD, WSD_STYLE, offsetof(tx_schedule, wsd_style) },
    { "start_wd", "start weight decay", "", EVERY, NUMBER, offsetof(tx_schedule, start_wd) },
    { "end_wd", "end weight decay", "", EVERY, NUMBER, offsetof(tx_schedule, end_wd) },
    { "wd_incr_steps", "total number of weight decay iterations", " (--train-iters or -samples)", OF_WD_RAMP, NUMBER,
      offsetof(tx_schedule, wd_incr) },
    { "wd_incr_style", "weight decay incr style", "", EVERY, WD_STYLE, offsetof(tx_schedule, wd_style) },
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static double number_at(const tx_schedule *s, const struct field *f)
{
    double v;
    memcpy(&v, (const char *)s + f->offset, sizeof v);
    return v;
}

/* The word of a style; NULL of a number. */
static const char *word_at(const tx_schedule *s, const struct field *f)
{
    switch (f->kind) {
    case NUMBER:
        return NULL;
    case LR_STYLE:
        return tx_lr_decay_style_word(s->lr_style);
    case WSD_STYLE:
        return tx_wsd_decay_style_word(s->wsd_style);
    case WD_STYLE:
        return tx_wd_incr_style_word(s->wd_style);
    }
    return NULL;
}

/* false: no style has that word. */
static bool set_style(tx_schedule *s, const struct field *f, const char *word)
{
    switch (f->kind) {
    case NUMBER:
        return false;
    case LR_STYLE:
        return (s->lr_style = tx_lr_decay_style_of(word)) != 0;
    case WSD_STYLE:
        return (s->wsd_style = tx_wsd_decay_style_of(word)) != 0;
    case WD_STYLE:
        return (s->wd_style = tx_wd_incr_style_of(word)) != 0;
    }
    return false;
}

tx_status tx_schedule_to_json(const tx_schedule *s, json_t **out)
{
    json_t *all = json_object();
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct field *f = &fields[i];
        if (f->part == OF_DECOUPLED && !s->decoupled) continue;
        json_t *v = f->kind == NUMBER ? json_real(number_at(s, f)) : json_string(word_at(s, f));
        if (!json_object_set_new(all, f->key, v)) continue;
        json_decref(all);
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the schedule of a checkpoint");
    }
    *out = all;
    return TX_OK;
}

/* Every field is there and can be; and so can the whole. */
tx_status tx_schedule_from_json(tx_schedule *s, const json_t *saved)
{
    bool good = true;
    *s = (tx_schedule){ .decoupled = json_object_get(saved, "decoupled_lr") != NULL };
    for (size_t i = 0; i < N_FIELDS && good; i++) {
        const struct field *f = &fields[i];
        const json_t *v = json_object_get(saved, f->key);
        if (f->part == OF_DECOUPLED && !s->decoupled) continue;
        if (f->kind != NUMBER) {
            const char *word = json_string_value(v);
            good = word && set_style(s, f, word);
            if (word && !good)
                return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's schedule has %s \"%s\", which this triax does not know",
                               f->key, word);
        } else {
            double number = json_number_value(v);
            good = json_is_number(v) && isfinite(number) && number >= 0;
            memcpy((char *)s + f->offset, &number, sizeof number);
        }
        if (!good) return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's schedule has no %s that can be", f->key);
    }
    bool endless = s->lr_style == TX_LR_DECAY_CONSTANT && s->decay == 0; /* a client trains as long as it likes */
    if (s->min_lr > s->max_lr || (s->decoupled && s->decoupled_min_lr > s->decoupled_lr) || s->init_lr > s->max_lr ||
        (s->warmup >= s->decay && !endless) || s->end_wd < s->start_wd ||
        (s->lr_style == TX_LR_DECAY_WSD && (s->wsd_decay <= 0 || s->wsd_decay > s->decay || s->decay_tokens > 0)) ||
        (s->decay_tokens > 0 && s->warmup_tokens >= s->decay_tokens) ||
        (s->wd_style != TX_WD_INCR_CONSTANT && s->wd_incr <= 0))
        return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's schedule contradicts itself");
    return TX_OK;
}

static bool matters(const struct field *f, const tx_schedule *a, const tx_schedule *b)
{
    if (f->part == OF_WSD) return a->lr_style == TX_LR_DECAY_WSD || b->lr_style == TX_LR_DECAY_WSD;
    if (f->part == OF_DECOUPLED) return a->decoupled || b->decoupled;
    if (f->part == OF_WD_RAMP) return a->wd_style != TX_WD_INCR_CONSTANT || b->wd_style != TX_WD_INCR_CONSTANT;
    return true;
}

static const char *text_of(char text[32], const tx_schedule *s, const struct field *f)
{
    const char *word = word_at(s, f);
    if (word)
        snprintf(text, 32, "%s", word);
    else if (f->part == OF_DECOUPLED && !s->decoupled)
        snprintf(text, 32, "none");
    else
        snprintf(text, 32, "%.10g", number_at(s, f));
    return text;
}

tx_status tx_schedule_resume(tx_schedule *s, const json_t *saved, tx_schedule_choice choice)
{
    tx_schedule theirs;
    tx_str differ = { 0 };
    tx_status st = TX_OK;
    TX_TRY(tx_schedule_from_json(&theirs, saved));
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct field *f = &fields[i];
        char mine[32], other[32];
        bool same = f->kind == NUMBER ? number_at(s, f) == number_at(&theirs, f) : word_at(s, f) == word_at(&theirs, f);
        if (f->part == OF_DECOUPLED) same = same && s->decoupled == theirs.decoupled;
        if (!matters(f, s, &theirs)) continue;
        text_of(mine, s, f);
        text_of(other, &theirs, f);
        if (choice == TX_SCHEDULE_OWN)
            tx_info(" > overriding %s value to %s", f->name, mine);
        else if (choice == TX_SCHEDULE_SAVED || same)
            tx_info(" > using checkpoint value %s for %s", other, f->name);
        else
            TX_GOTO(tx_str_printf(&differ, "class input value %s and checkpoint value %s for %s do not match%s; ", mine,
                                  other, f->name, f->flags));
    }
    if (differ.len)
        st = TX_FAIL(TX_ERR_ARG,
                     "OptimizerParamScheduler: %siterations are counted in samples; give "
                     "--override-opt_param-scheduler to go on with the flags, or "
                     "--use-checkpoint-opt_param-scheduler to go on with the checkpoint's values",
                     differ.data);
    else if (choice == TX_SCHEDULE_SAVED)
        *s = theirs;
out:
    tx_str_free(&differ);
    return st;
}
