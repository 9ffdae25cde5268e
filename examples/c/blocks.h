/* The block manager of a paged KV cache, with prefix caching.

   A block is in exactly one place: the free list (no content), the evictable list (idle, but its content can still
   be hit) or the tables of live sequences. Both lists are doubly linked through arrays, so that a block can leave
   from the middle; so are the buckets of the hash table. Nothing is allocated for a block after the pool is made. */

#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NONE UINT32_MAX /* no block */

typedef struct {
    uint32_t head, tail; /* the oldest and the newest block */
    uint32_t *next, *prev;
    uint32_t length;
} List;

typedef struct Sequence {
    struct Sequence *next;
    char *id;
    uint32_t *tokens, *table;
    uint64_t *keys; /* of its full blocks */
    size_t num_tokens, num_blocks, num_keys, capacity;
    size_t num_cached; /* tokens that were hits when it was allocated */
} Sequence;

typedef struct {
    uint32_t num_blocks, block_size;
    bool enable_prefix_cache;
    bool hits_whole_prompt; /* the planted bug: no token is left to compute */
    List free_list, evictable;
    uint32_t *ref;       /* how many tables hold the block */
    uint64_t *key;       /* what the block holds: the hash of its whole prefix; 0 for nothing */
    uint64_t *mapped_as; /* the key under which the hash table finds the block; 0 if it does not */
    uint32_t *bucket, *next_in_bucket;
    Sequence *sequences; /* those that are live, the newest first */
} Blocks;

typedef enum { OK, OUT_OF_BLOCKS, SEQUENCE_EXISTS, UNKNOWN_SEQUENCE, EMPTY_PROMPT, POSITION_OUT_OF_RANGE } Status;

/* NULL if a size is 0. */
Blocks *blocks_new(uint32_t num_blocks, uint32_t block_size, bool enable_prefix_cache);
void blocks_delete(Blocks *blocks);

/* Start a sequence: share the cached blocks of its prefix, take new ones for the rest. An operation that does not
   end in OK has changed nothing. */
Status blocks_allocate(Blocks *blocks, const char *id, const uint32_t *tokens, size_t num_tokens);
/* Add a token; its slot is block * block_size + offset. */
Status blocks_append(Blocks *blocks, const char *id, uint32_t token, uint64_t *slot);
Status blocks_free(Blocks *blocks, const char *id);
Status blocks_slot(const Blocks *blocks, const char *id, size_t pos, uint64_t *slot);

/* A coarse check that ignores hits: true means that blocks_allocate succeeds. */
bool blocks_can_allocate(const Blocks *blocks, size_t num_tokens);
uint32_t blocks_num_free(const Blocks *blocks);
/* The live sequence of that id, or NULL. O(number of live sequences). */
Sequence *blocks_find(const Blocks *blocks, const char *id);

#endif
