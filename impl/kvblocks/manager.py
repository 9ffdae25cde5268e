"""The paged KV-cache block manager: reference counts, prefix cache, LRU eviction, atomic allocation.

A block is in exactly one place: the free list (no identity, never hit), the evictable pool (idle, but a
prompt with the same prefix can still hit it) or the tables of one or more live sequences.

    free list  --take-->  live  --release, no key-->  free list (tail)
                          live  --release, key----->  evictable pool (newest)
    evictable  --hit--->  live
    evictable  --take (the oldest; its key is forgotten)-->  live

Single-threaded: one call at a time. Costs are in blocks of the sequence at hand; nothing but `observe`
depends on the size of the pool.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from kvblocks.arithmetic import (
    MAX_TOKEN_ID,
    TOKEN_BYTES,
    Unchecked,
    blocks_for,
    check_size,
    check_token,
    check_tokens,
    match_limit,
)
from kvblocks.errors import InvalidArgument, OutOfBlocks, PositionOutOfRange, SequenceExists, UnknownSequence
from kvblocks.extra import Extra, check_extra, parts_of_block
from kvblocks.hashing import HashStrategy, Key, strategy


class Observation(NamedTuple):
    """A copy of the manager's whole state, under the names of its structures. See `observe`."""

    free: tuple[int, ...]
    evictable: tuple[int, ...]
    ref: tuple[int, ...]
    block_hash: tuple[Key | None, ...]
    hash_to_block: dict[Key, int]
    tables: dict[Hashable, tuple[int, ...]]
    tokens: dict[Hashable, tuple[int, ...]]
    hashes: dict[Hashable, tuple[Key, ...]]
    cached: dict[Hashable, int]
    extra: dict[Hashable, Extra]


class Sequence:
    """A live sequence. `next_slot` and `end` follow from the rest: an append inside a block needs nothing else."""

    __slots__ = ("cached", "end", "extra", "hashes", "next_slot", "table", "tokens")

    def __init__(
        self, table: list[int], tokens: array[int], hashes: list[Key], cached: int, extra: Extra, block_size: int
    ) -> None:
        self.table = table  # its blocks
        self.tokens = tokens  # at least one
        self.hashes = hashes  # the key of each full block, with the cache on
        self.cached = cached  # how many tokens were hits
        self.extra = extra
        self.end = table[-1] * block_size + block_size  # where the slots of the last block end
        self.next_slot = self.end - block_size + (len(tokens) - 1) % block_size + 1  # `end` if it is full


