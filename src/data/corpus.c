/* corpus.c - cutting inputs into records. */
#include "data/corpus.h"

#include <glob.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "data/arrow_stream.h"
#include "data/corpus_source.h"
#include "data/saved_dataset.h"

#define LOOK_MAX ((size_t)1 << 20) /* a file that begins with more blanks than this is plain text */

struct tx_corpus {
    tx_corpus_opts opts;
    tx_names inputs; /* with patterns replaced by what they match */
    size_t next_input;
    int64_t n_records;
    tx_corpus_position where; /* without the input being read */

    /* the input being read; src NULL: none */
    tx_text_source *src;
    tx_arrow *arrow; /* what is read of it, in the place of its bytes; or NULL */
    const char *name;
    bool json, file_done;
    int64_t n_before; /* n_records when it was opened */
    int64_t line;     /* lines read so far */
    tx_str head;      /* bytes read to tell JSON from text; the first block */
    const char *block;
    size_t n, at;  /* bytes in block, next byte */
    size_t nl;     /* next '\n' at or after `at`, n if there is none; looked for again when behind `at` */
    bool after_cr; /* a '\n' that comes next belongs to the line end already seen */

    tx_str record;
};

/* ---- lines ---- */

static tx_status next_block(tx_corpus *c)
{
    TX_TRY(tx__text_source_read(c->src, &c->block, &c->n));
    c->at = 0;
    const char *nl = c->n ? memchr(c->block, '\n', c->n) : NULL;
    c->nl = nl ? (size_t)(nl - c->block) : c->n;
    return TX_OK;
}

/* Appends the next line, without its end, to the record; *more = false when there is none. */
static tx_status next_line(tx_corpus *c, bool *more)
{
    *more = false;
    for (;;) {
        if (c->at == c->n) TX_TRY(next_block(c));
        if (c->at == c->n) break;
        const char *p = c->block + c->at;
        if (c->after_cr) {
            c->after_cr = false;
            if (*p == '\n') {
                c->at++;
                continue;
            }
        }
        if (c->nl < c->at) { /* at a line end found before: this is where the next '\n' is */
            const char *nl = memchr(p, '\n', c->n - c->at);
            c->nl = nl ? (size_t)(nl - c->block) : c->n;
        }
        *more = true;
        const char *cr = memchr(p, '\r', c->nl - c->at);
        size_t end = cr ? (size_t)(cr - c->block) : c->nl;
        TX_TRY(tx_str_append(&c->record, p, end - c->at));
        c->at = end;
        if (end == c->n) continue; /* the line goes on in the next block */
        c->after_cr = cr != NULL;
        c->at++;
        break;
    }
    c->line += *more;
    return TX_OK;
}

static bool is_blank(const char *p, size_t n)
{
    while (n && (*p == ' ' || *p == '\t')) p++, n--;
    return n == 0;
}

/* ---- plain text ---- */

static tx_status next_whole_file(tx_corpus *c, bool *more)
{
    for (;;) {
        TX_TRY(tx_str_append(&c->record, c->block + c->at, c->n - c->at));
        c->at = c->n;
        TX_TRY(next_block(c));
        if (c->at == c->n) break;
    }
    *more = c->record.len > 0;
    return TX_OK;
}

/* *first becomes the line on which the document begins. */
static tx_status next_paragraph(tx_corpus *c, bool *more, int64_t *first)
{
    size_t end = 0; /* of the document's last line */
    for (;;) {
        size_t begin = c->record.len;
        TX_TRY(next_line(c, more));
        bool blank = is_blank(c->record.data ? c->record.data + begin : "", c->record.len - begin);
        if (*more && blank && !end) { /* blank lines before it */
            c->record.len = 0;
            continue;
        }
        if (!*more || blank) break;
        if (!end) *first = c->line;
        end = c->record.len;
        TX_TRY(tx_str_puts(&c->record, "\n"));
    }
    *more = end > 0;
    c->record.len = end;
    return TX_OK;
}

/* ---- inputs ---- */

/* Whether the line at p is JSON as it stands. */
static bool is_json_line(const char *p, const char *end)
{
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    json_t *value = json_loadb(p, (size_t)((nl ? nl : end) - p), JSON_ALLOW_NUL, NULL);
    json_decref(value);
    return value != NULL;
}

/* An array is no document, but JSON that its user has to be told about; ["Foo" by Bar] is text. */
static bool looks_like_json(const tx_corpus *c)
{
    const char *p = c->head.data, *end = p + c->head.len;
    if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3; /* the JSON reader will complain about it */
    while (p < end && strchr(" \t\r\n", *p) && *p) p++;
    if (p == end || *p != '[') return p < end && *p == '{';
    const char *first = p + 1;
    while (first < end && *first == ' ') first++;
    return first < end && (*first == '{' || (*first == '"' && is_json_line(p, end)));
}

