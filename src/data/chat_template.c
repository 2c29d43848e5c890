/* chat_template.c - finding a chat template, and writing conversations with it. */
#include "data/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "data/tokenizer_config.h"

enum { MAX_FILE = 16 << 20, PATH_CAP = 4096 }; /* bytes */

static const char *const role_name[TX_CHAT_ROLES] = { "system", "user", "assistant" };

#define LIST_THEM "give --chat-template one of " TX_CHAT_TEMPLATES_HELP ", or a file with texts around each role"

static const tx_chat_texts *texts_of(enum tx_chat_kind kind)
{
#define TX_CHAT_TEXTS(constant, word, ...) [constant] = { __VA_ARGS__ },
    static const tx_chat_texts all[] = { TX_CHAT_TEMPLATES(TX_CHAT_TEXTS) };
#undef TX_CHAT_TEXTS
    return &all[kind];
}

/* ---------------------------------------------------------------- one of the kinds */

static void take_kind(tx_chat_template *t, enum tx_chat_kind kind)
{
    t->is = *texts_of(kind);
    snprintf(t->name, sizeof t->name, "%s", tx_chat_kind_word(kind));
    for (int r = 0; r < TX_CHAT_ROLES; r++) t->has_role[r] = true;
}

static bool is_of(const tx_chat_texts *kind, const char *jinja)
{
    if (!kind->tells[0]) return false;
    for (int i = 0; i < TX_CHAT_TELLS; i++)
        if ((kind->tells[i] && !strstr(jinja, kind->tells[i])) || (kind->lacks[i] && strstr(jinja, kind->lacks[i])))
            return false;
    return true;
}

static enum tx_chat_kind kind_of_jinja(const char *jinja)
{
#define TX_CHAT_TRY(constant, ...) \
    if (is_of(texts_of(constant), jinja)) return constant;
    TX_CHAT_TEMPLATES(TX_CHAT_TRY)
#undef TX_CHAT_TRY
    return (enum tx_chat_kind)0;
}

/* ---------------------------------------------------------------- a file of --chat-template */

/* object[key] as a text; left out it is NULL. */
static tx_status take_text(const char **out, const json_t *object, const char *key, const char *file)
{
    const json_t *v = json_object_get(object, key);
    *out = json_string_value(v);
    if (!v || *out) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "--chat-template %s: \"%s\" is not a text", file, key);
}

static tx_status take_bool(bool *out, const json_t *object, const char *key, const char *file)
{
    const json_t *v = json_object_get(object, key);
    *out = json_is_true(v);
    if (!v || json_is_boolean(v)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "--chat-template %s: \"%s\" is not true or false", file, key);
}

static tx_status only_keys(const json_t *object, const char *const *keys, const char *where, const char *file)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return TX_FAIL(TX_ERR_FORMAT, "--chat-template %s: %s is not a JSON object", file, where);
    json_object_foreach((json_t *)object, key, value)
    {
        int i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0) i++;
        if (!keys[i])
            return TX_FAIL(TX_ERR_FORMAT,
                           "--chat-template %s: %s has \"%s\", which a template here has not: there are begin, trim, "
                           "system_in_user, default_system, and system, user and assistant with prefix, end and suffix",
                           file, where, key);
    }
    return TX_OK;
}

static tx_status take_role(tx_chat_template *t, int r, tx_chat_role *role, const char *file)
{
    static const char *const keys[] = { "prefix", "end", "suffix", NULL };
    const json_t *v = json_object_get(t->file, role_name[r]);
    t->has_role[r] = v != NULL;
    if (!v) return TX_OK;
    TX_TRY(only_keys(v, keys, role_name[r], file));
    TX_TRY(take_text(&role->prefix, v, "prefix", file));
    TX_TRY(take_text(&role->end, v, "end", file));
    return take_text(&role->suffix, v, "suffix", file);
}

