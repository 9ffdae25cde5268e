/* A small and strict JSON reader: one value a text, no number beyond 64 bits, nothing after the value. */

#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_FRACTION, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

typedef struct Json {
    JsonKind kind;
    int64_t integer;   /* of an integer; 0 or 1 of a boolean */
    char *string;      /* of a string, in UTF-8 */
    char *name;        /* its name, if it is in an object */
    struct Json *next; /* its neighbour in an array or an object */
    struct Json *first;
    size_t count;
} Json;

/* The value of a text, or NULL if it is no JSON. */
Json *json_read(const char *text);
void json_delete(Json *value);
/* The member of an object, or NULL. */
const Json *json_get(const Json *object, const char *name);

#endif
