/* checkpoint_save.c - writing a checkpoint so that a crash leaves the old one or the new one.
 *
 *      rank 0        .tmp-iter_0000010-<its pid>/                          made, when there is room for all shards
 *      every rank    .tmp-iter_0000010-<pid>/shard_<rank>.safetensors      fsynced; what is in it goes to rank 0
 *      rank 0        .tmp-iter_0000010-<pid>/vocab.json, ...               the tokenizer's, if there is one; fsynced
 *                    .tmp-iter_0000010-<pid>/manifest.json                 the same, then the folder
 *                    -> iter_0000010                                       rename, or exchange with the old one
 *                    fsync DIR
 *                    latest                                                published
 *                    latest_checkpointed_iteration.txt                     the same number, for scripts
 *
 *  The first line is begin, the second is write, which touches nothing but the job and so may run in another thread,
 * the others are finish. Until the last step `latest` names what it named before, and that folder is whole. Where the
 * file system cannot exchange two names (NFS, some cluster file systems) a replaced folder is set aside as
 * .old-iter_0000010 for the time between two renames; loading looks there, and the next save puts it back. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"

#define NO_MEMORY "not enough memory for a checkpoint's manifest"

/* A box of a tensor, one tensor of this rank's shard. */
typedef struct entry {
    char name[TX__NAME_CAP], key[TX__KEY_CAP];
    tx__saved of;
    tx__saved_piece box;
    int part;
    tx_fragment fragment; /* that it lies in */
    int64_t first;        /* element of the parameter's shard */
    int64_t width;        /* of the rows that it lies in */
} entry;

/* What was last moved into memory, of a part whose numbers are elsewhere. */
typedef struct window {
    float *buf; /* owned, TX_CKPT_WINDOW; NULL: no part is */
    const entry *of;
    int64_t first, n;
} window;

typedef struct tx_ckpt_save {
    char *dir; /* owned */
    tx_comm *group;
    const tx_params *ps;
    const tx_fragments *kept;
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    int n_parts;
    window window;
    entry *entry;     /* owned; part by part, in the order of the fragments */
    tx_st_spec *spec; /* owned; the same */
    size_t n;
    uint64_t need; /* bytes */
    bool made;     /* rank 0: the temporary folder is there */
    bool tagged;   /* the name is a client's */
    char file[64]; /* this rank's shard */
    char name[TX__ITER_CAP], tmp[TX__PATH_CAP], old[TX__PATH_CAP];
    int64_t iteration;
    json_t *manifest;                   /* rank 0: owned */
    const tx_ckpt_tokenizer *tokenizer; /* borrowed, or NULL */
    /* what write leaves to finish: how it went, why, and what the manifest says of the shard (Jansson's) */
    tx_status written;
    double seconds;
    char why[2048];
    char *text;
} job;

