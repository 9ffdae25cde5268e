/* Speaks kvaudit's protocol for the block manager of blocks.h: each line of standard input is answered with one line.

   cc -O2 -o harness harness.c json.c blocks.c
   ./harness [--bug]    with --bug, prompts are hit to their last token */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "json.h"

static Blocks *blocks;
static bool has_bug;

/* What is asked breaks the protocol: say so on standard error, which is the harness's own, and end. */
static void give_up(const char *what) {
    fprintf(stderr, "harness: %s\n", what);
    exit(1);
}

/* --- reading ---------------------------------------------------------------------------------------------- */

static const Json *member(const Json *object, const char *name, JsonKind kind) {
    const Json *value = json_get(object, name);
    if (value == NULL || value->kind != kind) {
        fprintf(stderr, "harness: the field \"%s\" is missing or of the wrong kind\n", name);
        exit(1);
    }
    return value;
}

static const char *text(const Json *object, const char *name) { return member(object, name, JSON_STRING)->string; }

static bool is_token(const Json *value) {
    return value->kind == JSON_INTEGER && value->integer >= 0 && value->integer <= UINT32_MAX;
}

/* The token ids of an array, to be freed; NULL if they cannot even be written down in C. */
static uint32_t *read_tokens(const Json *array) {
    uint32_t *tokens = malloc((array->count + 1) * sizeof *tokens), *out = tokens;
    if (tokens == NULL) abort();
    for (const Json *item = array->first; item != NULL; item = item->next) {
        if (!is_token(item)) {
            free(tokens);
            return NULL;
        }
        *out++ = (uint32_t)item->integer;
    }
    return tokens;
}

/* --- writing ---------------------------------------------------------------------------------------------- */

static void put_string(const char *string) {
    putchar('"');
    for (; *string; string++) {
        if (*string == '"' || *string == '\\') printf("\\%c", *string);
        else if ((unsigned char)*string < 0x20) printf("\\u%04x", *string);
        else putchar(*string);
    }
    putchar('"');
}

static void put_blocks(const uint32_t *numbers, size_t count) {
    putchar('[');
    for (size_t i = 0; i < count; i++) printf("%s%" PRIu32, i ? "," : "", numbers[i]);
    putchar(']');
}

static void put_list(const char *name, const List *list) {
    printf("\"%s\":[", name);
    for (uint32_t block = list->head; block != NONE; block = list->next[block])
        printf("%s%" PRIu32, block == list->head ? "" : ",", block);
    printf("],");
}

/* A key is any string: it is only compared with other keys. */
static void put_key(uint64_t key) {
    if (key) printf("\"%016" PRIx64 "\"", key);
    else printf("null");
}

static void put_cached(const Sequence *sequence) { printf("%zu", sequence->num_cached); }
static void put_table(const Sequence *sequence) { put_blocks(sequence->table, sequence->num_blocks); }
static void put_tokens(const Sequence *sequence) { put_blocks(sequence->tokens, sequence->num_tokens); }
static void put_keys(const Sequence *sequence) {
    putchar('[');
    for (size_t i = 0; i < sequence->num_keys; i++) {
        if (i) putchar(',');
        put_key(sequence->keys[i]);
    }
    putchar(']');
}

/* An object with something of each live sequence. */
static void put_each(const char *name, void put(const Sequence *)) {
    printf("\"%s\":{", name);
    for (const Sequence *sequence = blocks->sequences; sequence != NULL; sequence = sequence->next) {
        put_string(sequence->id);
        putchar(':');
        put(sequence);
        if (sequence->next) putchar(',');
    }
    printf("}");
}

