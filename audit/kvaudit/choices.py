"""Reads a target's choices off its answers, and says what is illegal about them.

A legal answer leaves nothing open: which copies were hit, and which blocks were taken, in which order. So a target's
answer is a policy (`kvspec.policy`), of which the specification asks the same choices as of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.concerned import spare_blocks
from kvaudit.protocol import Allocate
from kvaudit.words import short
from kvspec.identity import Identity
from kvspec.ledger import Ledger
from kvspec.operations import available, blocks_for
from kvspec.policy import SEED
from kvspec.variants import Variants


def block_list(value: Any, num_blocks: int) -> list[int] | None:
    """The value as a list of block numbers; None if it is not one."""
    if not isinstance(value, (list, tuple)):
        return None
    for b in value:
        if type(b) is not int or not 0 <= b < num_blocks:
            return None
    return list(value)


class Illegal(Exception):
    """The choices that were read off are not legal."""

    def __init__(self, breaches: list[Breach]) -> None:
        super().__init__(breaches)
        self.breaches = breaches


class ReadOff:
    """The policy of a target that completed an allocate: its choices are in the table that it answered.

    Raises Illegal, where a policy is asked to choose, if the specification does not allow the choice.
    """

    def __init__(self, op: Allocate, table: list[int], cached: Any, variants: Variants) -> None:
        self._op = op
        self._table = table
        self._cached = cached
        self._variants = variants

    def hits(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """The first blocks of the table."""
        due = blocks_for(len(self._op.tokens), ledger.block_size)
        if len(self._table) != due:
            what = f"{len(self._op.tokens)} tokens need {words.count(due, 'block')}, the table has {len(self._table)}"
            extra = self._table[due:] or self._table
            raise Illegal([Breach("O5", what, tuple(extra))])
        breaches = self._wrong_count(ledger, run)
        for i, (block, h) in enumerate(zip(self._table, run, strict=False)):
            mapped_to = ledger.hash_to_block[h]
            if block != mapped_to and not (_any_copy(self._variants) and ledger.block_hash[block] is h):
                what = f"entry {i} of the table is cached in block {mapped_to}, not in block {block}"
                breaches.append(Breach("O4", what, (block, mapped_to)))
        if breaches:
            raise Illegal(breaches)
        return tuple(self._table[: len(run)])

    def blocks(self, ledger: Ledger, hits: tuple[int, ...], count: int) -> tuple[int, ...]:
        """The rest of the table."""
        new = self._table[len(hits) :]
        due = SEED.blocks(ledger, hits, count)
        if tuple(new) == due:
            return due  # which is legal under all variants
        breaches: list[Breach] = []
        seen = set(self._table[: len(hits)])
        for block in new:
            if block in seen:
                breaches.append(Breach("I8", f"block {block} stands twice in the table", (block,)))
            elif ledger.ref[block]:
                breaches += in_use(ledger, block)
            seen.add(block)
        breaches = breaches or out_of_order(ledger, new, hits, self._variants)
        if breaches:
            raise Illegal(breaches)
        return tuple(new)

    def _wrong_count(self, ledger: Ledger, run: tuple[Identity, ...]) -> list[Breach]:
        cached, length, due = self._cached, len(self._op.tokens), len(run) * ledger.block_size
        if cached is None or (type(cached) is int and cached == due):
            return []
        blocks = self._miscounted(ledger, run)
        found = [Breach("O4", f"num_cached_tokens is to be {due}, not {short(cached)}", blocks)]
        if type(cached) is not int or cached % ledger.block_size or not 0 <= cached < length:
            what = f"{short(cached)} of {length} tokens, in blocks of {ledger.block_size}, are said to be cached"
            found.append(Breach("I5", what, blocks))
        if not ledger.enable_prefix_cache:
            what = f"{short(cached)} tokens are said to be cached though the prefix cache is off"
            found.append(Breach("O9", what, blocks))
        return found

    def _miscounted(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """The blocks that are cached and were not counted, or that were counted and are not cached."""
        size, cached = ledger.block_size, self._cached
        counted = -(-cached // size) if type(cached) is int else 0
        if 0 <= counted < len(run):
            return tuple(ledger.hash_to_block[h] for h in run[counted:])
        return tuple(self._table[len(run) : counted] or self._table)

    def mapped(self, old: int, new: int) -> int:
        """As the variant has it."""
        return mapped(old, new, self._variants)

    def heir(self, carriers: Iterable[int]) -> int | None:
        """Where every copy can be hit, the next copy."""
        return heir(carriers, self._variants)


class Unseen:
    """The policy of a target that refused: the legal hits under which the least is available.

    Under them a refusal is legal if it is under any. An idle copy of a block uses up what is available, so it is
    preferred where several copies can be hit.
    """

    def __init__(self, variants: Variants) -> None:
        self._variants = variants

    def hits(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """A block for each identity, idle copies first."""
        if self._variants.duplicates != "keep all":
            return tuple(ledger.hash_to_block[h] for h in run)
        return tuple(min(copies(ledger, h), key=lambda b: ledger.ref[b]) for h in run)

    def blocks(self, ledger: Ledger, hits: tuple[int, ...], count: int) -> tuple[int, ...]:
        """It would have fitted: the refusal is wrong."""
        needed, spare = count, available(ledger, hits)
        need = f"{words.count(needed, 'new block')} needed and {spare} available"
        raise Illegal([Breach("O2", f"refused, with {need}", spare_blocks(ledger, hits))])

    def mapped(self, old: int, new: int) -> int:
        """Never asked: nothing is registered."""
        return old

    def heir(self, carriers: Iterable[int]) -> int | None:
        """Never asked: nothing is evicted."""
        return None


@dataclass(slots=True)
class Appended:
    """The policy of a target that completed an append: the new block, if there is one, is that of the slot."""

    block: int
    variants: Variants

    def hits(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """An append hits nothing."""
        return ()

    def blocks(self, ledger: Ledger, hits: tuple[int, ...], count: int) -> tuple[int, ...]:
        """The block of the slot."""
        due = SEED.blocks(ledger, hits, count)
        if due == (self.block,):
            return due  # which is legal under all variants
        taken = in_use(ledger, self.block) if ledger.ref[self.block] else []
        breaches = taken or out_of_order(ledger, [self.block], [], self.variants)
        if breaches:
            raise Illegal(breaches)
        return (self.block,)

    def mapped(self, old: int, new: int) -> int:
        """As the variant has it."""
        return mapped(old, new, self.variants)

    def heir(self, carriers: Iterable[int]) -> int | None:
        """Where every copy can be hit, the next copy."""
        return heir(carriers, self.variants)


def mapped(old: int, new: int, variants: Variants) -> int:
    """Who is mapped once a copy is registered."""
    return new if variants.duplicates == "keep new" else old


def heir(carriers: Iterable[int], variants: Variants) -> int | None:
    """Who is mapped in place of an evicted block."""
    return next(iter(carriers), None) if _any_copy(variants) else None


def _any_copy(variants: Variants) -> bool:
    """Whether a hit may be on any block with that content."""
    return variants.duplicates == "keep all" or variants.cache == "its own"


def copies(ledger: Ledger, h: Identity) -> list[int]:
    """The blocks that carry an identity."""
    return list(ledger.carriers(h))


def in_use(ledger: Ledger, block: int) -> list[Breach]:
    """A new block that was not idle."""
    holder = next((seq for seq, record in ledger.sequences.items() if block in record.table), None)
    found = [Breach("I8", f"new block {block} is in use by {holder!r}", (block,))]
    if not ledger.enable_prefix_cache:
        found.append(Breach("O9", f"block {block} is shared though the prefix cache is off", (block,)))
    return found


def out_of_order(ledger: Ledger, new: Sequence[int], hits: Sequence[int], variants: Variants) -> list[Breach]:
    """O6: idle blocks that were taken although another one had to go first, under the variants."""
    if variants.cache == "its own":
        return []
    free = _Heads(ledger.free)
    evictable = _Heads(b for b in ledger.evictable if b not in hits)
    for block in new:
        if ledger.block_hash[block] is not None:
            if free.head is not None and variants.take_from == "free first":
                what = f"cached block {block} is evicted though block {free.head} is free"
                return [Breach("O6", what, (block, free.head))]
            if evictable.head is not None and evictable.head != block:
                what = f"block {block} is evicted though block {evictable.head} is older"
                return [Breach("O6", what, (block, evictable.head))]
            evictable.take(block)
        else:
            if free.head is not None and variants.free_list == "fifo" and free.head != block:
                what = f"block {block} is taken though block {free.head} heads the free list"
                return [Breach("O6", what, (block, free.head))]
            free.take(block)
    return []


class _Heads:
    """The heads of a list of blocks, as one after the other is taken. Looks no further than it must."""

    def __init__(self, blocks: Iterable[int]) -> None:
        self._rest: Iterator[int] = iter(blocks)
        self._taken: set[int] = set()
        self.head = next(self._rest, None)

    def take(self, block: int) -> None:
        self._taken.add(block)
        while self.head in self._taken:
            self.head = next(self._rest, None)
