// The block manager of a paged KV cache, with prefix caching.
//
// A block is in exactly one place: the free list (no content), the evictable pool (idle, but its content can still be
// hit) or the tables of live sequences. A Map remembers the order in which its keys were added, so that one Map is
// both the evictable pool and the order in which it is evicted.

import { createHash } from "node:crypto";

export class OutOfBlocks extends Error {}
export class SequenceExists extends Error {}
export class UnknownSequence extends Error {}
export class InvalidArgument extends Error {}

const MAX_TOKEN = 2 ** 32 - 1;

export class BlockManager {
  constructor(numBlocks, blockSize, enablePrefixCache = true) {
    for (const size of [numBlocks, blockSize]) {
      if (!Number.isInteger(size) || size < 1) throw new InvalidArgument(`a size is an integer from 1, not ${size}`);
    }
    this.blockSize = blockSize;
    this.enablePrefixCache = enablePrefixCache;
    this.free_ = Array.from({ length: numBlocks }, (_, block) => block); // the next to be taken first
    this.evictable = new Map(); // block -> true, the oldest first
    this.ref = new Array(numBlocks).fill(0); // how many tables hold the block
    this.key = new Array(numBlocks).fill(null); // what the block holds: the hash of its whole prefix
    this.blockOf = new Map(); // key -> the block that a hit returns
    this.sequences = new Map(); // id -> { table, tokens, keys, cached }
  }

  get numFreeBlocks() {
    return this.free_.length + this.evictable.size;
  }

  // Start a sequence: share the cached blocks of its prefix, take new ones for the rest. Returns its block table.
  // An operation that throws has changed nothing.
  allocate(id, tokenIds) {
    const tokens = Array.from(tokenIds, checkedToken);
    if (tokens.length === 0) throw new InvalidArgument("a prompt has at least one token");
    if (this.sequences.has(id)) throw new SequenceExists(`${id} is live`);
    const keys = this.keysOf(tokens);
    const hits = this.match(keys, tokens.length);
    const needed = this.blocksFor(tokens.length) - hits.length;
    const idleHits = hits.filter((block) => this.ref[block] === 0).length; // count as free, and cannot be taken
    if (needed > this.numFreeBlocks - idleHits) throw new OutOfBlocks(`${needed} blocks are needed`);

    // Nothing is refused from here on. All hits first, so that none is evicted; all new blocks before any gets a key.
    for (const block of hits) this.hit(block);
    const table = [...hits];
    for (let i = 0; i < needed; i++) table.push(this.take());
    for (let i = hits.length; i < keys.length; i++) this.enter(table[i], keys[i]);
    this.sequences.set(id, { table, tokens, keys, cached: hits.length * this.blockSize });
    return [...table];
  }

  // Add a token, and return its slot: block * blockSize + offset.
  appendSlot(id, tokenId) {
    const sequence = this.live(id);
    const { table, tokens, keys } = sequence;
    const token = checkedToken(tokenId);
    if (tokens.length === table.length * this.blockSize) {
      if (this.numFreeBlocks === 0) throw new OutOfBlocks("a block is needed"); // nothing has been written yet
      table.push(this.take());
    }
    tokens.push(token);
    if (this.enablePrefixCache && tokens.length % this.blockSize === 0) {
      keys.push(this.chain(keys.at(-1), tokens.slice(-this.blockSize)));
      this.enter(table.at(-1), keys.at(-1));
    }
    return this.slot(id, tokens.length - 1);
  }

  // End a sequence, its last block first: what fewest prompts share is then the first to be evicted.
  free(id) {
    for (const block of [...this.live(id).table].reverse()) this.release(block);
    this.sequences.delete(id);
  }

  slot(id, pos) {
    const { table, tokens } = this.live(id);
    if (!Number.isInteger(pos) || pos < 0 || pos >= tokens.length) throw new InvalidArgument(`no position ${pos}`);
    return table[Math.floor(pos / this.blockSize)] * this.blockSize + (pos % this.blockSize);
  }

  // A coarse check that ignores hits: true means that allocate succeeds.
  canAllocate(numTokens) {
    if (!Number.isInteger(numTokens) || numTokens < 0) throw new InvalidArgument(`no number of tokens: ${numTokens}`);
    return this.blocksFor(numTokens) <= this.numFreeBlocks;
  }

  numCachedTokens(id) {
    return this.live(id).cached;
  }

  blockTable(id) {
    return [...this.live(id).table];
  }

  // --- within -----------------------------------------------------------------------------------------------

  live(id) {
    if (!this.sequences.has(id)) throw new UnknownSequence(`no live sequence ${id}`);
    return this.sequences.get(id);
  }

  blocksFor(numTokens) {
    return Math.ceil(numTokens / this.blockSize);
  }

  // The key of a full block: of its tokens and of the key of the block before it, so of its whole prefix. Token ids
  // have a fixed length in it, so that no two prefixes look alike.
  chain(parent, tokens) {
    return createHash("sha256").update(parent ?? "").update(Uint32Array.from(tokens)).digest("hex");
  }

  keysOf(tokens) {
    const keys = [];
    if (!this.enablePrefixCache) return keys;
    for (let end = this.blockSize; end <= tokens.length; end += this.blockSize) {
      keys.push(this.chain(keys.at(-1), tokens.slice(end - this.blockSize, end)));
    }
    return keys;
  }

  // The longest run of hits; one token at least is left to compute.
  match(keys, numTokens) {
    const limit = Math.floor((numTokens - 1) / this.blockSize);
    const hits = [];
    for (const key of keys.slice(0, limit)) {
      if (!this.blockOf.has(key)) break;
      hits.push(this.blockOf.get(key));
    }
    return hits;
  }

  hit(block) {
    if (this.ref[block] === 0) this.evictable.delete(block);
    this.ref[block] += 1;
  }

  // A block for new content: the head of the free list, else the oldest evictable one. There is one.
  take() {
    const block = this.free_.length > 0 ? this.free_.shift() : this.evict();
    this.ref[block] = 1;
    return block;
  }

  evict() {
    const [block] = this.evictable.keys();
    this.evictable.delete(block);
    this.forget(block);
    this.key[block] = null;
    return block;
  }

  // The mapping goes only if it points at this very block: a copy leaves that of the original.
  forget(block) {
    if (this.blockOf.get(this.key[block]) === block) this.blockOf.delete(this.key[block]);
  }

  // Give a full block its key. Where another block has that content already, the older mapping stays.
  enter(block, key) {
    this.key[block] = key;
    if (!this.blockOf.has(key)) this.blockOf.set(key, block);
  }

  release(block) {
    this.ref[block] -= 1;
    if (this.ref[block] > 0) return;
    if (this.key[block] === null) this.free_.push(block);
    else this.evictable.set(block, true);
  }
}

function checkedToken(token) {
  if (!Number.isInteger(token) || token < 0 || token > MAX_TOKEN) throw new InvalidArgument(`no token id: ${token}`);
  return token;
}

// The planted bug: eviction leaves the mapping of the old prefix, and it is served as a hit.
export class KeepsStaleMapping extends BlockManager {
  forget() {}
}
