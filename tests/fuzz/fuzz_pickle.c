/* fuzz_pickle.c - a hostile pickle by itself. What is read can be written, and reading that gives the same again. */
#include "torch/pickle.h"

#include "fuzz.h"

enum { MAX_STORAGES = 8, MAX_NUMEL = 4096 };

static tx_pt_storage storages[MAX_STORAGES];
static unsigned char numbers[MAX_NUMEL * 8];

/* Storages named '0' to '7', each of the type and size of its first use, as in an archive that has them. */
static tx_status find(void *user, const tx__storage_id *id, const tx_pt_storage **out)
{
    (void)user;
    size_t k = (size_t)(*id->key - '0');
    if (k >= MAX_STORAGES || id->key[1] || id->numel > MAX_NUMEL) return TX_FAIL(TX_ERR_FORMAT, "no such storage");
    tx_pt_storage *s = &storages[k];
    if (!s->data) *s = (tx_pt_storage){ .dtype = id->dtype, .numel = id->numel, .data = numbers };
    if (s->dtype != id->dtype || s->numel != id->numel) return TX_FAIL(TX_ERR_FORMAT, "another storage");
    *out = s;
    return TX_OK;
}

static tx__storage_list written;

static tx_status find_written(void *user, const tx__storage_id *id, const tx_pt_storage **out)
{
    (void)user;
    size_t k = (size_t)strtoul(id->key, NULL, 10);
    FUZZ_CHECK(k < written.n && written.item[k]->dtype == id->dtype && written.item[k]->numel == id->numel);
    *out = written.item[k];
    return TX_OK;
}

static const tx_py *read_one(tx_py_arena *a, const void *data, size_t size, tx__find_storage *how, size_t *taken)
{
    size_t n_values = 0;
    const tx_py *root = NULL;
    tx__pickle_in in = { "model.pt", "data.pkl", data, size, how, NULL, &n_values, NULL };
    return fuzz_ok(tx__pickle_read(&root, taken, a, &in)) ? root : NULL;
}

static void write_one(tx_str *out, const tx_py *root)
{
    tx__storage_list_free(&written);
    written = (tx__storage_list){ 0 };
    FUZZ_CHECK(tx__pickle_write(out, &written, "model.pt", root) == TX_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_py_arena *a;
    tx_str first = { 0 }, second = { 0 };
    size_t taken;
    memset(storages, 0, sizeof storages);
    FUZZ_CHECK(!tx_py_arena_create(&a));
    const tx_py *root = read_one(a, data, size, find, &taken);
    if (root) {
        FUZZ_CHECK(taken <= size);
        write_one(&first, root);
        root = read_one(a, first.data, first.len, find_written, &taken);
        FUZZ_CHECK(root && taken == first.len);
        write_one(&second, root);
        FUZZ_CHECK(first.len == second.len && !memcmp(first.data, second.data, first.len));
    }
    tx__storage_list_free(&written);
    written = (tx__storage_list){ 0 };
    tx_str_free(&first);
    tx_str_free(&second);
    tx_py_arena_destroy(a);
    return 0;
}
