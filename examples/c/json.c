#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct {
    const char *at;
} Reader;

static Json *fail(Json *value) {
    json_delete(value);
    return NULL;
}

static void skip_space(Reader *reader) { reader->at += strspn(reader->at, " \t\r\n"); }

static bool accept(Reader *reader, const char *text) {
    size_t length = strlen(text);
    if (strncmp(reader->at, text, length) != 0) return false;
    reader->at += length;
    return true;
}

static int hex4(Reader *reader) {
    int code = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        const char *digits = "0123456789abcdef", *found;
        char c = *reader->at;
        if (c >= 'A' && c <= 'F') c += 'a' - 'A';
        if (c == 0 || (found = strchr(digits, c)) == NULL) return -1;
        code = code * 16 + (int)(found - digits);
    }
    return code;
}

static char *put_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* One escape, after its backslash; NULL if it is none. \u0000 is refused: strings end with a zero here. */
static char *read_escape(Reader *reader, char *out) {
    const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t", *found;
    char c = *reader->at++;
    if (c != 'u') {
        if (c == 0 || (found = strchr(from, c)) == NULL) return NULL;
        *out++ = to[found - from];
        return out;
    }
    int code = hex4(reader);
    if (code >= 0xd800 && code < 0xdc00) { /* the first half of a pair */
        int low = accept(reader, "\\u") ? hex4(reader) : -1;
        if (low < 0xdc00 || low > 0xdfff) return NULL;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code <= 0 || (code >= 0xdc00 && code < 0xe000)) {
        return NULL;
    }
    return put_utf8(out, (uint32_t)code);
}

/* The string after its opening quote, or NULL. */
static char *read_string(Reader *reader) {
    char *string = malloc(strlen(reader->at) + 1), *out = string; /* an escape is longer than what it stands for */
    if (string == NULL) abort();
    while (*reader->at != '"') {
        char c = *reader->at++;
        if (c == '\\') {
            if ((out = read_escape(reader, out)) == NULL) break;
        } else if ((unsigned char)c < 0x20) { /* the end of the text, too */
            out = NULL;
            break;
        } else {
            *out++ = c;
        }
    }
    if (out == NULL) {
        free(string);
        return NULL;
    }
    *out = 0;
    reader->at++;
    return string;
}

static bool read_digits(Reader *reader) {
    size_t digits = strspn(reader->at, "0123456789");
    reader->at += digits;
    return digits > 0;
}

static bool read_number(Reader *reader, Json *value) {
    bool negative = accept(reader, "-");
    uint64_t number = 0, most = (uint64_t)INT64_MAX + negative;
    size_t digits = strspn(reader->at, "0123456789");
    if (digits == 0 || (digits > 1 && *reader->at == '0')) return false;
    for (; digits > 0; digits--, reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (number > (most - digit) / 10) return false;
        number = number * 10 + digit;
    }
    value->kind = JSON_INTEGER;
    value->integer = negative ? (int64_t)(0 - number) : (int64_t)number;
    if (accept(reader, ".")) {
        value->kind = JSON_FRACTION; /* what it is worth, nobody asks */
        if (!read_digits(reader)) return false;
    }
    if (accept(reader, "e") || accept(reader, "E")) {
        value->kind = JSON_FRACTION;
        if (!accept(reader, "+")) accept(reader, "-");
        return read_digits(reader);
    }
    return true;
}

static Json *read_value(Reader *reader, int depth);

/* The members of an array or an object, after its opening bracket. */
static Json *read_members(Reader *reader, Json *value, const char *close, int depth) {
    Json **end = &value->first;
    skip_space(reader);
    if (accept(reader, close)) return value;
    do {
        char *name = NULL;
        skip_space(reader);
        if (value->kind == JSON_OBJECT) {
            if (!accept(reader, "\"") || (name = read_string(reader)) == NULL) return fail(value);
            skip_space(reader);
            if (!accept(reader, ":")) {
                free(name);
                return fail(value);
            }
        }
        Json *member = read_value(reader, depth + 1);
        if (member == NULL) {
            free(name);
            return fail(value);
        }
        member->name = name;
        *end = member;
        end = &member->next;
        value->count++;
        skip_space(reader);
    } while (accept(reader, ","));
    return accept(reader, close) ? value : fail(value);
}

static Json *read_value(Reader *reader, int depth) {
    Json *value = calloc(1, sizeof *value);
    if (value == NULL) abort();
    skip_space(reader);
    if (depth > MAX_DEPTH) return fail(value);
    if (accept(reader, "null")) return value;
    value->kind = JSON_BOOL;
    value->integer = 1;
    if (accept(reader, "true")) return value;
    value->integer = 0;
    if (accept(reader, "false")) return value;
    value->kind = JSON_STRING;
    if (accept(reader, "\"")) return (value->string = read_string(reader)) ? value : fail(value);
    value->kind = JSON_ARRAY;
    if (accept(reader, "[")) return read_members(reader, value, "]", depth);
    value->kind = JSON_OBJECT;
    if (accept(reader, "{")) return read_members(reader, value, "}", depth);
    return read_number(reader, value) ? value : fail(value);
}

Json *json_read(const char *text) {
    Reader reader = {text};
    Json *value = read_value(&reader, 0);
    skip_space(&reader);
    return value != NULL && *reader.at != 0 ? fail(value) : value;
}

void json_delete(Json *value) {
    while (value != NULL) {
        Json *next = value->next;
        json_delete(value->first);
        free(value->name);
        free(value->string);
        free(value);
        value = next;
    }
}

const Json *json_get(const Json *object, const char *name) {
    if (object == NULL || object->kind != JSON_OBJECT) return NULL;
    const Json *member = object->first;
    while (member != NULL && strcmp(member->name, name) != 0) member = member->next;
    return member;
}