static tx_status sys_fail(const char *path, const char *doing)
{
    return TX_FAIL(TX_ERR_IO, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* ---- before writing ---- */

/* Also one that has ended and that nobody has asked for: where the first process of a container does not, it stays. */
static bool is_gone(pid_t pid)
{
    char path[64];
    tx_str stat = { 0 };
    if (kill(pid, 0)) return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (tx_file_read(path, 4096, &stat)) return false;
    const char *name_end = strrchr(stat.data, ')'); /* "pid (name) state ..." */
    bool ended = name_end && (!strncmp(name_end, ") Z", 3) || !strncmp(name_end, ") X", 3));
    tx_str_free(&stat);
    return ended;
}

/* ".tmp-iter_<i>-<pid>", or "latest.tmp-<pid>" and the like, of a process that is gone, or of this one (an earlier save
 * failed). */
static bool is_stale_temporary(const char *name)
{
    static const char *const begin[] = { TX__TMP_PREFIX, TX__LATEST ".tmp-", TX__TRACKER ".tmp-" };
    bool ours = false;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) ours |= !strncmp(name, begin[i], strlen(begin[i]));
    if (!ours) return false;
    char *end;
    long pid = strtol(strrchr(name, '-') + 1, &end, 10);
    if (*end || pid <= 0) return false; /* not a name of ours */
    return pid == (long)getpid() || is_gone((pid_t)pid);
}

/* A crash between two renames left ".old-iter_<i>": back to its name if that is free, else it has been replaced. */
static tx_status settle_old(const char *dir, const char *old_name, const char *old_path)
{
    char path[TX__PATH_CAP];
    const char *name = old_name + sizeof TX__OLD_PREFIX - 1;
    if (tx__is_step(TX_CKPT_DEEPSPEED, dir, name, path) || tx__is_step(TX_CKPT_MEGATRON, dir, name, path) ||
        tx__has_manifest(dir, name, path))
        return tx_remove_tree(old_path);
    return TX_RETRY(rename(old_path, path)) ? sys_fail(old_path, "rename to the name it was set aside from") : TX_OK;
}

/* A crash came between `latest` and the tracker. */
static tx_status mend_tracker(const char *dir)
{
    char path[TX__PATH_CAP], text[32];
    tx_str there = { 0 };
    tx__found_checkpoint place;
    TX_TRY(tx_path_join(path, sizeof path, dir, TX__LATEST));
    if (!tx_path_exists(path)) return TX_OK;
    tx_status st = tx__checkpoint_find(dir, &place);
    if (st == TX_ERR_NOMEM) return st;
    if (st || place.iteration < 0) return TX_OK; /* another program's, or under a tag */
    int n = snprintf(text, sizeof text, "%" PRId64, place.iteration);
    TX_TRY(tx_path_join(path, sizeof path, dir, TX__TRACKER));
    if (tx_path_exists(path)) st = tx_file_read(path, sizeof text, &there);
    bool same = !st && there.len == (size_t)n && !memcmp(there.data, text, there.len);
    tx_str_free(&there);
    if (st == TX_ERR_NOMEM) return st;
    return same ? TX_OK : tx__tracker_write(dir, place.iteration);
}

tx_status tx_checkpoint_clean_up(const char *dir)
{
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    tx_status st = TX_OK;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.name[i];
        char path[TX__PATH_CAP];
        int64_t iteration;
        TX_GOTO(tx_path_join(path, sizeof path, dir, name));
        if (is_stale_temporary(name)) {
            tx_info("%s: removing what an unfinished save left", path);
            TX_GOTO(tx_remove_tree(path));
        } else if (!strncmp(name, TX__OLD_PREFIX, sizeof TX__OLD_PREFIX - 1) &&
                   (tx__iter_parse(name + sizeof TX__OLD_PREFIX - 1, &iteration) ||
                    tx__step_parse(TX_CKPT_DEEPSPEED, name + sizeof TX__OLD_PREFIX - 1, &iteration) ||
                    tx__is_tag(name + sizeof TX__OLD_PREFIX - 1))) {
            TX_GOTO(settle_old(dir, name, path));
        }
    }
    st = mend_tracker(dir);
out:
    tx_names_free(&names);
    return st;
}

/* need: bytes of all ranks' shards. */
static tx_status check_space(const job *j, uint64_t need)
{
    uint64_t have;
    need += TX_CKPT_SPARE;
    TX_TRY(tx_checkpoint_free_space(j->dir, &have));
    if (have < need)
        return TX_FAIL(TX_ERR_IO,
                       "%s: iteration %s needs %.1f MB and %.1f MB are free; make room or save somewhere else", j->dir,
                       j->tagged ? j->name : j->name + 5, (double)need / 1e6, (double)have / 1e6);
    return TX_OK;
}