static tx_status take_members(tx_chat_template *t, const char *file)
{
    static const char *const keys[] = { "begin",  "trim", "system_in_user", "default_system",
                                        "system", "user", "assistant",      NULL };
    TX_TRY(only_keys(t->file, keys, "the file", file));
    TX_TRY(take_text(&t->is.begin, t->file, "begin", file));
    TX_TRY(take_text(&t->is.default_system, t->file, "default_system", file));
    TX_TRY(take_bool(&t->is.trim, t->file, "trim", file));
    TX_TRY(take_bool(&t->is.system_in_user, t->file, "system_in_user", file));
    TX_TRY(take_role(t, TX_CHAT_SYSTEM, &t->is.system, file));
    TX_TRY(take_role(t, TX_CHAT_USER, &t->is.user, file));
    TX_TRY(take_role(t, TX_CHAT_ASSISTANT, &t->is.assistant, file));
    if (!t->has_role[TX_CHAT_ASSISTANT])
        return TX_FAIL(TX_ERR_FORMAT, "--chat-template %s: there is no \"assistant\", whose messages are trained on",
                       file);
    return TX_OK;
}

static tx_status take_file(tx_chat_template *t, const char *file)
{
    tx_str text = { 0 };
    json_error_t e;
    tx_status st;
    TX_GOTO(tx_file_read(file, MAX_FILE, &text));
    snprintf(t->name, sizeof t->name, "%s", file);
    t->file = tx_json_load(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &e);
    if (!t->file)
        st = TX_FAIL(TX_ERR_FORMAT,
                     "--chat-template %s: line %d, column %d: %s; such a file is JSON with texts around each role, not "
                     "Jinja",
                     file, e.line, e.column, e.text);
    else
        st = take_members(t, file);
out:
    tx_str_free(&text);
    return st;
}

/* ---------------------------------------------------------------- what the tokenizer's folder says */