static void put_observed(void) {
    printf("{\"outcome\":\"observed\",\"num_free_blocks\":%" PRIu32 ",", blocks_num_free(blocks));
    put_each("tables", put_table);
    putchar(',');
    put_each("cached", put_cached);
    printf(",\"state\":{");
    put_list("free", &blocks->free_list);
    put_list("evictable", &blocks->evictable);
    printf("\"ref\":");
    put_blocks(blocks->ref, blocks->num_blocks);
    printf(",\"block_hash\":[");
    for (uint32_t block = 0; block < blocks->num_blocks; block++) {
        if (block) putchar(',');
        put_key(blocks->key[block]);
    }
    printf("],\"hash_to_block\":{");
    bool is_first = true;
    for (uint32_t block = 0; block < blocks->num_blocks; block++) {
        if (blocks->mapped_as[block] == 0) continue;
        if (!is_first) putchar(',');
        is_first = false;
        put_key(blocks->mapped_as[block]);
        printf(":%" PRIu32, block);
    }
    printf("},");
    put_each("tables", put_table);
    putchar(',');
    put_each("tokens", put_tokens);
    putchar(',');
    put_each("hashes", put_keys);
    putchar(',');
    put_each("cached", put_cached);
    printf("}}");
}

/* --- operations ------------------------------------------------------------------------------------------- */

static void put_raised(Status status) {
    const char *names[] = {[SEQUENCE_EXISTS] = "SequenceExists",
                           [UNKNOWN_SEQUENCE] = "UnknownSequence",
                           [EMPTY_PROMPT] = "EmptyPrompt",
                           [POSITION_OUT_OF_RANGE] = "PositionOutOfRange"};
    if (status == OUT_OF_BLOCKS) printf("{\"outcome\":\"refused\"}");
    else printf("{\"outcome\":\"raised\",\"error\":\"%s\"}", names[status]);
}

static void put_number(Status status, uint64_t number) {
    if (status == OK) printf("{\"outcome\":\"returned\",\"value\":%" PRIu64 "}", number);
    else put_raised(status);
}

static void put_nothing(Status status) {
    if (status == OK) printf("{\"outcome\":\"returned\"}");
    else put_raised(status);
}

static void allocate(const char *seq, const Json *array) {
    uint32_t *tokens = read_tokens(array);
    if (tokens == NULL) {
        printf("{\"outcome\":\"unsupported\"}");
        return;
    }
    Status status = blocks_allocate(blocks, seq, tokens, array->count);
    free(tokens);
    if (status != OK) {
        put_raised(status);
        return;
    }
    printf("{\"outcome\":\"returned\",\"value\":");
    put_table(blocks_find(blocks, seq));
    putchar('}');
}

static void append(const char *seq, const Json *token) {
    uint64_t slot = 0;
    if (!is_token(token)) {
        printf("{\"outcome\":\"unsupported\"}");
        return;
    }
    Status status = blocks_append(blocks, seq, (uint32_t)token->integer, &slot);
    put_number(status, slot);
}

static void get_slot(const char *seq, int64_t pos) {
    uint64_t slot = 0;
    Status status = pos < 0 ? POSITION_OUT_OF_RANGE : blocks_slot(blocks, seq, (size_t)pos, &slot);
    put_number(status, slot);
}

/* A raw call, for misuse. What cannot be written down in C (a token id of -1, an iterator that fails) is answered
   with "unsupported". */
static void call(const char *method, const Json *args, const Json *fail_at) {
    const Json *first = args->first, *second = first ? first->next : NULL;
    const char *seq = first && first->kind == JSON_STRING ? first->string : "";
    if (fail_at != NULL && fail_at->kind != JSON_NULL) printf("{\"outcome\":\"unsupported\"}");
    else if (!strcmp(method, "allocate") && second && second->kind == JSON_ARRAY) allocate(seq, second);
    else if (!strcmp(method, "append_slot") && second) append(seq, second);
    else if (!strcmp(method, "slot") && second) get_slot(seq, second->integer);
    else if (!strcmp(method, "free")) put_nothing(blocks_free(blocks, seq));
    else if (!strcmp(method, "num_cached_tokens") || !strcmp(method, "block_table"))
        put_nothing(blocks_find(blocks, seq) ? OK : UNKNOWN_SEQUENCE);
    else printf("{\"outcome\":\"unsupported\"}");
}

