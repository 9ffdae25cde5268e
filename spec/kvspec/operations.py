"""Three operations on one ledger, and the reads.

Each operation is read top to bottom, like the seed's table of three operations, whose numbers stand in the comments:
what it reads, where it may refuse, what it writes and in which order. Nothing is written before the refusal.
`policy` makes the choices that the specification leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvspec.extra import Extra
from kvspec.identity import Identity, chain_from
from kvspec.ledger import Change, Ledger, SeqId, Sequence
from kvspec.policy import SEED, Policy


class OutOfBlocks(Exception):
    """The refusal: the pool cannot supply the blocks that the operation needs. Nothing has changed."""


class Step(NamedTuple):
    """One completed operation. `result` is the block table, the slot, or None."""

    after: Ledger
    result: tuple[int, ...] | int | None
    change: Change


# --- arithmetic -------------------------------------------------------------------------------------------


def blocks_for(num_tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens: ceil(num_tokens / block_size)."""
    return -(-num_tokens // block_size)


def match_limit(num_tokens: int, block_size: int) -> int:
    """Blocks of a prompt that may be hits: one token at least must be computed, or nothing can be sampled."""
    return (num_tokens - 1) // block_size


# --- reads ------------------------------------------------------------------------------------------------


def full_chain(ledger: Ledger, tokens: tuple[int, ...], extra: Extra = ()) -> tuple[Identity, ...]:
    """The identities of a prompt's full blocks; none with the prefix cache off."""
    return tuple(chain_from(None, tokens, ledger.block_size, extra)) if ledger.enable_prefix_cache else ()


def run_of_hits(ledger: Ledger, chain: tuple[Identity, ...], num_tokens: int) -> tuple[Identity, ...]:
    """The longest run of identities that can be hit, from the start, within the match limit."""
    run: list[Identity] = []
    for h in chain[: match_limit(num_tokens, ledger.block_size)]:
        if h not in ledger.hash_to_block:
            break
        run.append(h)
    return tuple(run)


def available(ledger: Ledger, hits: tuple[int, ...]) -> int:
    """Blocks that can be taken once `hits` are shared: a hit on an idle block uses up one of the free."""
    return ledger.num_free_blocks - sum(ledger.ref[b] == 0 for b in hits)


def slot(ledger: Ledger, seq_id: SeqId, pos: int) -> int:
    """Where the K/V of token `pos` is."""
    return ledger.sequences[seq_id].table[pos // ledger.block_size] * ledger.block_size + pos % ledger.block_size


def can_allocate(ledger: Ledger, num_tokens: int) -> bool:
    """The coarse check: it ignores hits, so True means that allocate succeeds, False that it may fail."""
    return blocks_for(num_tokens, ledger.block_size) <= ledger.num_free_blocks


# --- the three operations ---------------------------------------------------------------------------------


def allocate(ledger: Ledger, seq_id: SeqId, token_ids: Iterable[int], policy: Policy = SEED, extra: Extra = ()) -> Step:
    """Start a sequence; `extra` is what its KV depends on beside the tokens, now and later. Raises OutOfBlocks.

    The caller guarantees a new id, at least one token, and images that lie within the tokens, apart from each other.
    """
    tokens = tuple(token_ids)
    # reads (1) the chain of the full blocks (2) the longest run of hits within the limit (3) capacity
    chain = full_chain(ledger, tokens, extra)
    hits = policy.hits(ledger, run_of_hits(ledger, chain, len(tokens)))
    needed = blocks_for(len(tokens), ledger.block_size) - len(hits)
    idle = available(ledger, hits)
    if needed > idle:
        raise OutOfBlocks(f"{needed} new blocks are needed and {idle} are available")
    new = policy.blocks(ledger, hits, needed)
    # writes (4) share the hits (5) take the others (6) register the new full blocks (7) the sequence's records
    draft = Draft(ledger, policy)
    for b in hits:
        draft.hit(b)
    for b in new:
        draft.take(b)
    table = hits + new
    for b, h in list(zip(table, chain, strict=False))[len(hits) :]:
        draft.register(b, h)
    draft.sequences[seq_id] = Sequence(table, tokens, chain, len(hits) * ledger.block_size, extra)
    return draft.done(result=table)


def append_slot(ledger: Ledger, seq_id: SeqId, token_id: int, policy: Policy = SEED) -> Step:
    """Add one token to a live sequence. Raises OutOfBlocks. The caller guarantees that the id is live."""
    # reads: is a new block needed, and is there one?
    seq = ledger.sequences[seq_id]
    pos = len(seq.tokens)
    needs_block = pos // ledger.block_size == len(seq.table)
    if needs_block and ledger.num_free_blocks == 0:
        raise OutOfBlocks("a new block is needed and none is available")
    new = policy.blocks(ledger, (), 1) if needs_block else ()
    # writes (1) take the new block (2) append the token (3) a block that became full enters the chain, registered
    draft = Draft(ledger, policy)
    for b in new:
        draft.take(b)
    table = seq.table + new
    tokens = (*seq.tokens, token_id)
    chain = seq.chain
    if (pos + 1) % ledger.block_size == 0 and ledger.enable_prefix_cache:
        parent = chain[-1] if chain else None
        chain += tuple(chain_from(parent, tokens[-ledger.block_size :], ledger.block_size, seq.extra, len(chain)))
        draft.register(table[-1], chain[-1])
    draft.sequences[seq_id] = Sequence(table, tokens, chain, seq.num_cached_tokens, seq.extra)
    return draft.done(result=table[-1] * ledger.block_size + pos % ledger.block_size)


def append_slots(
    ledger: Ledger, seq_ids: Iterable[SeqId], token_ids: Iterable[int], policy: Policy = SEED
) -> tuple[Ledger, tuple[int, ...]]:
    """`append_slot` for each pair in turn: the ledger after all of them, and the slots. Raises OutOfBlocks.

    Refused is the whole: a ledger never changes. With one id again and again, it extends that sequence.
    """
    slots = []
    for seq_id, token_id in zip(seq_ids, token_ids, strict=True):
        step = append_slot(ledger, seq_id, token_id, policy)
        assert isinstance(step.result, int)
        ledger = step.after
        slots.append(step.result)
    return ledger, tuple(slots)


def free(ledger: Ledger, seq_id: SeqId) -> Step:
    """End a live sequence, last block first. Never refuses. The caller guarantees that the id is live."""
    # writes: release in reverse order, then delete the sequence's records
    draft = Draft(ledger, SEED)
    for b in reversed(ledger.sequences[seq_id].table):
        draft.release(b)
    del draft.sequences[seq_id]
    return draft.done(result=None)


# --- the writes -------------------------------------------------------------------------------------------


class Draft:
    """A ledger being written: the four writes of the seed, each noting what it did."""

    def __init__(self, ledger: Ledger, policy: Policy) -> None:
        self.policy = policy
        self.books = books = ledger.books()
        self.free = books.free
        self.evictable = books.evictable
        self.ref = books.ref
        self.block_hash = books.block_hash
        self.hash_to_block = books.hash_to_block
        self.sequences = books.sequences
        self.hits: list[int] = []
        self.revived: list[int] = []
        self.taken: list[int] = []
        self.evicted: list[tuple[int, Identity]] = []
        self.unmapped: list[Identity] = []
        self.registered: list[tuple[int, Identity]] = []
        self.duplicates: list[int] = []
        self.released: list[int] = []

    def hit(self, b: int) -> None:
        """Share a cached block; an idle one leaves the evictable pool first."""
        if self.ref[b] == 0:
            self.evictable.remove(b)
            self.revived.append(b)
        self.ref[b] += 1
        self.hits.append(b)

    def take(self, b: int) -> None:
        """Take an idle block for new content; from the evictable pool it is evicted."""
        if self.block_hash[b] is None:
            self.free.remove(b)
        else:
            self.evictable.remove(b)
            self.evict(b)
        self.ref[b] = 1
        self.taken.append(b)

    def evict(self, b: int) -> None:
        """Forget the identity of a block; a mapping goes only if it points at this very block."""
        h = self.block_hash[b]
        assert h is not None
        self.block_hash[b] = None
        self.evicted.append((b, h))
        if self.hash_to_block.get(h) == b:
            heir = self.policy.heir(self.books.carriers(h))
            if heir is None:
                del self.hash_to_block[h]
                self.unmapped.append(h)
            else:
                self.hash_to_block[h] = heir

    def register(self, b: int, h: Identity) -> None:
        """Give a full block its identity; where another one has it too, the policy says which can be hit."""
        self.block_hash[b] = h
        old = self.hash_to_block.setdefault(h, b)
        if old != b:
            self.hash_to_block[h] = self.policy.mapped(old, b)
            self.duplicates.append(b)
        self.registered.append((b, h))

    def release(self, b: int) -> None:
        """One holder less; without a holder it goes to the newest end of its pool, or back to the free list."""
        self.ref[b] -= 1
        if self.ref[b] == 0:
            (self.free if self.block_hash[b] is None else self.evictable).append(b)
        self.released.append(b)

    def done(self, result: tuple[int, ...] | int | None) -> Step:
        change = Change(  # by position: twice as fast as by name, and a search makes millions
            tuple(self.hits),
            tuple(self.revived),
            tuple(self.taken),
            tuple(self.evicted),
            tuple(self.unmapped),
            tuple(self.registered),
            tuple(self.duplicates),
            tuple(self.released),
        )
        return Step(self.books.ledger(), result, change)
