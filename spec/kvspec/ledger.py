"""The ledger: everything that a block manager knows, as an immutable value.

free           blocks without an identity and without a holder, head first (FIFO)
evictable      blocks with an identity and without a holder, oldest first (LRU)
ref            for each block, how many holders it has; a live sequence's table is the only kind so far
block_hash     for each block, the identity of its content, or None
hash_to_block  for each identity that can be hit, the block that a hit returns
sequences      for each live sequence its table, tokens, chain of identities, number of cached tokens, and what its KV
               depends on beside the tokens
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, Protocol

from kvspec.extra import Extra
from kvspec.identity import Identity

SeqId = Hashable


class Sequence(NamedTuple):
    """The records of a live sequence."""

    table: tuple[int, ...]
    tokens: tuple[int, ...]
    chain: tuple[Identity, ...]
    num_cached_tokens: int
    extra: Extra = ()


class Ledger(NamedTuple):
    """The state between two operations. The mappings are never changed in place."""

    num_blocks: int
    block_size: int
    enable_prefix_cache: bool
    free: tuple[int, ...]
    evictable: tuple[int, ...]
    ref: tuple[int, ...]
    block_hash: tuple[Identity | None, ...]
    hash_to_block: Mapping[Identity, int]
    sequences: Mapping[SeqId, Sequence]

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no live sequence holds."""
        return len(self.free) + len(self.evictable)

    def carriers(self, h: Identity) -> Iterator[int]:
        """The blocks that carry an identity, in the order of their numbers. O(pool)."""
        return (b for b, carried in enumerate(self.block_hash) if carried is h)

    def books(self) -> Books:
        """A copy to write in. O(pool + sequences)."""
        return _Copy(self)


def empty_ledger(num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> Ledger:
    """The pool before the first operation: every block is free, in the order of the numbers."""
    return Ledger(
        num_blocks=num_blocks,
        block_size=block_size,
        enable_prefix_cache=enable_prefix_cache,
        free=tuple(range(num_blocks)),
        evictable=(),
        ref=(0,) * num_blocks,
        block_hash=(None,) * num_blocks,
        hash_to_block={},
        sequences={},
    )


class Pool(Protocol):
    """Block numbers in an order, to be written."""

    def append(self, b: int, /) -> None:
        """At the end."""

    def remove(self, b: int, /) -> None:
        """From wherever it is."""


class Books(Protocol):
    """The containers of a ledger, to be written by an operation."""

    ref: list[int]
    hash_to_block: dict[Identity, int]
    sequences: dict[SeqId, Sequence]

    @property
    def free(self) -> Pool: ...
    @property
    def evictable(self) -> Pool: ...
    @property
    def block_hash(self) -> list[Identity | None]: ...

    def carriers(self, h: Identity) -> Iterator[int]:
        """The blocks that carry an identity, in the order of their numbers."""
        ...

    def ledger(self) -> Ledger:
        """The ledger as it is now written."""
        ...


class _Copy:
    """Books that are a copy: what was the ledger before stays as it is."""

    def __init__(self, ledger: Ledger) -> None:
        self._before = ledger
        self.free = list(ledger.free)
        self.evictable = list(ledger.evictable)
        self.ref = list(ledger.ref)
        self.block_hash = list(ledger.block_hash)
        self.hash_to_block = dict(ledger.hash_to_block)
        self.sequences = dict(ledger.sequences)

    def carriers(self, h: Identity) -> Iterator[int]:
        return (b for b, carried in enumerate(self.block_hash) if carried is h)

    def ledger(self) -> Ledger:
        before = self._before
        return Ledger(  # by position, as `Change` in `operations`
            before.num_blocks,
            before.block_size,
            before.enable_prefix_cache,
            tuple(self.free),
            tuple(self.evictable),
            tuple(self.ref),
            tuple(self.block_hash),
            self.hash_to_block,
            self.sequences,
        )


class Change(NamedTuple):
    """What one operation did, in block numbers and identities: the vocabulary of traces and reports.

    hit         cached blocks that the sequence now shares, in the order of its table
    revived     those of them that were idle
    taken       blocks taken for new content, in the order of the table
    evicted     those of them that carried an identity, with that identity
    unmapped    identities that can no longer be hit
    registered  blocks that became full, with their identity
    duplicates  those of them whose identity another block was mapped to already
    released    blocks that lost a holder, in the order of release
    """

    hit: tuple[int, ...] = ()
    revived: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    evicted: tuple[tuple[int, Identity], ...] = ()
    unmapped: tuple[Identity, ...] = ()
    registered: tuple[tuple[int, Identity], ...] = ()
    duplicates: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
