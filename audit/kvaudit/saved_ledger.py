"""A ledger as JSON: the state from which a trace starts in mid-life."""

from __future__ import annotations

import msgspec

from kvaudit.errors import UsageError
from kvaudit.protocol import MAX_TOKEN, NOTHING, Extras, Pool
from kvspec.extra import is_legal
from kvspec.identity import Identity, identity
from kvspec.ledger import Ledger, SeqId, Sequence
from kvspec.operations import blocks_for, full_chain


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a full block holds.

    tokens: of this block. parent: the content before it, by its place in the list; None for a first block. blocks: who
    carries it. mapped: the one among them that a hit returns, None if it cannot be hit. extra: what this block adds to
    what its parent depends on.
    """

    tokens: tuple[int, ...]
    parent: int | None = None
    blocks: tuple[int, ...] = ()
    mapped: int | None = None
    extra: Extras = NOTHING


class SavedSequence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A live sequence."""

    table: tuple[int, ...]
    tokens: tuple[int, ...]
    num_cached_tokens: int = 0
    extra: Extras = NOTHING


class SavedLedger(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A ledger. free: head first; evictable: oldest first; contents: each after its parent."""

    free: tuple[int, ...] = ()
    evictable: tuple[int, ...] = ()
    contents: tuple[Content, ...] = ()
    sequences: dict[str, SavedSequence] = {}


def saved_ledger(ledger: Ledger) -> SavedLedger:
    """The ledger as JSON. O(pool + tokens)."""
    carriers: dict[Identity, list[int]] = {}
    for b, carried in enumerate(ledger.block_hash):
        if carried is not None:
            carriers.setdefault(carried, []).append(b)
    place: dict[Identity, int] = {}
    contents: list[Content] = []
    for wanted in carriers:
        missing: list[Identity] = []
        node: Identity | None = wanted
        while node is not None and node not in place:
            missing.append(node)
            node = node.parent
        for h in reversed(missing):
            place[h] = len(contents)
            parent = place[h.parent] if h.parent is not None else None
            blocks, mapped = tuple(carriers.get(h, ())), ledger.hash_to_block.get(h)
            contents.append(Content(h.tokens, parent, blocks, mapped, Extras.of(h.extra)))
    sequences = {
        str(seq): SavedSequence(s.table, s.tokens, s.num_cached_tokens, Extras.of(s.extra))
        for seq, s in ledger.sequences.items()
    }
    return SavedLedger(tuple(ledger.free), tuple(ledger.evictable), tuple(contents), sequences)


def ledger_of(pool: Pool, saved: SavedLedger) -> Ledger:
    """The ledger of a saved one. Raises UsageError if no pool could be in that state. O(pool + tokens)."""
    block_hash: list[Identity | None] = [None] * pool.num_blocks
    hash_to_block: dict[Identity, int] = {}
    nodes: list[Identity] = []
    for i, content in enumerate(saved.contents):
        what = f"content {i}"
        _demand(
            len(content.tokens) == pool.block_size, f"{what} has {len(content.tokens)} tokens, not {pool.block_size}"
        )
        _demand(content.parent is None or 0 <= content.parent < i, f"{what} stands before its parent")
        _demand(all(map(_is_token, content.tokens)), f"{what} has tokens beyond 0 .. 2^32-1")
        parent = nodes[content.parent] if content.parent is not None else None
        h = identity(parent, content.tokens, content.extra.items)
        nodes.append(h)
        for b in content.blocks:
            _demand(0 <= b < pool.num_blocks and block_hash[b] is None, f"{what}: block {b} is none, or has another")
            block_hash[b] = h
        if content.mapped is not None:
            _demand(content.mapped in content.blocks, f"{what} is mapped to block {content.mapped}, which has another")
            hash_to_block[h] = content.mapped
    _demand(len(set(nodes)) == len(nodes), "two contents are the same")
    _demand(pool.enable_prefix_cache or not nodes, "it has cached contents, though the prefix cache is off")
    ref = [0] * pool.num_blocks
    sequences: dict[SeqId, Sequence] = {}
    fresh = Ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache, (), (), (), (), {}, {})
    for seq, record in saved.sequences.items():
        extra = record.extra.items
        chain = full_chain(fresh, record.tokens, extra)
        _check_sequence(pool, seq, record)
        for i, b in enumerate(record.table):
            ref[b] += 1
            due = chain[i] if i < len(chain) else None
            _demand(block_hash[b] is due, f"block {b} does not carry the content that {seq!r} has there")
        sequences[seq] = Sequence(record.table, record.tokens, chain, record.num_cached_tokens, extra)
    _check_lists(pool, saved, ref, block_hash)
    return fresh._replace(
        free=saved.free,
        evictable=saved.evictable,
        ref=tuple(ref),
        block_hash=tuple(block_hash),
        hash_to_block=hash_to_block,
        sequences=sequences,
    )


def _check_sequence(pool: Pool, seq: str, record: SavedSequence) -> None:
    _demand(bool(seq) and bool(record.tokens), "a sequence has an id and at least one token")
    _demand(all(map(_is_token, record.tokens)), f"{seq!r} has tokens beyond 0 .. 2^32-1")
    _demand(is_legal(record.extra.items, len(record.tokens)), f"no prompt of {seq!r} can have had that extra")
    due = blocks_for(len(record.tokens), pool.block_size)
    _demand(len(record.table) == due, f"{len(record.tokens)} tokens of {seq!r} need a table of {due} blocks")
    _demand(all(0 <= b < pool.num_blocks for b in record.table), f"the table of {seq!r} names blocks that are none")
    _demand(len(set(record.table)) == due, f"a block stands twice in the table of {seq!r}")
    cached = record.num_cached_tokens
    fits = 0 <= cached < len(record.tokens) and not cached % pool.block_size
    _demand(fits, f"{cached} tokens of {seq!r} cannot have been cached")
    _demand(not cached or pool.enable_prefix_cache, f"tokens of {seq!r} were cached, though the prefix cache is off")


def _check_lists(pool: Pool, saved: SavedLedger, ref: list[int], block_hash: list[Identity | None]) -> None:
    shared = next((b for b, count in enumerate(ref) if count > 1 and block_hash[b] is None), None)
    _demand(shared is None, f"block {shared} is in two tables, and has no content that they could share")
    places = [0 if count == 0 else 1 for count in ref]
    for name, listed, has_content in (("free", saved.free, False), ("evictable", saved.evictable, True)):
        for b in listed:
            _demand(0 <= b < pool.num_blocks, f"{name} names block {b}, which is none")
            _demand((block_hash[b] is not None) is has_content, f"block {b} does not belong in {name}")
            places[b] += 1
    wrong = next((b for b, count in enumerate(places) if count != 1), None)
    _demand(wrong is None, f"block {wrong} is to be in one place: the free list, the evictable pool, or live tables")


def _is_token(token: int) -> bool:
    return 0 <= token <= MAX_TOKEN


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UsageError(f"the ledger in the header of the trace makes no sense: {otherwise}")
