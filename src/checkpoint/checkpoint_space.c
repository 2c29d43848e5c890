/* checkpoint_space.c - how much of a disk a run's checkpoints take, asked before there are any. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"

int64_t tx_checkpoint_numel(const tx_params *ps, const tx_fragments *kept)
{
    int64_t n = 0;
    for (int k = tx__fragment_count(ps, kept), i = 0; i < k; i++) {
        tx_fragment s = tx__fragment_at(ps, kept, i);
        const tx_param *p = &ps->param[s.row];
        int64_t real = tx_param_n_real(p), end = s.first + s.numel < real ? s.first + s.numel : real;
        if (p->counted && end > s.first) n += end - s.first;
    }
    return n;
}

int64_t tx_checkpoint_parts_numel(const tx_params *ps, const tx_fragments *kept, const tx_ckpt_part *part, int n_parts)
{
    int64_t n = 0;
    for (int i = 0; i < n_parts; i++)
        n += tx_checkpoint_numel(tx__part_rows(&part[i], ps), tx__part_kept(&part[i], kept));
    return n;
}

/* With --keep-last the first saves add to what lies there, until that many are left; from then on each one is removed
 * again, but only behind the save that makes it superfluous. */
int64_t tx_checkpoint_more(int64_t n_saves, int64_t keep_last, int64_t there)
{
    int64_t most = keep_last + 1 > there ? keep_last + 1 - there : 1;
    return keep_last && most < n_saves ? most : n_saves;
}

tx_status tx_checkpoint_free_space(const char *dir, uint64_t *bytes)
{
    struct statvfs v;
    if (TX_RETRY(statvfs(dir, &v)))
        return TX_FAIL(TX_ERR_IO, "%s: cannot ask for free space: %s", dir, strerror(errno));
    *bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return TX_OK;
}