static bool named_json(const char *name)
{
    static const char *const suffix[] = { ".json", ".jsonl", ".ndjson" };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        size_t k = strlen(suffix[i]);
        if (n >= k && !strcasecmp(name + n - k, suffix[i])) return true;
    }
    return false;
}

/* What was found, for the log. The name decides nothing, but a person who reads it should know. */
static void say_kind(const tx_corpus *c)
{
    static const char *const document[] = {
        [TX_TEXT_FILE] = "the file", [TX_TEXT_BLANK_LINE] = "what lies between blank lines", [TX_TEXT_LINE] = "a line"
    };
    if (c->arrow)
        tx_info("%s: rows of an Arrow file", c->name);
    else if (c->json)
        tx_info("%s: JSON lines", c->name);
    else if (c->n && named_json(c->name))
        tx_warn("%s: does not begin with {, so it is plain text in spite of its name; a document is %s", c->name,
                document[c->opts.text_split]);
    else if (c->n)
        tx_info("%s: plain text, a document is %s (--text-split)", c->name, document[c->opts.text_split]);
}

/* Reads until there is something other than blanks, which tells what the file is. */
static tx_status look(tx_corpus *c)
{
    c->head.len = 0;
    TX_TRY(tx_str_reserve(&c->head, 1));
    c->block = c->head.data;
    for (size_t blanks = 0; blanks == c->head.len && blanks < LOOK_MAX;) {
        TX_TRY(next_block(c));
        if (!c->n) break;
        TX_TRY(tx_str_append(&c->head, c->block, c->n));
        while (blanks < c->head.len && strchr(" \t\r\n", c->head.data[blanks]) && c->head.data[blanks]) blanks++;
    }
    c->json = looks_like_json(c);
    if (c->head.len >= 4 && !memcmp(c->head.data, "PAR1", 4))
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "%s: is a Parquet file, which is not read; in Python, "
            "pandas.read_parquet(...).to_json(..., orient='records', lines=True) makes JSON lines of it, and "
            "datasets.load_dataset('parquet', data_files=...)['train'].save_to_disk(...) a folder that --input takes",
            c->name);
    if (c->head.len > 262 && !memcmp(c->head.data + 257, "ustar", 5))
        return TX_FAIL(TX_ERR_FORMAT, "%s: is a tar archive; unpack it and give the files in it", c->name);
    c->block = c->head.data;
    c->n = c->head.len;
    c->at = 0;
    const char *nl = memchr(c->block, '\n', c->n);
    c->nl = nl ? (size_t)(nl - c->block) : c->n;
    if (!c->json && c->n >= 3 && !memcmp(c->block, "\xef\xbb\xbf", 3)) c->at = 3; /* a byte order mark is not text */
    return TX_OK;
}

