"""Which blocks a breach is about, where its words do not name one: what a picture of the pool outlines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvaudit.protocol import Allocate, Mutation
from kvspec.ledger import Change, Ledger


def spare_blocks(ledger: Ledger, hits: Sequence[int] = ()) -> tuple[int, ...]:
    """The blocks that could be taken: those that are free, and those that are cached, idle and not hit."""
    return tuple(b for b in (*ledger.free, *ledger.evictable) if b not in hits)


def room(ledger: Ledger) -> tuple[int, ...]:
    """What a question of room is about: the blocks that could be taken, or else all, which are in the way."""
    return spare_blocks(ledger) or tuple(range(ledger.num_blocks))


def table_of(ledger: Ledger, seq: str) -> tuple[int, ...]:
    """The blocks of a sequence; none if it is not live."""
    record = ledger.sequences.get(seq)
    return record.table if record is not None else ()


def handled(op: Mutation, before: Ledger, change: Change) -> tuple[int, ...]:
    """The blocks that an operation had to do with. If an allocate got none: those that there is to say about room."""
    touched = (*change.hit, *change.taken)
    if isinstance(op, Allocate):
        return touched or room(before)
    return touched or table_of(before, op.seq)


def blocks_of_slots(size: int, num_blocks: int, *slots: Any) -> tuple[int, ...]:
    """The blocks in which slots lie; what is no slot of the pool has none."""
    valid = [slot for slot in slots if type(slot) is int and 0 <= slot < num_blocks * size]
    return tuple(dict.fromkeys(slot // size for slot in valid))


def unequal(due: Sequence[int], seen: Sequence[int], num_blocks: int) -> tuple[int, ...]:
    """The blocks at the places at which two lists of blocks are not the same."""
    length = max(len(due), len(seen))
    pairs = zip(_padded(due, length), _padded(seen, length), strict=True)
    return _of_pool((b for pair in pairs if pair[0] != pair[1] for b in pair), num_blocks)


def differing(due: Ledger, seen: Ledger) -> tuple[int, ...]:
    """The blocks at which two ledgers differ: in a block itself, else in a record, else in an order."""
    blocks = _blocks_themselves(due, seen) or _blocks_of_records(due, seen)
    if not blocks:
        blocks += unequal(due.evictable, seen.evictable, due.num_blocks)
        blocks += unequal(due.free, seen.free, due.num_blocks)
    return _of_pool(blocks, due.num_blocks)


def _blocks_themselves(due: Ledger, seen: Ledger) -> list[int]:
    one, two = due.hash_to_block, seen.hash_to_block
    wrong = {b for h in {**one, **two} if one.get(h) != two.get(h) for b in (one.get(h), two.get(h))}
    return [
        b
        for b in range(due.num_blocks)
        if b in wrong
        or due.ref[b] != seen.ref[b]
        or due.block_hash[b] is not seen.block_hash[b]
        or due.free.count(b) != seen.free.count(b)
        or due.evictable.count(b) != seen.evictable.count(b)
    ]


def _blocks_of_records(due: Ledger, seen: Ledger) -> list[int]:
    blocks: list[int] = []
    for seq in {**due.sequences, **seen.sequences}:
        one, two = due.sequences.get(seq), seen.sequences.get(seq)
        if one is None or two is None:
            blocks += (one or two or ((),))[0]
        elif one != two:
            blocks += unequal(one.table, two.table, due.num_blocks) or one.table
    return blocks


def _padded(blocks: Sequence[int], length: int) -> list[int | None]:
    return [*blocks, *[None] * (length - len(blocks))]


def _of_pool(blocks: Iterable[int | None], num_blocks: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(b for b in blocks if b is not None and 0 <= b < num_blocks))