class BlockManager:
    """Manages `num_blocks` physical blocks of `block_size` tokens each, numbered from 0.

    hasher: "sha256" (default), "builtin", "xxh3", or a callable, see `kvblocks.hashing`.
    Raises InvalidArgument for sizes that are not positive integers and for an unknown hasher.
    """

    STATE: ClassVar[Mapping[str, str]] = MappingProxyType(
        {name: f"_{name}" for name in ("free", "evictable", "ref", "block_hash", "hash_to_block")}
        | {"tables": "_sequences.table"}
        | {name: f"_sequences.{name}" for name in ("tokens", "hashes", "cached", "extra")}
    )
    """The whole state: where each structure of `observe` is. All other attributes are constants of the pool."""

    def __init__(
        self,
        num_blocks: Unchecked,
        block_size: Unchecked,
        enable_prefix_cache: bool = True,
        *,
        hasher: str | HashStrategy = "sha256",
    ) -> None:
        self.num_blocks = check_size("num_blocks", num_blocks)
        self.block_size = check_size("block_size", block_size)
        self.enable_prefix_cache = bool(enable_prefix_cache)
        self._hasher = strategy(hasher)
        self._free: deque[int] = deque(range(num_blocks))
        self._evictable: OrderedDict[int, None] = OrderedDict()  # oldest first
        self._ref: list[int] = [0] * num_blocks
        self._block_hash: list[Key | None] = [None] * num_blocks
        self._hash_to_block: dict[Key, int] = {}
        self._sequences: dict[Hashable, Sequence] = {}

    def allocate(
        self,
        seq_id: Hashable,
        token_ids: Iterable[int],
        *,
        salt: str | Any = None,
        lora: tuple[str, str] | Any = None,
        images: Iterable[tuple[bytes, int, int]] = (),
    ) -> list[int]:
        """Start a sequence: share the cached blocks of its prefix, take new ones for the rest.

        Returns its block table. The KV of the first `num_cached_tokens(seq_id)` tokens is there already;
        the caller computes the rest before the next call. O(number of tokens).
        salt, lora, images: what the KV depends on beside the tokens, those appended later included; see
        `kvblocks.extra`. Blocks are shared only where it is equal.
        Raises OutOfBlocks, SequenceExists, or InvalidArgument (empty prompt, bad token id, bad extra).
        """
        tokens = check_tokens(token_ids)  # first: iterating may run code of the caller's
        extra = check_extra(salt, lora, images, len(tokens))
        if seq_id in self._sequences:
            raise SequenceExists(f"sequence {seq_id!r} is live: free it first")
        hashes = self._hash_chain(tokens, extra)
        hits = self._match(hashes, match_limit(len(tokens), self.block_size))
        needed = blocks_for(len(tokens), self.block_size) - len(hits)
        available = self.num_free_blocks
        ref = self._ref
        for block in hits:
            if ref[block] == 0:  # counted as free, but as a hit it cannot be taken as well
                available -= 1
        if needed > available:
            raise OutOfBlocks(f"allocate needs {needed} new blocks, {available} are available")
        self._hit(hits)
        table = list(hits)
        for _ in range(needed):
            table.append(self._take())
        for i in range(len(hits), len(hashes)):
            self._register(table[i], hashes[i])
        cached = len(hits) * self.block_size
        self._sequences[seq_id] = Sequence(table, tokens, hashes, cached, extra, self.block_size)
        return list(table)

    def append_slot(self, seq_id: Hashable, token_id: Unchecked) -> int:
        """Add one token to a live sequence and return its slot; takes a new block if the last one is full.

        A block that becomes full gets its identity, so later prompts can hit what was generated.
        O(1), and O(block_size) when it fills a block. Raises OutOfBlocks, UnknownSequence, InvalidArgument.
        """
        seq = self._sequences.get(seq_id)
        if seq is None:
            raise UnknownSequence(f"no live sequence {seq_id!r}")
        if type(token_id) is not int or not 0 <= token_id <= MAX_TOKEN_ID:
            check_token(token_id)
        slot = seq.next_slot
        if slot + 1 >= seq.end:
            return self._append_at_edge(seq, token_id)
        seq.tokens.append(token_id)
        seq.next_slot = slot + 1
        return slot

    def append_slots(self, seq_ids: Iterable[Hashable], token_ids: Iterable[Unchecked]) -> list[int]:
        """`append_slot` for several sequences, one token each, in turn: their slots. It is refused as a whole.

        O(number of tokens), and what the appends cost. Only a hash strategy that raises can stop it halfway.
        Raises OutOfBlocks, UnknownSequence, InvalidArgument (bad token id, a sequence twice, ids or tokens left over).
        """
        ids, tokens = list(seq_ids), list(token_ids)  # first: iterating may run code of the caller's
        if len(ids) != len(tokens) or len(set(ids)) != len(ids):
            given = f"{len(tokens)} tokens for {len(ids)} ids, {len(set(ids))} of them different"
            raise InvalidArgument(f"append_slots takes one token for each of several sequences, not {given}")
        needed = 0
        for i in range(len(ids)):
            check_token(tokens[i])
            if len(self._live(ids[i]).tokens) % self.block_size == 0:
                needed += 1
        self._check_room("append_slots", needed)
        return [self.append_slot(ids[i], tokens[i]) for i in range(len(ids))]

    def extend(self, seq_id: Hashable, token_ids: Iterable[Unchecked]) -> list[int]:
        """`append_slot` for several tokens of one live sequence, in turn: their slots. It is refused as a whole.

        O(number of tokens), and what the appends cost. Only a hash strategy that raises can stop it halfway.
        Raises OutOfBlocks, UnknownSequence, InvalidArgument (bad token id).
        """
        tokens = list(token_ids)
        seq = self._live(seq_id)
        for i in range(len(tokens)):
            check_token(tokens[i])
        needed = blocks_for(len(seq.tokens) + len(tokens), self.block_size) - len(seq.table)
        self._check_room("extend", needed)
        return [self.append_slot(seq_id, tokens[i]) for i in range(len(tokens))]

    def free(self, seq_id: Hashable) -> None:
        """End a live sequence, last block first: the least general block is then the first to be evicted.

        O(number of its blocks). Raises UnknownSequence.
        """
        self._release(self._live(seq_id).table)
        del self._sequences[seq_id]

    def slot(self, seq_id: Hashable, pos: int) -> int:
        """Where the K/V of token `pos` is: block * block_size + offset. O(1).

        Raises UnknownSequence, PositionOutOfRange.
        """
        seq = self._live(seq_id)
        if not 0 <= pos < len(seq.tokens):
            raise PositionOutOfRange(f"position {pos} is not in 0 .. {len(seq.tokens) - 1}")
        return seq.table[pos // self.block_size] * self.block_size + pos % self.block_size

    def can_allocate(self, num_tokens: Unchecked) -> bool:
        """A coarse check that ignores hits: True means that `allocate` succeeds, False that it may fail."""
        check_size("num_tokens", num_tokens, least=0)
        return blocks_for(num_tokens, self.block_size) <= self.num_free_blocks

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no live sequence holds: the free list and the evictable pool."""
        return len(self._free) + len(self._evictable)

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        """How many tokens of the prompt were hits when it was allocated: a multiple of block_size."""
        return self._live(seq_id).cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        """The sequence's blocks in order, a copy."""
        return list(self._live(seq_id).table)

    def observe(self) -> Observation:
        """A copy of the whole state, for audits and debugging. O(size of the pool)."""
        sequences = self._sequences
        return Observation(
            free=tuple(self._free),
            evictable=tuple(self._evictable),
            ref=tuple(self._ref),
            block_hash=tuple(self._block_hash),
            hash_to_block=dict(self._hash_to_block),
            tables={seq_id: tuple(seq.table) for seq_id, seq in sequences.items()},
            tokens={seq_id: tuple(seq.tokens) for seq_id, seq in sequences.items()},
            hashes={seq_id: tuple(seq.hashes) for seq_id, seq in sequences.items()},
            cached={seq_id: seq.cached for seq_id, seq in sequences.items()},
            extra={seq_id: seq.extra for seq_id, seq in sequences.items()},
        )

    def _live(self, seq_id: Hashable) -> Sequence:
        seq = self._sequences.get(seq_id)
        if seq is None:
            raise UnknownSequence(f"no live sequence {seq_id!r}")
        return seq

    def _check_room(self, operation: str, needed: int) -> None:
        if needed > self.num_free_blocks:
            raise OutOfBlocks(f"{operation} needs {needed} new blocks, {self.num_free_blocks} are available")

    def _append_at_edge(self, seq: Sequence, token_id: int) -> int:
        """Append the first token of a block, the last one, or, in a block of one, both."""
        size = self.block_size
        offset = len(seq.tokens) % size
        fills_block = offset + 1 == size and self.enable_prefix_cache
        key: Key = None
        if fills_block:
            block = seq.tokens[len(seq.tokens) - offset :]
            block.append(token_id)
            parts = parts_of_block(seq.extra, len(seq.hashes), size)
            key = self._hasher(seq.hashes[-1] if seq.hashes else None, block.tobytes(), parts)
        if offset == 0:
            seq.table.append(self._take())  # the one thing that can refuse: nothing is written before it
            seq.end = seq.table[-1] * size + size
        slot = seq.end - size + offset
        seq.tokens.append(token_id)
        seq.next_slot = slot + 1
        if fills_block:
            seq.hashes.append(key)
            self._register(seq.table[-1], key)
        return slot

    def _hash_chain(self, tokens: array[int], extra: Extra = ()) -> list[Key]:
        """The keys of a prompt's full blocks: none for a partial last one, none with the cache off."""
        hashes: list[Key] = []
        if self.enable_prefix_cache:
            hasher, packed, size = self._hasher, tokens.tobytes(), TOKEN_BYTES * self.block_size
            key: Key = None  # nothing stands before the first block
            for start in range(0, len(packed) - size + 1, size):
                parts = parts_of_block(extra, len(hashes), self.block_size) if extra else ()
                key = hasher(key, packed[start : start + size], parts)
                hashes.append(key)
        return hashes

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        """The cached blocks of the longest run of hits from the start, at most `limit`."""
        hits: list[int] = []
        block_of = self._hash_to_block
        for key in hashes[: min(limit, len(hashes))]:
            block = block_of.get(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def _hit(self, blocks: list[int]) -> None:
        """Share cached blocks; idle ones leave the evictable pool first."""
        ref, evictable = self._ref, self._evictable
        for block in blocks:
            if ref[block] == 0:
                del evictable[block]
            ref[block] += 1

    def _take(self) -> int:
        """A block for new content: the head of the free list, else the oldest evictable one."""
        if self._free:
            block = self._free.popleft()
        elif self._evictable:
            block, _ = self._evictable.popitem(last=False)
            self._forget(block)
        else:
            raise OutOfBlocks("no block is free or evictable")
        self._ref[block] = 1
        return block

    def _forget(self, block: int) -> None:
        """Drop the identity of an evicted block; the mapping goes only if it points at this very block."""
        key = self._block_hash[block]
        self._block_hash[block] = None
        if self._hash_to_block.get(key) == block:
            del self._hash_to_block[key]

    def _register(self, block: int, key: Key) -> None:
        """Give a full block its identity; where another block has it already, the older mapping stays."""
        self._block_hash[block] = key
        self._hash_to_block.setdefault(key, block)

    def _release(self, blocks: list[int]) -> None:
        """One holder less, from the last block on; without holders it becomes evictable if it has a key, else free."""
        ref, block_hash, evictable = self._ref, self._block_hash, self._evictable
        for block in reversed(blocks):
            ref[block] -= 1
            if ref[block] == 0:
                if block_hash[block] is not None:
                    evictable[block] = None
                else:
                    self._free.append(block)
