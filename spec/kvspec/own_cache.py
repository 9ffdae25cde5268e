"""What is held of a manager that decides by itself what it caches: the variant `cache: its own`.

Radix trees, caches that register a sequence when it ends, caches that swap a duplicate for the older block: each keeps
other content than the seed, and gives up other blocks. Tables, tokens, references and counts are due as ever; which
content carries an identity is read off what the manager shows, and held to the rules below. What it shows is then the
state from which the next operation is judged: a hit is the longest run of what it *says* is cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvspec.identity import Identity
from kvspec.ledger import Ledger, SeqId, Sequence


class Wrong(NamedTuple):
    """A choice that is not legal: the obligation that it breaks, what is wrong, and the blocks that it is about."""

    obligation: str
    what: str
    blocks: tuple[int, ...]


def wrong_choices(
    before: Ledger, due: Ledger, seen: Ledger, seq_id: SeqId, hits: tuple[int, ...], asks: bool
) -> Iterator[Wrong]:
    """What is illegal in `seen`, after an operation on `before` that is to leave the records of `due`.

    seq_id: the sequence that the operation is of. hits: the blocks that it shares now. asks: it asked for room, and got
    it. O(pool + tokens of the live sequences).
    """
    strange = [b for b in _listed(seen) if not 0 <= b < seen.num_blocks]
    if strange:
        yield Wrong("I8", f"{strange[0]} is listed as a block, of which there are {seen.num_blocks}", ())
        return
    yield from _records(before, due, seen, seq_id)
    yield from _places(seen)
    yield from _contents(seen)
    yield from _forgotten(before, seen, hits, asks)
    yield from _gained(before, seen, seq_id)


def _listed(s: Ledger) -> Iterator[int]:
    yield from s.free
    yield from s.evictable
    yield from s.hash_to_block.values()
    for record in s.sequences.values():
        yield from record.table


def _records(before: Ledger, due: Ledger, seen: Ledger, seq_id: SeqId) -> Iterator[Wrong]:
    """Tables are as due, but that of this sequence may name, for a duplicate, the block that carried its content."""
    for seq in [*due.sequences, *(seq for seq in seen.sequences if seq not in due.sequences)]:
        if seq not in due.sequences or seq not in seen.sequences:
            yield Wrong("O7", f"the records of {seq!r} are {'left' if seq in seen.sequences else 'gone'}", ())
            continue
        record, shown = due.sequences[seq], seen.sequences[seq]
        if shown.tokens != record.tokens:
            yield Wrong("O5", f"tokens of {seq!r} are to be {record.tokens}, not {shown.tokens}", record.table)
        if shown.num_cached_tokens != record.num_cached_tokens:
            what = f"num_cached_tokens of {seq!r} is to be {record.num_cached_tokens}, not {shown.num_cached_tokens}"
            yield Wrong("O4", what, record.table)
        if len(shown.table) != len(record.table):
            what = f"the table of {seq!r} is to be {list(record.table)}, not {list(shown.table)}"
            yield Wrong("O5", what, shown.table)
            continue
        for i, (b, other) in enumerate(zip(record.table, shown.table, strict=True)):
            h = record.chain[i] if i < len(record.chain) else None
            is_duplicate = seq == seq_id and h is not None and before.block_hash[other] is h
            if b != other and not is_duplicate:
                yield Wrong("O5", f"entry {i} of the table of {seq!r} is to be block {b}, not {other}", (b, other))


def _places(s: Ledger) -> Iterator[Wrong]:
    """I1, I2, I4, I8: every block is in one place, once, and is counted right."""
    holders = [0] * s.num_blocks
    for record in s.sequences.values():
        for b in record.table:
            holders[b] += 1
    listed = [*s.free, *s.evictable]
    for b in range(s.num_blocks):
        if s.ref[b] != holders[b]:
            yield Wrong(
                "I4", f"ref of block {b} is {s.ref[b]}, the number of tables that contain it {holders[b]}", (b,)
            )
        if listed.count(b) != (holders[b] == 0):
            what = f"the number of tables with block {b} is {holders[b]}, and of its entries as idle {listed.count(b)}"
            yield Wrong("I8", what, (b,))
    for b in s.evictable:
        if s.block_hash[b] is None:
            yield Wrong("I2", f"block {b} is evictable and has no identity", (b,))
    for b in s.free:
        if s.block_hash[b] is not None:
            yield Wrong("I2", f"block {b} is listed as without content, and carries {s.block_hash[b]!r}", (b,))


def _contents(s: Ledger) -> Iterator[Wrong]:
    """I3, I6, I7, O9: an identity is that of the content, and what is mapped carries it."""
    if not s.enable_prefix_cache and (s.hash_to_block or any(h is not None for h in s.block_hash)):
        yield Wrong("O9", "something is cached though the prefix cache is off", ())
    for mapped, b in s.hash_to_block.items():
        if s.block_hash[b] is not mapped:
            yield Wrong("I3", f"{_named(mapped)} is mapped to block {b}, which does not carry it", (b,))
    place: dict[int, int] = {}
    for seq, record in s.sequences.items():
        for i, b in enumerate(record.table):
            h = record.chain[i] if i < len(record.chain) else None
            carried = s.block_hash[b]
            if carried is not None and carried is not h:
                what = f"block {b}, block {i} of {seq!r}, carries {_named(carried)}, its content is {_named(h)}"
                yield Wrong("I7" if h is not None else "I6", what, (b,))
            if h is None and s.ref[b] != 1:
                yield Wrong("I6", f"block {b}, which {seq!r} has filled in part, has {s.ref[b]} references", (b,))
            if place.setdefault(b, i) != i:
                yield Wrong("I7", f"block {b} is block {place[b]} of one table and block {i} of another", (b,))


def _forgotten(before: Ledger, seen: Ledger, hits: tuple[int, ...], asks: bool) -> Iterator[Wrong]:
    """O6: what is held keeps its identity, what is idle gives way only to a request, and what stays can still be hit.

    What a sequence leaves behind when it ends may be forgotten at once.
    """
    for b, h in enumerate(before.block_hash):
        if h is None or seen.block_hash[b] is h:
            continue
        if b in hits or (before.ref[b] and seen.ref[b]):
            yield Wrong("O6", f"block {b} has lost its identity {h!r} though it is in use", (b,))
        elif not before.ref[b] and not asks:
            yield Wrong("O6", f"block {b} has lost its identity {h!r} though nobody asked for room", (b,))
    for h, b in before.hash_to_block.items():
        if seen.block_hash[b] is h and h not in seen.hash_to_block:
            yield Wrong("O6", f"{h!r} cannot be hit any more though block {b} carries it", (b,))


def _gained(before: Ledger, seen: Ledger, seq_id: SeqId) -> Iterator[Wrong]:
    """O8: only full blocks of this sequence are registered, under their own identity, and can then be hit."""
    own: dict[int, Identity] = {}
    for record in filter(None, (before.sequences.get(seq_id), seen.sequences.get(seq_id))):
        own |= _content_of(record)
    for b, h in enumerate(seen.block_hash):
        if h is None or before.block_hash[b] is h:
            continue
        if own.get(b) is not h:
            yield Wrong("O8", f"block {b} is registered as {_named(h)}, its content is {_named(own.get(b))}", (b,))
        elif h not in seen.hash_to_block:
            yield Wrong("O8", f"block {b} is registered as {_named(h)}, which cannot be hit", (b,))


def _named(h: Identity | None) -> str:
    """An identity in words; nobody knows what a key stands for that nobody registered."""
    if h is None:
        return "no full block"
    return repr(h) if h.is_known else "an unknown content"


def _content_of(record: Sequence) -> dict[int, Identity]:
    return dict(zip(record.table, record.chain, strict=False))
