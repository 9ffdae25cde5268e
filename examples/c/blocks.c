#include "blocks.h"

#include <stdlib.h>
#include <string.h>

static void *make(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (memory == NULL) abort();
    return memory;
}

/* --- lists of blocks -------------------------------------------------------------------------------------- */

static List list_new(uint32_t num_blocks) {
    return (List){NONE, NONE, make(num_blocks, sizeof(uint32_t)), make(num_blocks, sizeof(uint32_t)), 0};
}

static void list_push(List *list, uint32_t block) {
    list->next[block] = NONE;
    list->prev[block] = list->tail;
    if (list->tail == NONE) list->head = block;
    else list->next[list->tail] = block;
    list->tail = block;
    list->length++;
}

static void list_remove(List *list, uint32_t block) {
    uint32_t next = list->next[block], prev = list->prev[block];
    if (prev == NONE) list->head = next;
    else list->next[prev] = next;
    if (next == NONE) list->tail = prev;
    else list->prev[next] = prev;
    list->length--;
}

/* --- what a block holds ----------------------------------------------------------------------------------- */

/* The key of a block: a hash of its tokens and of the key of the block before it, so of its whole prefix. 64 bits
   of FNV-1a keep an example short. They are not safe between tenants: whoever can send prompts can make two with
   one key, and reads the KV of another. Use SHA-256 there. */
static uint64_t chain(uint64_t parent, const uint32_t *tokens, uint32_t count) {
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 8; i++) hash = (hash ^ (parent >> 8 * i & 0xff)) * 1099511628211u;
    for (uint32_t t = 0; t < count; t++)
        for (int i = 0; i < 4; i++) hash = (hash ^ (tokens[t] >> 8 * i & 0xff)) * 1099511628211u;
    return hash ? hash : 1; /* 0 is for nothing */
}

/* The block that is hit for a key, or NONE. */
static uint32_t lookup(const Blocks *blocks, uint64_t key) {
    uint32_t block = blocks->bucket[key % blocks->num_blocks];
    while (block != NONE && blocks->mapped_as[block] != key) block = blocks->next_in_bucket[block];
    return block;
}

static void unmap(Blocks *blocks, uint32_t block) {
    if (blocks->mapped_as[block] == 0) return; /* a copy: the mapping belongs to the original, and stays */
    uint32_t *at = &blocks->bucket[blocks->mapped_as[block] % blocks->num_blocks];
    while (*at != block) at = &blocks->next_in_bucket[*at];
    *at = blocks->next_in_bucket[block];
    blocks->mapped_as[block] = 0;
}

/* Give a full block its key. Where another block has that content already, the older mapping stays. */
static void enter(Blocks *blocks, uint32_t block, uint64_t key) {
    blocks->key[block] = key;
    if (lookup(blocks, key) != NONE) return;
    uint32_t *bucket = &blocks->bucket[key % blocks->num_blocks];
    blocks->mapped_as[block] = key;
    blocks->next_in_bucket[block] = *bucket;
    *bucket = block;
}

/* --- blocks come and go ----------------------------------------------------------------------------------- */

/* A block for new content: the head of the free list, else the oldest evictable one. There is one. */
static uint32_t take(Blocks *blocks) {
    List *list = blocks->free_list.length ? &blocks->free_list : &blocks->evictable;
    uint32_t block = list->head;
    list_remove(list, block);
    blocks->key[block] = 0;
    unmap(blocks, block);
    blocks->ref[block] = 1;
    return block;
}

static void hit(Blocks *blocks, uint32_t block) {
    if (blocks->ref[block]++ == 0) list_remove(&blocks->evictable, block);
}

static void release(Blocks *blocks, uint32_t block) {
    if (--blocks->ref[block] == 0) list_push(blocks->key[block] ? &blocks->evictable : &blocks->free_list, block);
}

/* --- operations ------------------------------------------------------------------------------------------- */

Blocks *blocks_new(uint32_t num_blocks, uint32_t block_size, bool enable_prefix_cache) {
    if (num_blocks == 0 || block_size == 0) return NULL;
    Blocks *blocks = make(1, sizeof *blocks);
    blocks->num_blocks = num_blocks;
    blocks->block_size = block_size;
    blocks->enable_prefix_cache = enable_prefix_cache;
    blocks->free_list = list_new(num_blocks);
    blocks->evictable = list_new(num_blocks);
    blocks->ref = make(num_blocks, sizeof(uint32_t));
    blocks->key = make(num_blocks, sizeof(uint64_t));
    blocks->mapped_as = make(num_blocks, sizeof(uint64_t));
    blocks->bucket = make(num_blocks, sizeof(uint32_t));
    blocks->next_in_bucket = make(num_blocks, sizeof(uint32_t));
    for (uint32_t block = 0; block < num_blocks; block++) {
        blocks->bucket[block] = NONE;
        list_push(&blocks->free_list, block);
    }
    return blocks;
}

static void sequence_delete(Sequence *sequence) {
    free(sequence->id);
    free(sequence->tokens);
    free(sequence->table);
    free(sequence->keys);
    free(sequence);
}

void blocks_delete(Blocks *blocks) {
    if (blocks == NULL) return;
    while (blocks->sequences != NULL) {
        Sequence *next = blocks->sequences->next;
        sequence_delete(blocks->sequences);
        blocks->sequences = next;
    }
    void *parts[] = {blocks->free_list.next, blocks->free_list.prev, blocks->evictable.next, blocks->evictable.prev,
                     blocks->ref, blocks->key, blocks->mapped_as, blocks->bucket, blocks->next_in_bucket};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(blocks);
}

Sequence *blocks_find(const Blocks *blocks, const char *id) {
    Sequence *sequence = blocks->sequences;
    while (sequence != NULL && strcmp(sequence->id, id) != 0) sequence = sequence->next;
    return sequence;
}