/* A piece of a parameter, saved whole, has the name and its number for a key; a box of it where that starts. */
static void name_entry(entry *e, const tx_ckpt_part *part, const tx_param *p, const tx_param_piece *box, int k, int n)
{
    snprintf(e->name, sizeof e->name, "%s.%s", part->name, p->name);
    if (k >= 0)
        snprintf(e->key, sizeof e->key, n > 1 ? "%s.%d" : "%s", e->name, k);
    else if (p->n_dims == 2)
        snprintf(e->key, sizeof e->key, "%s@%" PRId64 ",%" PRId64, e->name, box->start[0], box->start[1]);
    else
        snprintf(e->key, sizeof e->key, "%s@%" PRId64, e->name, box->start[0]);
}

static void add_entry(job *j, int part, const tx_fragment *s, const tx_param_piece *box, int k, int n)
{
    const tx_param *p = &tx__part_rows(&j->part[part], j->ps)->param[s->row];
    entry *e = &j->entry[j->n];
    name_entry(e, &j->part[part], p, box, k, n);
    e->of = (tx__saved){ .name = e->name, .n_dims = p->n_dims, .dim = { p->whole_logical, p->whole[1] } };
    e->box = (tx__saved_piece){ .key = e->key };
    memcpy(e->box.start, box->start, sizeof e->box.start);
    memcpy(e->box.size, box->size, sizeof e->box.size);
    e->part = part;
    e->fragment = *s;
    e->width = p->n_dims == 2 ? p->dim[1] : 1;
    e->first = box->at[0] * e->width + box->at[1];
    j->spec[j->n++] = (tx_st_spec){ e->key, TX_ST_F32, p->n_dims, { e->box.size[0], e->box.size[1] } };
}

/* The boxes of a fragment, of those that this rank saves; none of rows that pad the vocabulary. */
static size_t list_fragment(job *j, int part, const tx_fragment *s, bool only_count)
{
    const tx_param *p = &tx__part_rows(&j->part[part], j->ps)->param[s->row];
    tx_param_piece piece[TX_PARAM_MAX_PIECES], box[TX__CUT_MAX];
    size_t n_boxes = 0;
    if (!p->counted) return 0;
    for (int n = tx_param_pieces(p, piece), k = 0; k < n; k++) {
        int n_cut = tx__piece_cut(box, p, &piece[k], s->first, s->first + s->numel);
        bool whole = n_cut == 1 && !memcmp(box[0].size, piece[k].size, sizeof box[0].size);
        for (int i = 0; i < n_cut && !only_count; i++) add_entry(j, part, s, &box[i], whole ? k : -1, n);
        n_boxes += (size_t)n_cut;
    }
    return n_boxes;
}

static size_t list_part(job *j, int part, bool only_count)
{
    const tx_params *rows = tx__part_rows(&j->part[part], j->ps);
    const tx_fragments *kept = tx__part_kept(&j->part[part], j->kept);
    size_t n_boxes = 0;
    for (int n = tx__fragment_count(rows, kept), i = 0; i < n; i++) {
        tx_fragment s = tx__fragment_at(rows, kept, i);
        n_boxes += list_fragment(j, part, &s, only_count);
    }
    return n_boxes;
}

static tx_status list_tensors(job *j)
{
    size_t n = 0;
    for (int part = 0; part < j->n_parts; part++) n += list_part(j, part, true);
    TX_TRY(tx_alloc(&j->entry, n, sizeof *j->entry, "names of tensors"));
    TX_TRY(tx_alloc(&j->spec, n, sizeof *j->spec, "a list of tensors"));
    for (int part = 0; part < j->n_parts; part++) list_part(j, part, false);
    for (size_t i = 0; i < j->n; i++) {
        uint64_t bytes;
        TX_TRY(tx_st_spec_bytes(&j->spec[i], &bytes));
        j->need += bytes + bytes / TX__BLOCK_BYTES * 20 + 1024; /* its checksums; its entries in header and manifest */
    }
    for (int i = 0; i < j->n_parts; i++)
        if (!j->part[i].flat && !j->window.buf)
            TX_TRY(tx_alloc(&j->window.buf, TX_CKPT_WINDOW, sizeof(float), "a window of what is saved"));
    return TX_OK;
}

