"""A second paged KV block manager, written from the seed alone, to be audited as a black box.

Independent of kvblocks: its author saw neither that implementation nor its specification. Plain, not fast.
No queues: free list and evictable pool are views: unheld blocks without and with identity, by release time.
No hashes: a full block's identity is the whole prefix it ends, four bytes a token (quadratic memory).
A block filled with what another block already stands for gets the identity but not the catalogue entry;
it is evictable when released, and is not promoted when the other one is evicted.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

_WIDTH = 4  # bytes to a token id


class OutOfBlocks(Exception):
    """Too few blocks are available; nothing was changed."""


@dataclass(eq=False)
class _Block:
    number: int
    released: int  # the manager's clock when it was last let go; meaningful while holders == 0
    holders: int = 0
    identity: bytes | None = None


@dataclass(eq=False)
class _Sequence:
    tokens: bytearray  # packed, _WIDTH bytes each
    table: list[_Block] = field(default_factory=list)
    cached: int = 0

    def __len__(self) -> int:
        return len(self.tokens) // _WIDTH

    def prefix(self, length: int) -> bytes:
        return bytes(self.tokens[: length * _WIDTH])


def _integer(value: object, name: str, least: int | None = None, most: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")
    return int(value)


def _pack(token: object) -> bytes:
    return _integer(token, "a token id", 0, 2**32 - 1).to_bytes(_WIDTH, "little")


class SecondManager:
    """Hands out physical blocks to sequences; the free list is first in, first out."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        count = _integer(num_blocks, "num_blocks", 1)
        self._size = _integer(block_size, "block_size", 1)
        self._caching = bool(enable_prefix_cache)
        self._blocks = [_Block(number, released=number) for number in range(count)]
        self._clock = count
        self._catalogue: dict[bytes, _Block] = {}  # identity -> the one block that stands for it
        self._live: dict[Hashable, _Sequence] = {}

    @property
    def num_free_blocks(self) -> int:
        return sum(block.holders == 0 for block in self._blocks)

    def can_allocate(self, num_tokens: int) -> bool:
        """The coarse question, blind to cache hits."""
        return self._blocks_for(_integer(num_tokens, "num_tokens", 0)) <= self.num_free_blocks

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int]) -> list[int]:
        seq = _Sequence(bytearray(b"".join([_pack(token) for token in token_ids])))
        if seq_id in self._live:  # asked only now: iterating token_ids may have run anybody's code
            raise ValueError(f"sequence {seq_id!r} is live already")
        if not len(seq):
            raise ValueError("the prompt is empty")
        hits = self._hits(seq)
        fresh = self._choose(self._blocks_for(len(seq)) - len(hits), hits)  # the last thing that may raise
        for block in hits:
            block.holders += 1
        for block in fresh:
            self._claim(block)
        seq.table = hits + fresh
        seq.cached = len(hits) * self._size
        for full in range(1, len(seq) // self._size + 1):  # after all claims, which evict
            self._register(seq, full)
        self._live[seq_id] = seq
        return [block.number for block in seq.table]

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        seq = self._live[seq_id]
        packed = _pack(token_id)
        pos = len(seq)
        if pos // self._size == len(seq.table):
            [block] = self._choose(1, [])
            self._claim(block)
            seq.table.append(block)
        seq.tokens += packed
        if len(seq) % self._size == 0:
            self._register(seq, len(seq) // self._size)
        return self.slot(seq_id, pos)

    def free(self, seq_id: Hashable) -> None:
        seq = self._live.pop(seq_id)
        for block in reversed(seq.table):  # the tail, useful to the fewest, becomes the oldest
            block.holders -= 1
            block.released = self._clock
            self._clock += 1

    def slot(self, seq_id: Hashable, pos: int) -> int:
        seq = self._live[seq_id]
        if not 0 <= _integer(pos, "pos") < len(seq):
            raise IndexError(f"sequence {seq_id!r} has {len(seq)} tokens, none at {pos}")
        return seq.table[pos // self._size].number * self._size + pos % self._size

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        return self._live[seq_id].cached

    def block_table(self, seq_id: Hashable) -> list[int]:
        return [block.number for block in self._live[seq_id].table]

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._size)

    def _hits(self, seq: _Sequence) -> list[_Block]:
        """The blocks already holding the prompt's start; its last token is never among them."""
        hits: list[_Block] = []
        for full in range(1, (len(seq) - 1) // self._size + 1):
            block = self._catalogue.get(seq.prefix(full * self._size))
            if block is None:
                break
            hits.append(block)
        return hits

    def _rank(self, block: _Block) -> tuple[bool, int]:
        """Lowest is taken first: free before evictable, then the longest released."""
        return (block.identity is not None, block.released)

    def _choose(self, count: int, reserved: list[_Block]) -> list[_Block]:
        """The next count blocks to be taken, none of them reserved. Changes nothing."""
        kept = set(reserved)
        spare = [block for block in self._blocks if block.holders == 0 and block not in kept]
        if count > len(spare):
            raise OutOfBlocks(f"{count} blocks needed, {len(spare)} available")
        return heapq.nsmallest(count, spare, key=self._rank)

    def _claim(self, block: _Block) -> None:
        if block.identity is not None and self._catalogue.get(block.identity) is block:
            del self._catalogue[block.identity]
        block.identity = None
        block.holders = 1

    def _register(self, seq: _Sequence, full: int) -> None:
        if self._caching:
            block = seq.table[full - 1]
            block.identity = seq.prefix(full * self._size)
            self._catalogue.setdefault(block.identity, block)


class LifoManager(SecondManager):
    """The same, but of the free blocks the one released last is taken first. Eviction is still LRU."""

    def _rank(self, block: _Block) -> tuple[bool, int]:
        return (True, block.released) if block.identity is not None else (False, -block.released)