uint32_t blocks_num_free(const Blocks *blocks) { return blocks->free_list.length + blocks->evictable.length; }

static size_t blocks_for(const Blocks *blocks, size_t num_tokens) {
    return num_tokens / blocks->block_size + (num_tokens % blocks->block_size != 0);
}

bool blocks_can_allocate(const Blocks *blocks, size_t num_tokens) {
    return blocks_for(blocks, num_tokens) <= blocks_num_free(blocks);
}

/* A sequence with room for one token more; the caller fills it in. A growing one doubles. */
static void reserve(Sequence *sequence, size_t num_tokens) {
    if (num_tokens <= sequence->capacity) return;
    size_t capacity = num_tokens * 2; /* enough for as many blocks and keys, too */
    sequence->tokens = realloc(sequence->tokens, capacity * sizeof *sequence->tokens);
    sequence->table = realloc(sequence->table, capacity * sizeof *sequence->table);
    sequence->keys = realloc(sequence->keys, capacity * sizeof *sequence->keys);
    if (!sequence->tokens || !sequence->table || !sequence->keys) abort();
    sequence->capacity = capacity;
}

static void add_key(Blocks *blocks, Sequence *sequence, size_t block) {
    uint64_t parent = block ? sequence->keys[block - 1] : 0;
    sequence->keys[block] = chain(parent, sequence->tokens + block * blocks->block_size, blocks->block_size);
    sequence->num_keys = block + 1;
}

Status blocks_allocate(Blocks *blocks, const char *id, const uint32_t *tokens, size_t num_tokens) {
    if (num_tokens == 0) return EMPTY_PROMPT;
    if (blocks_find(blocks, id) != NULL) return SEQUENCE_EXISTS;

    Sequence *sequence = make(1, sizeof *sequence);
    reserve(sequence, num_tokens);
    memcpy(sequence->tokens, tokens, num_tokens * sizeof *tokens);
    sequence->num_tokens = num_tokens;
    if (blocks->enable_prefix_cache)
        for (size_t i = 0; i < num_tokens / blocks->block_size; i++) add_key(blocks, sequence, i);

    /* The longest run of hits; one token at least is left to compute. */
    size_t limit = (num_tokens - (blocks->hits_whole_prompt ? 0 : 1)) / blocks->block_size;
    size_t hits = 0, idle_hits = 0;
    for (; hits < limit && hits < sequence->num_keys; hits++) {
        uint32_t block = lookup(blocks, sequence->keys[hits]);
        if (block == NONE) break;
        sequence->table[hits] = block;
        if (blocks->ref[block] == 0) idle_hits++; /* counted as free, but it cannot be taken as well */
    }
    size_t needed = blocks_for(blocks, num_tokens) - hits;
    if (needed > blocks_num_free(blocks) - idle_hits) {
        sequence_delete(sequence);
        return OUT_OF_BLOCKS;
    }

    /* Nothing is refused from here on. All hits first, so that none is evicted; all new blocks before any gets a key. */
    for (size_t i = 0; i < hits; i++) hit(blocks, sequence->table[i]);
    for (size_t i = hits; i < hits + needed; i++) sequence->table[i] = take(blocks);
    for (size_t i = hits; i < sequence->num_keys; i++) enter(blocks, sequence->table[i], sequence->keys[i]);
    sequence->num_blocks = hits + needed;
    sequence->num_cached = hits * blocks->block_size;
    sequence->id = make(strlen(id) + 1, 1);
    strcpy(sequence->id, id);
    sequence->next = blocks->sequences;
    blocks->sequences = sequence;
    return OK;
}

static uint64_t slot_of(const Blocks *blocks, const Sequence *sequence, size_t pos) {
    uint64_t block = sequence->table[pos / blocks->block_size];
    return block * blocks->block_size + pos % blocks->block_size;
}

Status blocks_append(Blocks *blocks, const char *id, uint32_t token, uint64_t *slot) {
    Sequence *sequence = blocks_find(blocks, id);
    if (sequence == NULL) return UNKNOWN_SEQUENCE;
    size_t pos = sequence->num_tokens;
    reserve(sequence, pos + 1);
    if (pos / blocks->block_size == sequence->num_blocks) {
        if (blocks_num_free(blocks) == 0) return OUT_OF_BLOCKS; /* nothing has been written yet */
        sequence->table[sequence->num_blocks++] = take(blocks);
    }
    sequence->tokens[sequence->num_tokens++] = token;
    if (blocks->enable_prefix_cache && sequence->num_tokens % blocks->block_size == 0) {
        size_t last = sequence->num_blocks - 1;
        add_key(blocks, sequence, last);
        enter(blocks, sequence->table[last], sequence->keys[last]);
    }
    *slot = slot_of(blocks, sequence, pos);
    return OK;
}

Status blocks_free(Blocks *blocks, const char *id) {
    Sequence *sequence = blocks_find(blocks, id);
    if (sequence == NULL) return UNKNOWN_SEQUENCE;
    /* The last block first: what fewest prompts share is then the first to be evicted. */
    for (size_t i = sequence->num_blocks; i-- > 0;) release(blocks, sequence->table[i]);
    Sequence **at = &blocks->sequences;
    while (*at != sequence) at = &(*at)->next;
    *at = sequence->next;
    sequence_delete(sequence);
    return OK;
}

Status blocks_slot(const Blocks *blocks, const char *id, size_t pos, uint64_t *slot) {
    const Sequence *sequence = blocks_find(blocks, id);
    if (sequence == NULL) return UNKNOWN_SEQUENCE;
    if (pos >= sequence->num_tokens) return POSITION_OUT_OF_RANGE;
    *slot = slot_of(blocks, sequence, pos);
    return OK;
}