static tx_status make_paths(job *j, long pid)
{
    char name[TX__ITER_CAP + 32];
    snprintf(name, sizeof name, TX__OLD_PREFIX "%s", j->name);
    TX_TRY(tx_path_join(j->old, sizeof j->old, j->dir, name));
    snprintf(name, sizeof name, TX__TMP_PREFIX "%s-%ld", j->tagged ? j->name : j->name + 5, pid);
    return tx_path_join(j->tmp, sizeof j->tmp, j->dir, name);
}

/* Rank 0's: room for all, and the folder. */
static tx_status make_folder(job *j, uint64_t need)
{
    char path[TX__PATH_CAP];
    TX_TRY(tx_make_dirs(j->dir));
    TX_TRY(tx_path_join(path, sizeof path, j->dir, ".."));
    TX_TRY(tx_dir_sync(path)); /* DIR may be new: its own name has to last too */
    TX_TRY(tx_checkpoint_clean_up(j->dir));
    TX_TRY(check_space(j, need));
    if (TX_RETRY(mkdir(j->tmp, 0777))) return sys_fail(j->tmp, "create");
    j->made = true;
    return TX_OK;
}

/* Ends with every rank seeing the temporary folder. Its name has rank 0's process id: whoever cleans up asks on rank
 * 0's host. */
static tx_status prepare(job *j, tx_status st)
{
    struct {
        uint64_t need;
        long pid;
    } mine = { j->need, (long)getpid() }, *all = NULL;
    int n = tx_comm_size(j->group), rank = tx_comm_rank(j->group);
    if (!st) st = tx_alloc(&all, (size_t)n, sizeof *all, "a list of ranks");
    TX_GOTO(tx_comm_agree(j->group, st));
    TX_GOTO(tx_comm_gather(j->group, all, &mine, sizeof mine));
    st = make_paths(j, all[0].pid);
    for (int i = 1; i < n; i++) all[0].need += all[i].need;
    if (!st && rank == 0) st = make_folder(j, all[0].need);
    TX_GOTO(tx_comm_agree(j->group, st));
    if (!tx_path_is_dir(j->tmp))
        st = TX_FAIL(TX_ERR_IO,
                     "%s: rank %d does not see the folder that rank %d has made there; save to a file system that all "
                     "hosts share",
                     j->dir, tx_comm_world_rank(j->group, rank), tx_comm_world_rank(j->group, 0));
    st = tx_comm_agree(j->group, st);
out:
    tx_free(all);
    return st;
}

/* ---- writing ---- */

/* Has the window hold element i of the entry's fragment. */
static tx_status move_window(job *j, const entry *e, int64_t i)
{
    window *w = &j->window;
    const tx_fragment *s = &e->fragment;
    const tx_ckpt_part *part = &j->part[e->part];
    bool same = w->of && w->of->part == e->part && w->of->fragment.row == s->row && w->of->fragment.first == s->first;
    if (same && i >= w->first && i < w->first + w->n) return TX_OK;
    int64_t first = s->first + (i - s->first) / TX_CKPT_WINDOW * TX_CKPT_WINDOW, left = s->first + s->numel - first;
    *w = (window){ w->buf, e, first, left < TX_CKPT_WINDOW ? left : TX_CKPT_WINDOW };
    const tx_ckpt_window asked = { .part = e->part, .fragment = s, .first = first, .n = w->n, .buf = w->buf };
    return part->move(part->user, &asked, false);
}

/* Elements [first, first + n) of the shard that the entry is cut from. */
static tx_status put_elements(job *j, tx_st_writer *w, const entry *e, int64_t first, int64_t n)
{
    const tx_ckpt_part *part = &j->part[e->part];
    if (part->flat) {
        const float *x = tx__fragment_element(part, tx__part_rows(part, j->ps), &e->fragment, first);
        return tx_st_writer_put_f32(w, x, (size_t)n, TX_ST_F32);
    }
    while (n) {
        TX_TRY(move_window(j, e, first));
        int64_t at = first - j->window.first, k = j->window.n - at < n ? j->window.n - at : n;
        TX_TRY(tx_st_writer_put_f32(w, j->window.buf + at, (size_t)k, TX_ST_F32));
        first += k;
        n -= k;
    }
    return TX_OK;
}

