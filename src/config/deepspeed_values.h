/* deepspeed_values.h - values of DeepSpeed's JSON, for src/config/ only: of which type they are, and their text. */
#ifndef TX_CONFIG_DEEPSPEED_VALUES_H
#define TX_CONFIG_DEEPSPEED_VALUES_H

#include <jansson.h>
#include <stdbool.h>

typedef enum tx__ds_type { T_BOOL, T_NUMBER, T_STRING, T_LIST, T_OBJECT, T_ANY } tx__ds_type;

/* null or "auto": as if the key were left out. */
bool tx__ds_is_auto(const json_t *value);

bool tx__ds_fits(const json_t *value, tx__ds_type type);

/* What it is: "a number". */
const char *tx__ds_is(const json_t *value);

/* A number's or string's text for an option's parser, in buf or the string itself. 2e8 is whole there, too. */
const char *tx__ds_text(char buf[40], const json_t *value);

#endif
