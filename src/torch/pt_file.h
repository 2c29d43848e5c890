/* pt_file.h - an open .pt file, shared by what opens and what reads it. */
#ifndef TX_TORCH_PT_FILE_H
#define TX_TORCH_PT_FILE_H

#include "torch/pickle.h"
#include "torch/zip.h"

/* A storage by its key; in the older container also a part of another one. */
typedef struct tx__pt_stored {
    const char *key;
    tx_pt_storage *storage;
    struct tx__pt_stored *whole; /* this is elements [at, ...) of it; NULL: it is stored itself */
    int64_t at;
} tx__pt_stored;

struct tx_pt {
    char *path;
    tx_map file; /* all of it; of that this archive is */
    tx_map map;
    tx__zip zip; /* no entries: the older container */
    bool checks; /* entries are compared with their CRC-32 before they are used */
    const char *folder;
    size_t n_folder; /* every entry's name begins with it */
    tx_py_arena *arena;
    const tx_py *root;
    size_t n_values;
    tx__pt_stored **stored;
    size_t n_stored, cap_stored;
    tx_hash_table by_key;
};

/* The storage with this key, made if it is new (`whole` and `at` as above). TX_ERR_FORMAT when it is there and is
 * another: torch has one dtype and size for each. */
tx_status tx__pt_storage_put(tx_pt *f, const char *key, tx_pt_dtype dtype, int64_t numel, tx__pt_stored **out);
tx__pt_stored *tx__pt_storage_get(const tx_pt *f, const char *key); /* NULL if there is none */

/* Against the CRC-32 that is stored, if one is; of a storage once. TX_ERR_FORMAT names the entry. */
tx_status tx__pt_check_entry(const tx_pt *f, const tx__zip_entry *e);
tx_status tx__pt_check_storage(const tx_pt *f, const tx_pt_storage *s);

/* The two containers: everything after mapping. */
tx_status tx__pt_open_zip(tx_pt *f);
tx_status tx__pt_open_legacy(tx_pt *f);

#endif