static tx_status put_tensors(job *j, tx_st_writer *w)
{
    for (size_t i = 0; i < j->n; i++) {
        const entry *e = &j->entry[i];
        int64_t rows = e->box.size[0], cols = e->box.size[1];
        if (cols == e->width) { /* whole rows lie together */
            cols *= rows;
            rows = 1;
        }
        for (int64_t r = 0; r < rows; r++) TX_TRY(put_elements(j, w, e, e->first + r * e->width, cols));
    }
    tx_st_writer_end(w);
    return TX_OK;
}

static tx_status write_shard(job *j, tx__blocks *blocks)
{
    char path[TX__PATH_CAP];
    tx_writer file;
    tx_st_writer w;
    TX_TRY(tx_path_join(path, sizeof path, j->tmp, j->file));
    TX_TRY(tx_writer_open(&file, path));
    tx_status st = tx_st_writer_begin(&w, &file, j->spec, j->n, tx__blocks_update, blocks);
    if (!st) st = put_tensors(j, &w);
    if (!st) return tx_writer_commit(&file);
    tx_writer_abort(&file);
    return st;
}

/* Writes this rank's shard; *text (free) is what the manifest says of it. */
static tx_status write_part(job *j, char **text)
{
    tx__blocks *blocks = NULL;
    json_t *part = tx__manifest_part();
    tx_status st = part ? TX_OK : TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
    if (st) goto out;
    TX_GOTO(tx__blocks_create(&blocks));
    TX_GOTO(write_shard(j, blocks));
    TX_GOTO(tx__manifest_add_shard(part, j->file, blocks));
    for (size_t i = 0; i < j->n; i++) TX_GOTO(tx__manifest_add_piece(part, &j->entry[i].of, &j->entry[i].box, j->file));
    *text = json_dumps(part, JSON_COMPACT);
    if (!*text) st = TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
out:
    tx__blocks_destroy(blocks);
    json_decref(part);
    return st;
}

/* The ranks' texts into rank 0's manifest, one after the other, so that no rank has to have room for all. */
static tx_status collect_parts(const job *j, json_t *m, const char *text)
{
    int n = tx_comm_size(j->group), rank = tx_comm_rank(j->group);
    uint64_t mine = strlen(text), longest = 0, *len = NULL;
    char *buf = NULL;
    tx_status st = tx_alloc(&len, (size_t)n, sizeof *len, "a list of ranks");
    TX_GOTO(tx_comm_agree(j->group, st));
    TX_GOTO(tx_comm_gather(j->group, len, &mine, sizeof mine));
    for (int i = 0; i < n; i++)
        if (len[i] > longest) longest = len[i];
    TX_GOTO(tx_comm_agree(j->group, tx_alloc(&buf, (size_t)longest, 1, "a checkpoint's manifest")));
    tx_status merged = TX_OK;
    for (int i = 0; i < n; i++) {
        if (i == rank) memcpy(buf, text, (size_t)mine);
        TX_GOTO(tx_comm_spread(j->group, buf, (size_t)len[i], i));
        if (rank == 0 && !merged) merged = tx__manifest_merge(m, buf, (size_t)len[i]);
    }
    st = tx_comm_agree(j->group, merged);
out:
    tx_free(len);
    tx_free(buf);
    return st;
}

