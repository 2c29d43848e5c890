/* tokenizer_kinds.c - the table of tokenizers, made of the rows in kinds/tokenizers.h. */
#include "token/tokenizer_kinds.h"

#include <string.h>

#include "token/tokenizer.h"

const tx_tokenizer_kind tx__tokenizer_not_built = { 0 };

/* By tx_tokenizer_type; [0] is NULL. */
static const tx_tokenizer_kind *const kinds[] = {
#define KIND(constant, word, kind, ...) [constant] = &tx__tokenizer_##kind,
    TX_TOKENIZERS(KIND)
};

tx_status tx_tokenizer_open_type(tx_tokenizer **out, enum tx_tokenizer_type type, const tx_tokenizer_files *from)
{
    if (!tx_tokenizer_is_built(type))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--tokenizer-type %s is not built yet; use " TX_TOKENIZERS_BUILT,
                       tx_tokenizer_type_word(type));
    return kinds[type]->open(out, from);
}

const char *tx_tokenizer_file_name(int i)
{
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    const char *seen[4 * N_KINDS];
    int n = 0;
    for (int k = 0; k < N_KINDS; k++) {
        const tx_tokenizer_traits t = tx_tokenizer_traits_of((enum tx_tokenizer_type)k);
        const char *const name[] = { t.vocab_file, t.merge_file, t.model_file, t.beside };
        for (int f = 0; f < 4; f++) {
            int same = 0;
            while (name[f] && same < n && strcmp(seen[same], name[f]) != 0) same++;
            if (!name[f] || same < n) continue;
            if (n == i) return name[f];
            seen[n++] = name[f];
        }
    }
    return NULL;
}

tx_vocab_kind tx_tokenizer_vocab_kind(enum tx_tokenizer_type type)
{
    return kinds[type]->learner->kind;
}
