/* gpu_peak.c - what GPUs can do at most, by their vendors' data sheets: dense products on tensor or matrix cores. fp32
 * is true fp32, as products are made here, not TF32. */
#include <string.h>

#include "backend/backend.h"

/* The first row whose text is in the device's name counts. TFLOP/s; 0: there is no such rate, or it is not known here.
 */
static const struct {
    const char *name;
    double half, bf16, fp32;
} row[] = {
    { "V100-PCIE", 112, 0, 14 },      { "V100", 125, 0, 15.7 },
    { "A100", 312, 312, 19.5 },       { "H100 PCIe", 756, 756, 51 },
    { "H100 NVL", 835, 835, 60 },     { "H200 NVL", 835, 835, 60 },
    { "GH200", 989, 989, 67 },        { "H100", 989, 989, 67 },
    { "H200", 989, 989, 67 },         { "GB200", 0, 0, 0 }, /* clocked differently from system to system */
    { "B200", 2250, 2250, 0 },        { "MI210", 181, 181, 45.3 },
    { "MI250X", 191.5, 191.5, 47.9 }, /* of one of a module's two dies, which is what a rank has */
    { "MI300X", 1307, 1307, 163.4 },
};

double tx__gpu_peak_flops(const char *name, tx_dtype t)
{
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strstr(name, row[i].name))
            return 1e12 * (t == TX_F16 ? row[i].half : t == TX_BF16 ? row[i].bf16 : t == TX_F32 ? row[i].fp32 : 0);
    return 0;
}