static tx_status write_manifest(const job *j, const json_t *m)
{
    char path[TX__PATH_CAP];
    tx_str text = { 0 };
    tx__manifest whole;
    tx_status st;
    if (j->tokenizer) TX_GOTO(tx_ckpt_tokenizer_write(j->tokenizer, j->tmp));
    TX_GOTO(tx_path_join(path, sizeof path, j->tmp, TX__MANIFEST_FILE));
    TX_GOTO(tx__manifest_text(m, &text));
    TX_GOTO(tx_file_publish(path, text.data, text.len));
    if (tx_comm_size(j->group) > 1 || j->kept) { /* what is kept twice or not at all must not become a checkpoint */
        TX_GOTO(tx__manifest_read(&whole, path));
        tx__manifest_deinit(&whole);
    }
    TX_GOTO(tx_dir_sync(j->tmp));
out:
    tx_str_free(&text);
    return st;
}

/* Where two names cannot be exchanged: sets aside what has the name. */
static tx_status set_aside(const char *dir, const char *tmp, const char *final, const char *name)
{
    char old[TX__PATH_CAP], old_name[TX__ITER_CAP + sizeof TX__OLD_PREFIX];
    snprintf(old_name, sizeof old_name, TX__OLD_PREFIX "%s", name);
    TX_TRY(tx_path_join(old, sizeof old, dir, old_name));
    if (TX_RETRY(rename(final, old))) return sys_fail(final, "set it aside");
    if (!TX_RETRY(rename(tmp, final))) return TX_OK;
    tx_status st = sys_fail(final, "rename a temporary to it");
    if (TX_RETRY(rename(old, final))) tx_warn("%s: cannot rename back to %s: %s", old, final, strerror(errno));
    return st;
}

tx_status tx_checkpoint_swap_in(const char *dir, const char *tmp, const char *name)
{
    char final[TX__PATH_CAP];
    TX_TRY(tx_path_join(final, sizeof final, dir, name));
    if (!tx_path_exists(final)) {
        if (TX_RETRY(rename(tmp, final))) return sys_fail(final, "rename a temporary to it");
    } else if (TX_RETRY(renameat2(AT_FDCWD, tmp, AT_FDCWD, final, RENAME_EXCHANGE))) {
        if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
            return sys_fail(final, "exchange it with a temporary");
        TX_TRY(set_aside(dir, tmp, final, name));
    }
    return tx_dir_sync(dir);
}

static tx_status publish_latest(const job *j)
{
    char path[TX__PATH_CAP], line[TX__ITER_CAP + 1];
    TX_TRY(tx_path_join(path, sizeof path, j->dir, TX__LATEST));
    int n = snprintf(line, sizeof line, "%s\n", j->name);
    return tx_file_publish(path, line, (size_t)n);
}

/* Removes what is no longer needed; that it could not be is worth a line, not a failure: the next save tries again. The
 * sentence of an error on its way to the caller is kept. */
static void remove_quietly(const char *path, tx_status st)
{
    char first[1024];
    snprintf(first, sizeof first, "%s", tx_last_error());
    if (!tx_remove_tree(path)) return;
    tx_warn("%s", tx_last_error());
    if (st) (void)TX_FAIL(st, "%s", first);
}

/* Rank 0's last steps; st is how writing went. */
static tx_status publish(const job *j, tx_status st)
{
    if (!st) st = tx_checkpoint_swap_in(j->dir, j->tmp, j->name);
    if (!st) st = publish_latest(j);
    remove_quietly(j->tmp, st);
    if (!st) remove_quietly(j->old, st);
    if (!st && tx__tracker_write(j->dir, j->iteration)) tx_warn("%s", tx_last_error()); /* the checkpoint is there */
    return st;
}

/* ---- the three steps ---- */

static void destroy(job *j)
{
    tx_free(j->dir);
    tx_free(j->entry);
    tx_free(j->spec);
    tx_free(j->window.buf);
    json_decref(j->manifest);
    free(j->text); /* Jansson's */
    tx_free(j);
}

