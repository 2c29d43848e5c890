/* kind.h - how the lists in src/kinds/ are read.
 *
 *  A list is a macro of rows X(CONSTANT, "word", ...): one row for each kind of its topic, with the word that options
 * and files have for it, and more columns where the topic needs them. TX_KIND(name, LIST) makes of a list
 *
 *      enum tx_NAME                            the kinds, from 1 on; 0 is "unset"
 *      tx_NAME_word(kind)                      its word; NULL of 0
 *      tx_NAME_of(word)                        the kind that has the word; 0: none
 *
 *  A switch over such an enum has no default, so that the compiler names the place that a new row needs. */
#ifndef TX_KINDS_KIND_H
#define TX_KINDS_KIND_H

#include <string.h>

/* clang-format off */
#define TX_KIND_PLACE(constant, ...) constant##__place,
#define TX_KIND_CONSTANT(constant, ...) constant = constant##__place + 1,
#define TX_KIND_CASE(constant, word, ...) case constant: return word;
#define TX_KIND_IF(constant, word, ...) if (!strcmp(text, word)) return constant;

#define TX_KIND(name, LIST)                                            \
    enum { LIST(TX_KIND_PLACE) };                                      \
    enum tx_##name { LIST(TX_KIND_CONSTANT) };                         \
    static inline const char *tx_##name##_word(enum tx_##name kind)    \
    {                                                                  \
        switch (kind) { LIST(TX_KIND_CASE) }                           \
        return NULL;                                                   \
    }                                                                  \
    static inline enum tx_##name tx_##name##_of(const char *text)      \
    {                                                                  \
        LIST(TX_KIND_IF)                                               \
        return (enum tx_##name)0;                                      \
    }
/* clang-format on */

#endif