/* Of several templates, in a list of {"name", "template"}, that called default. */
static const char *jinja_of(const json_t *config)
{
    const json_t *v = json_object_get(config, "chat_template"), *one;
    size_t i;
    json_array_foreach(v, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default")) return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(v);
}

/* The file beside the tokenizer's; "" if its kind has none. */
static tx_status beside(const tx_config *cfg, char path[PATH_CAP])
{
    const char *name = tx_tokenizer_traits_of(cfg->tokenizer_type).beside;
    char file[PATH_CAP];
    *path = 0;
    if (!name || !cfg->tokenizer_model) return TX_OK;
    TX_TRY(tx__tokenizer_model_file(cfg, file, sizeof file));
    char *slash = strrchr(file, '/');
    if (slash) *slash = 0;
    return tx_path_join(path, PATH_CAP, slash ? file : ".", name);
}

/* What is not in tokenizer_config.json may lie in a file of its own, as newer versions of transformers write it. */
static tx_status read_jinja(tx_str *own, json_t **config, const char **jinja, const char *path)
{
    char file[PATH_CAP];
    tx_str text = { 0 };
    json_error_t e;
    *jinja = NULL;
    if (!tx_path_exists(path)) return TX_OK;
    TX_TRY(tx_file_read(path, MAX_FILE, &text));
    *config = tx_json_load(text.data ? text.data : "", text.len, JSON_DECODE_INT_AS_REAL, &e);
    tx_str_free(&text);
    if (!*config) return TX_FAIL(TX_ERR_FORMAT, "%s: line %d, column %d: %s", path, e.line, e.column, e.text);
    *jinja = jinja_of(*config);
    if (*jinja) return TX_OK;
    const char *slash = strrchr(path, '/');
    int n = snprintf(file, sizeof file, "%.*schat_template.jinja", slash ? (int)(slash + 1 - path) : 0, path);
    if (n < 0 || (size_t)n >= sizeof file || !tx_path_exists(file)) return TX_OK;
    TX_TRY(tx_file_read(file, MAX_FILE, own));
    *jinja = own->data;
    return TX_OK;
}

static tx_status recognise(tx_chat_template *t, const tx_config *cfg)
{
    char path[PATH_CAP];
    const char *jinja = NULL;
    json_t *config = NULL;
    tx_str own = { 0 };
    tx_status st;
    TX_GOTO(beside(cfg, path));
    TX_GOTO(read_jinja(&own, &config, &jinja, path));
    enum tx_chat_kind kind = jinja ? kind_of_jinja(jinja) : 0;
    if (kind)
        take_kind(t, kind);
    else if (jinja)
        st = TX_FAIL(TX_ERR_ARG, "%s: its chat_template is of no kind that is known here: " LIST_THEM, path);
    else if (*path)
        st = TX_FAIL(TX_ERR_ARG, "\"messages\" need a chat template, and %s has none: " LIST_THEM, path);
    else
        st = TX_FAIL(TX_ERR_ARG, "\"messages\" need a chat template: " LIST_THEM);
    if (kind) tx_info("chat template: %s, as %s has it", t->name, path);
out:
    tx_str_free(&own);
    json_decref(config);
    return st;
}

tx_status tx_chat_template_open(tx_chat_template *out, const tx_config *cfg)
{
    tx_chat_template t = { .file = NULL };
    const char *named = cfg->chat_template;
    enum tx_chat_kind kind = named ? tx_chat_kind_of(named) : 0;
    tx_status st = TX_OK;
    if (kind)
        take_kind(&t, kind);
    else if (named && !tx_path_exists(named))
        st = TX_FAIL(TX_ERR_NOTFOUND,
                     "--chat-template %s: there is no such file, nor a template of that name: " LIST_THEM, named);
    else
        st = named ? take_file(&t, named) : recognise(&t, cfg);
    if (st)
        tx_chat_template_close(&t);
    else
        *out = t;
    return st;
}

void tx_chat_template_close(tx_chat_template *t)
{
    json_decref(t->file);
    *t = (tx_chat_template){ .file = NULL };
}

/* ---------------------------------------------------------------- text with marks */

tx_status tx_marked_append(tx_marked_text *to, const char *text, size_t n, char mark)
{
    TX_TRY(tx_str_append(&to->text, text, n));
    TX_TRY(tx_str_reserve(&to->mark, to->mark.len + n));
    memset(to->mark.data + to->mark.len, mark, n);
    to->mark.len += n;
    to->mark.data[to->mark.len] = 0;
    return TX_OK;
}

void tx_marked_free(tx_marked_text *m)
{
    tx_str_free(&m->text);
    tx_str_free(&m->mark);
}

/* A text of the template. */
static tx_status put(tx_marked_text *to, const char *text, char mark)
{
    for (const char *s = text ? text : "", *eos; *s; s = eos) {
        eos = strstr(s, TX_CHAT_EOS);
        size_t n = eos ? (size_t)(eos - s) : strlen(s);
        TX_TRY(tx_marked_append(to, s, n, mark));
        if (!eos) break;
        TX_TRY(tx_marked_append(to, "", 1, (char)(mark | TX_MARK_EOD)));
        eos += strlen(TX_CHAT_EOS);
    }
    return TX_OK;
}

/* ---------------------------------------------------------------- messages */

typedef struct message {
    int role;
    const char *content;
    size_t n;
} message;

static bool is_blank(char c)
{
    return c && strchr(" \t\n\v\f\r", c);
}

/* A message that other text is part of has it at its beginning. */
static void trim(message *m, bool alone)
{
    while (m->n && is_blank(m->content[m->n - 1])) m->n--;
    while (alone && m->n && is_blank(*m->content)) m->content++, m->n--;
}

/* @system_before the system's text is part of this message, if that is a user's */
static tx_status read_message(message *m, const tx_chat_template *t, const json_t *from, size_t i, bool system_before)
{
    const json_t *content = json_object_get(from, "content");
    const char *role = json_string_value(json_object_get(from, "role"));
    int r = 0;
    if (!role) return TX_FAIL(TX_ERR_FORMAT, "message %zu has no \"role\" (system, user or assistant)", i + 1);
    while (r < TX_CHAT_ROLES && strcmp(role, role_name[r]) != 0) r++;
    if (r == TX_CHAT_ROLES)
        return TX_FAIL(TX_ERR_FORMAT, "message %zu has the role \"%.60s\": there are system, user and assistant", i + 1,
                       role);
    if (!t->has_role[r])
        return TX_FAIL(TX_ERR_FORMAT, "message %zu has the role \"%s\", which the chat template %s does not have",
                       i + 1, role, t->name);
    if (r == TX_CHAT_SYSTEM && i)
        return TX_FAIL(TX_ERR_FORMAT, "message %zu is of the system, which only the first one can be", i + 1);
    if (!json_is_string(content)) return TX_FAIL(TX_ERR_FORMAT, "message %zu has no \"content\" that is a text", i + 1);
    *m = (message){ r, json_string_value(content), json_string_length(content) };
    if (t->is.trim && !(r == TX_CHAT_SYSTEM && t->is.system_in_user)) trim(m, !system_before);
    if (r == TX_CHAT_ASSISTANT && !m->n)
        return TX_FAIL(TX_ERR_FORMAT, "message %zu, an answer, is empty: there is nothing to learn from it", i + 1);
    return TX_OK;
}

/* Which of a message's texts are answer. */
typedef struct answers {
    char prefix, content, suffix; /* marks; `content` is its end's, too */
} answers;

/* Of message i. */
static answers answers_of(const message *m, size_t i, size_t n_prompt)
{
    char all = TX_MARK_ANSWER;
    if (!n_prompt) return (answers){ 0, m->role == TX_CHAT_ASSISTANT ? all : 0, 0 };
    if (i < n_prompt) return (answers){ 0, 0, 0 };
    return (answers){ i > n_prompt ? all : 0, all, all };
}

static tx_status put_system(tx_marked_text *out, const tx_chat_template *t, const char *content, size_t n)
{
    const tx_chat_role *role = &t->is.system;
    TX_TRY(put(out, role->prefix, 0));
    TX_TRY(tx_marked_append(out, content, n, 0));
    TX_TRY(put(out, role->end, 0));
    return put(out, role->suffix, 0);
}

/* @system goes before its content; role TX_CHAT_ROLES: none */
static tx_status put_message(tx_marked_text *out, const tx_chat_template *t, const message *m, const message *system,
                             answers mark)
{
    const tx_chat_role *role = m->role == TX_CHAT_USER ? &t->is.user : &t->is.assistant;
    TX_TRY(put(out, role->prefix, mark.prefix));
    if (system->role == TX_CHAT_SYSTEM) TX_TRY(put_system(out, t, system->content, system->n));
    TX_TRY(tx_marked_append(out, m->content, m->n, mark.content));
    TX_TRY(put(out, role->end, mark.content));
    return put(out, role->suffix, mark.suffix);
}

/* The system's message: the first one, the template's own, or none. */
static tx_status find_system(message *m, const tx_chat_template *t, const json_t *messages)
{
    *m = (message){ .role = TX_CHAT_ROLES };
    TX_TRY(read_message(m, t, json_array_get(messages, 0), 0, false));
    if (m->role == TX_CHAT_SYSTEM) return TX_OK;
    const char *own = t->is.default_system;
    *m = own ? (message){ TX_CHAT_SYSTEM, own, strlen(own) } : (message){ .role = TX_CHAT_ROLES };
    return TX_OK;
}

tx_status tx_chat_render(const tx_chat_template *t, const json_t *messages, size_t n_prompt, tx_marked_text *out)
{
    message system, m;
    size_t n = json_array_size(messages), n_answers = 0;
    if (!n) return TX_FAIL(TX_ERR_FORMAT, "\"messages\" is not an array of messages");
    TX_TRY(find_system(&system, t, messages));
    TX_TRY(put(out, t->is.begin, 0));
    if (system.role == TX_CHAT_SYSTEM && !t->is.system_in_user) {
        TX_TRY(put_system(out, t, system.content, system.n));
        system.role = TX_CHAT_ROLES;
    }
    for (size_t i = 0; i < n; i++) {
        TX_TRY(read_message(&m, t, json_array_get(messages, i), i, system.role == TX_CHAT_SYSTEM));
        if (m.role == TX_CHAT_SYSTEM) continue;
        if (system.role == TX_CHAT_SYSTEM && m.role != TX_CHAT_USER)
            return TX_FAIL(TX_ERR_FORMAT, "message %zu: the chat template %s wants a user's message after the system's",
                           i + 1, t->name);
        if (n_prompt && i == n_prompt && m.role != TX_CHAT_ASSISTANT)
            return TX_FAIL(TX_ERR_FORMAT, "message %zu, which the completion begins with, is not of the assistant",
                           i + 1);
        TX_TRY(put_message(out, t, &m, &system, answers_of(&m, i, n_prompt)));
        system.role = TX_CHAT_ROLES;
        n_answers += m.role == TX_CHAT_ASSISTANT;
    }
    if (!n_answers) return TX_FAIL(TX_ERR_FORMAT, "no message is of the assistant: there is nothing to learn from it");
    return TX_OK;
}