/* What can be done before the ranks have spoken to each other. */
static tx_status set_up(job *j, const tx_ckpt_save_args *a)
{
    const tx_ckpt_state *state = a->state;
    tx__iter_name(j->name, state->iteration);
    j->iteration = state->iteration;
    j->tagged = state->tag;
    if (state->tag) TX_TRY(tx_checkpoint_check_tag(state->tag));
    if (state->tag) memcpy(j->name, state->tag, strlen(state->tag) + 1); /* fits: it is one */
    snprintf(j->file, sizeof j->file, "shard_%05d.safetensors", tx_comm_rank(j->group));
    TX_TRY(tx_memdup0(&j->dir, a->dir, strlen(a->dir), "a path"));
    if (tx_comm_rank(j->group)) return list_tensors(j);
    if (!(j->manifest = tx__manifest_begin(state, a->config))) return TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
    j->tokenizer = state->tokenizer;
    TX_TRY(tx__manifest_set_tokenizer(j->manifest, j->tokenizer));
    for (int i = 0; j->tokenizer && i < j->tokenizer->n_files; i++) j->need += j->tokenizer->file[i].text.len;
    return list_tensors(j);
}

tx_status tx_checkpoint_save_begin(tx_ckpt_save **out, const tx_ckpt_save_args *a)
{
    TX_ASSERT(a->state->iteration >= 0 && json_is_object(a->config) && a->n_parts <= TX_CKPT_MAX_PARTS);
    job *j = NULL;
    tx_status st = tx_comm_agree(a->group, tx_alloc(&j, 1, sizeof *j, "a checkpoint"));
    if (!st) {
        *j = (job){ .group = a->group, .ps = a->ps, .kept = a->kept, .n_parts = a->n_parts };
        for (int i = 0; i < a->n_parts; i++) {
            TX_ASSERT(a->part[i].flat || a->part[i].move);
            j->part[i] = a->part[i];
        }
        st = prepare(j, set_up(j, a));
    }
    if (!st)
        *out = j;
    else if (j)
        tx_checkpoint_save_abandon(j);
    return st;
}

void tx_checkpoint_save_write(tx_ckpt_save *j)
{
    double start = tx_clock();
    j->written = write_part(j, &j->text);
    j->seconds = tx_clock() - start;
    if (j->written) snprintf(j->why, sizeof j->why, "%s", tx_last_error());
}

/* By the rank's own thread, which the log knows. */
static void tell_written(const job *j)
{
    char folder[TX__PATH_CAP], path[TX__PATH_CAP];
    struct stat file;
    if (!tx_log_wants(TX_LOG_DEBUG)) return;
    if (!tx_path_join(folder, sizeof folder, j->dir, j->name) && !tx_path_join(path, sizeof path, folder, j->file) &&
        !stat(path, &file))
        tx_debug("checkpoint: wrote %s, %lld bytes in %zu tensors, in %.3f s", path, (long long)file.st_size, j->n,
                 j->seconds);
}

tx_status tx_checkpoint_save_finish(tx_ckpt_save *j)
{
    tx_comm *group = j->group;
    tx_status st = j->written ? TX_FAIL_LINES(j->written, "%s", j->why) : TX_OK;
    TX_GOTO(tx_comm_agree(group, st));
    TX_GOTO(collect_parts(j, j->manifest, j->text));
    if (tx_comm_rank(group) == 0) st = write_manifest(j, j->manifest);
out:
    if (j->made) st = publish(j, st);
    st = tx_comm_agree(group, st);
    if (!st) tell_written(j);
    destroy(j);
    return st;
}

void tx_checkpoint_save_abandon(tx_ckpt_save *j)
{
    if (j->made) remove_quietly(j->tmp, TX_ERR_STATE);
    destroy(j);
}

tx_status tx_checkpoint_save(const tx_ckpt_save_args *a)
{
    tx_ckpt_save *j;
    TX_TRY(tx_checkpoint_save_begin(&j, a));
    tx_checkpoint_save_write(j);
    return tx_checkpoint_save_finish(j);
}