static const char *shown_name(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

static tx_status open_next(tx_corpus *c)
{
    const char *path = c->inputs.name[c->next_input++];
    c->name = shown_name(path);
    c->line = 0;
    c->after_cr = c->file_done = false;
    c->n_before = c->n_records;
    TX_TRY(tx__text_source_open(&c->src, path, c->name));
    tx_info("Opening %s", c->name);
    TX_TRY(look(c));
    if (tx__arrow_is(c->head.data, c->head.len)) {
        if (!strcmp(path, "-"))
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: is an Arrow file; give its name to --input", c->name);
        TX_TRY(tx__arrow_open(&c->arrow, path));
    }
    say_kind(c);
    return TX_OK;
}

static int64_t taken(const tx_corpus *c)
{
    return c->arrow ? tx__arrow_taken(c->arrow) : tx__text_source_taken(c->src);
}

static void close_input(tx_corpus *c)
{
    c->where.done += taken(c);
    tx__arrow_close(c->arrow);
    tx__text_source_close(c->src);
    c->arrow = NULL;
    c->src = NULL;
    if (c->n_records == c->n_before) tx_warn("%s: holds no document", c->name);
}

/* ---- the list of inputs ---- */

static tx_status add_input(tx_corpus *c, const char *path);

/* A folder: one that datasets has saved, or a mistake. */
static tx_status add_folder(tx_corpus *c, const char *dir)
{
    tx_names files;
    TX_TRY(tx__saved_dataset_files(dir, &files));
    tx_status st = TX_OK;
    if (!files.n)
        st =
            TX_FAIL(TX_ERR_IO,
                    "%s: is a directory, and none that save_to_disk of Hugging Face's datasets made; give the files in "
                    "it to --input, as in '%s/*.jsonl'",
                    dir, dir);
    for (size_t i = 0; i < files.n && !st; i++) st = add_input(c, files.name[i]);
    tx_names_free(&files);
    return st;
}

static tx_status add_input(tx_corpus *c, const char *path)
{
    struct stat sb;
    bool is_stdin = !strcmp(path, "-");
    for (size_t i = 0; is_stdin && i < c->inputs.n; i++)
        if (!strcmp(c->inputs.name[i], "-"))
            return TX_FAIL(TX_ERR_ARG, "--input names - (standard input) twice; name it once");
    if (!is_stdin && tx_path_is_dir(path)) return add_folder(c, path);
    if (!is_stdin && access(path, R_OK)) return TX_FAIL(TX_ERR_IO, "%s: may not be read; check its permissions", path);
    if (is_stdin || stat(path, &sb) || !S_ISREG(sb.st_mode))
        c->where.total = -1;
    else if (c->where.total >= 0)
        c->where.total += sb.st_size;
    TX_TRY(tx_realloc(&c->inputs.name, c->inputs.n + 1, sizeof *c->inputs.name, "the inputs"));
    TX_TRY(tx_memdup0(&c->inputs.name[c->inputs.n], path, strlen(path), "an input's name"));
    c->inputs.n++;
    return TX_OK;
}

/* Whoever starts triax without a shell, or quotes the pattern as Megatron's --input wants it. */
static tx_status add_matches(tx_corpus *c, const char *pattern)
{
    glob_t g;
    int rc = glob(pattern, 0, NULL, &g); /* sorted bytewise in the C locale, which triax does not leave */
    if (rc == GLOB_NOSPACE) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the files of %s", pattern);
    if (rc) return TX_FAIL(TX_ERR_NOTFOUND, "--input %s: no file matches this pattern", pattern);
    tx_status st = TX_OK;
    for (size_t i = 0; i < g.gl_pathc && !st; i++) st = add_input(c, g.gl_pathv[i]);
    globfree(&g);
    return st;
}

static tx_status list_inputs(tx_corpus *c)
{
    for (int i = 0; i < c->opts.n_inputs; i++) {
        const char *path = c->opts.inputs[i];
        if (!strcmp(path, "-") || tx_path_exists(path))
            TX_TRY(add_input(c, path));
        else if (strpbrk(path, "*?["))
            TX_TRY(add_matches(c, path));
        else
            return TX_FAIL(TX_ERR_NOTFOUND, "%s: no such file", path);
    }
    return TX_OK;
}

tx_status tx_corpus_open(tx_corpus **out, const tx_corpus_opts *opts)
{
    if (opts->n_inputs < 1) return TX_FAIL(TX_ERR_ARG, "--input is missing: give files, or - for standard input");
    tx_corpus *c;
    TX_TRY(tx_alloc(&c, 1, sizeof *c, "a corpus"));
    c->opts = *opts;
    tx_status st = list_inputs(c);
    if (st)
        tx_corpus_close(c);
    else
        *out = c;
    return st;
}

tx_corpus_position tx_corpus_where(const tx_corpus *c)
{
    tx_corpus_position w = c->where;
    if (c->src) w.done += taken(c);
    if (w.total < 0) w.total = 0;
    return w;
}

/* ---- reading ---- */

static tx_status next_of_input(tx_corpus *c, tx_record *r, bool *more)
{
    c->record.len = 0;
    int64_t first = c->line + 1;
    if (c->arrow) {
        TX_TRY(tx__arrow_next(c->arrow, &c->record, more));
        c->json = true;
        c->line++;
    } else if (c->json || c->opts.text_split == TX_TEXT_LINE) {
        TX_TRY(next_line(c, more));
    } else if (c->opts.text_split == TX_TEXT_BLANK_LINE) {
        TX_TRY(next_paragraph(c, more, &first));
    } else {
        *more = false;
        if (!c->file_done) TX_TRY(next_whole_file(c, more));
        c->file_done = true;
    }
    *r = (tx_record){
        c->record.data ? c->record.data : "", c->record.len, c->name, first, c->json, c->opts.pass_surrogates
    };
    return TX_OK;
}

tx_status tx_corpus_next(tx_corpus *c, tx_record *record, bool *more)
{
    for (;;) {
        if (!c->src && c->next_input == c->inputs.n) break;
        if (!c->src) TX_TRY(open_next(c));
        TX_TRY(next_of_input(c, record, more));
        if (*more) {
            c->n_records++;
            return TX_OK;
        }
        close_input(c);
    }
    *more = false;
    return TX_OK;
}

void tx_corpus_close(tx_corpus *c)
{
    if (!c) return;
    tx__arrow_close(c->arrow);
    tx__text_source_close(c->src);
    tx_names_free(&c->inputs);
    tx_str_free(&c->head);
    tx_str_free(&c->record);
    tx_free(c);
}
