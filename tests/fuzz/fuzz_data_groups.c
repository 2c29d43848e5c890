/* fuzz_data_groups.c - the text of a weighted split: what is taken has a name, paths, ranges and weights. */
#include "data/data_groups.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_data_group g = { 0 };
    if (!fuzz_ok(tx_data_group_parse(&g, "train-weighted-split-paths", (const char *)data, size))) return 0;
    FUZZ_CHECK(g.name && g.n >= 1);
    for (int i = 0; i < g.n; i++) {
        int64_t bound[2];
        FUZZ_CHECK(g.set[i].path && g.set[i].range && g.set[i].weight >= 0);
        FUZZ_CHECK(!tx_split_range(bound, g.set[i].range, 1000) && bound[0] >= 0 && bound[0] <= bound[1]);
        FUZZ_CHECK(bound[1] <= 1000);
    }
    tx_data_group_free(&g);
    return 0;
}
