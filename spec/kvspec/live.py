"""A ledger that is written in place, for pools of thousands of blocks.

The rules are those of `kvspec.operations`, the very same text: an operation takes the containers that it writes from
`Ledger.books`, which are copies of an immutable ledger, and of a live one its own. So a step costs what it changes,
not what the pool holds. There is no ledger before the step any more: what is to be known of it, ask first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import cast

from kvspec.identity import Identity
from kvspec.ledger import Books, Ledger, SeqId, Sequence


def live(ledger: Ledger, *, indexed: bool = True) -> Ledger:
    """A copy that operations change in place: the `after` of each step is the copy itself. O(pool), once.

    It reads as a Ledger does, except that `free` and `evictable` are no tuples but only ordered collections, in which
    `in`, `append` and `remove` take O(1). indexed: `carriers` takes O(its answer) and not O(pool), for which each block
    that is registered or evicted costs a little more.
    """
    return cast(Ledger, _Live(ledger, indexed))


def snapshot(ledger: Ledger) -> Ledger:
    """An immutable copy of a ledger, a live one as a rule. O(pool + sequences)."""
    return Ledger(
        num_blocks=ledger.num_blocks,
        block_size=ledger.block_size,
        enable_prefix_cache=ledger.enable_prefix_cache,
        free=tuple(ledger.free),
        evictable=tuple(ledger.evictable),
        ref=tuple(ledger.ref),
        block_hash=tuple(ledger.block_hash),
        hash_to_block=dict(ledger.hash_to_block),
        sequences=dict(ledger.sequences),
    )


class _Live:
    """The attributes of a Ledger, and the books in which operations write."""

    def __init__(self, ledger: Ledger, indexed: bool) -> None:
        self.num_blocks = ledger.num_blocks
        self.block_size = ledger.block_size
        self.enable_prefix_cache = ledger.enable_prefix_cache
        self.free = _Queue(ledger.free)
        self.evictable = _Queue(ledger.evictable)
        self.ref = list(ledger.ref)
        self.block_hash = _Contents(ledger.block_hash) if indexed else list(ledger.block_hash)
        self.hash_to_block = dict(ledger.hash_to_block)
        self.sequences: dict[SeqId, Sequence] = dict(ledger.sequences)

    @property
    def num_free_blocks(self) -> int:
        return len(self.free) + len(self.evictable)

    def books(self) -> Books:
        return self

    def carriers(self, h: Identity) -> Iterator[int]:
        if isinstance(self.block_hash, _Contents):
            yield from sorted(self.block_hash.carriers.get(h, ()))
        else:
            yield from (b for b, carried in enumerate(self.block_hash) if carried is h)

    def ledger(self) -> Ledger:
        return cast(Ledger, self)


class _Queue(OrderedDict[int, None]):
    """Distinct block numbers in an order. Not a dict: its head is slow once many have been taken from it."""

    def __init__(self, blocks: Iterable[int]) -> None:
        super().__init__((b, None) for b in blocks)

    def append(self, b: int, /) -> None:
        self[b] = None

    remove = OrderedDict.__delitem__


class _Contents(list[Identity | None]):
    """The identity of each block, and for each identity its carriers."""

    def __init__(self, block_hash: Iterable[Identity | None]) -> None:
        super().__init__(block_hash)
        self.carriers: dict[Identity, set[int]] = {}
        for b, h in enumerate(self):
            if h is not None:
                self.carriers.setdefault(h, set()).add(b)

    def __setitem__(self, b: int, h: Identity | None) -> None:  # type: ignore[override]
        before, carriers = self[b], self.carriers
        if before is not None:
            others = carriers[before]
            others.remove(b)
            if not others:
                del carriers[before]
        if h is not None:
            if h in carriers:
                carriers[h].add(b)
            else:
                carriers[h] = {b}
        super().__setitem__(b, h)