static void execute(const Json *operation) {
    const char *op = text(operation, "op");
    if (!strcmp(op, "allocate")) allocate(text(operation, "seq"), member(operation, "tokens", JSON_ARRAY));
    else if (!strcmp(op, "append")) append(text(operation, "seq"), member(operation, "token", JSON_INTEGER));
    else if (!strcmp(op, "free")) put_nothing(blocks_free(blocks, text(operation, "seq")));
    else if (!strcmp(op, "slot")) get_slot(text(operation, "seq"), member(operation, "pos", JSON_INTEGER)->integer);
    else if (!strcmp(op, "can_allocate")) {
        int64_t num_tokens = member(operation, "num_tokens", JSON_INTEGER)->integer;
        bool fits = num_tokens >= 0 && blocks_can_allocate(blocks, (size_t)num_tokens);
        printf("{\"outcome\":\"returned\",\"value\":%s}", fits ? "true" : "false");
    } else if (!strcmp(op, "observe")) put_observed();
    else if (!strcmp(op, "scribble")) put_nothing(OK); /* the manager was given a copy, and gave none of its own */
    else if (!strcmp(op, "call"))
        call(text(operation, "method"), member(operation, "args", JSON_ARRAY), json_get(operation, "fail_at"));
    else give_up("an unknown operation");
}

/* --- messages --------------------------------------------------------------------------------------------- */

static void start(void) {
    printf("{\"type\":\"started\",\"name\":\"blocks.c\",\"protocol\":1,\"profile\":\"strict\",\"capabilities\":["
           "\"allocate\",\"append_slot\",\"free\",\"slot\",\"can_allocate\",\"num_free_blocks\","
           "\"num_cached_tokens\",\"block_table\",\"observe\"]}");
}

static void open_pool(const Json *pool) {
    int64_t num_blocks = member(pool, "num_blocks", JSON_INTEGER)->integer;
    int64_t block_size = member(pool, "block_size", JSON_INTEGER)->integer;
    bool is_possible = 0 < num_blocks && num_blocks < NONE && 0 < block_size && block_size <= UINT32_MAX;
    blocks_delete(blocks);
    blocks = NULL;
    if (is_possible) {
        bool cache = member(pool, "enable_prefix_cache", JSON_BOOL)->integer;
        blocks = blocks_new((uint32_t)num_blocks, (uint32_t)block_size, cache);
        blocks->hits_whole_prompt = has_bug;
        printf("{\"type\":\"opened\"}");
    } else {
        printf("{\"type\":\"failed\",\"error\":\"InvalidArgument\",\"message\":\"a pool has blocks, and they have tokens\"}");
    }
}

static void run(const Json *program) {
    if (blocks == NULL) give_up("no pool is open");
    printf("{\"type\":\"ran\",\"outcomes\":[");
    for (const Json *operation = program->first; operation != NULL; operation = operation->next) {
        execute(operation);
        if (operation->next) putchar(',');
    }
    printf("]}");
}

int main(int count, char **arguments) {
    char *line = NULL;
    size_t capacity = 0;
    has_bug = count > 1 && !strcmp(arguments[1], "--bug");
    while (getline(&line, &capacity, stdin) > 0) {
        Json *message = json_read(line);
        if (message == NULL) give_up("a line that is no JSON");
        const char *type = text(message, "type");
        bool is_last = !strcmp(type, "stop");
        if (!strcmp(type, "start")) start();
        else if (!strcmp(type, "open")) open_pool(member(message, "pool", JSON_OBJECT));
        else if (!strcmp(type, "run")) run(member(message, "program", JSON_ARRAY));
        else if (!is_last) give_up("an unknown message");
        json_delete(message);
        if (is_last) break;
        putchar('\n');
        fflush(stdout); /* or the answer waits in a buffer, and the auditor waits for the answer */
    }
    blocks_delete(blocks);
    free(line);
    return 0;
}
