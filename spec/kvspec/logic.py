"""The small language in which obligations are written, and how it is evaluated on real ledgers.

An obligation is a function of a `Logic` (connectives and quantifiers) and of `View`s (what can be said of a
state). `Finite` and `LedgerView` evaluate it by going through all blocks, sequences and identities; a prover
evaluates the very same text with terms in place of numbers. So every function of a view is total: of a block
without an identity, `hash_of` says something that equals no identity, and of an unmapped identity, `block_of`
says a number that is no block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from typing import Any, Protocol, TypeVar

from kvspec.extra import Extra
from kvspec.identity import Identity, chain_from
from kvspec.ledger import Ledger, SeqId, Sequence
from kvspec.variants import SEED_VARIANTS, Variants

Claim = Any  # a bool, or a term that stands for one
Number = Any  # an int, or a term that stands for one

T = TypeVar("T")


class View(Protocol):
    """What can be said of a state."""

    num_blocks: Number
    block_size: Number
    cache_on: Claim
    num_free_blocks: Number  # as reported by the manager
    num_listed_free: Number
    num_listed_evictable: Number
    num_held: Number  # blocks with ref > 0

    def times_free(self, b: Number) -> Number:
        """How often the free list lists b."""

    def times_evictable(self, b: Number) -> Number:
        """How often the evictable pool lists b."""

    def ahead_in_free(self, b: Number, c: Number) -> Claim:
        """b and c are in the free list, b nearer to the head."""

    def older(self, b: Number, c: Number) -> Claim:
        """b and c are in the evictable pool, b is older."""

    def ref(self, b: Number) -> Number:
        """The reference count of b."""

    def holders(self, b: Number) -> Number:
        """The number of live tables that contain b."""

    def has_hash(self, b: Number) -> Claim:
        """b carries an identity."""

    def hash_of(self, b: Number) -> Any:
        """The identity that b carries."""

    def mapped(self, h: Any) -> Claim:
        """h can be hit."""

    def block_of(self, h: Any) -> Number:
        """The block that h is mapped to."""

    def live(self, q: Any) -> Claim:
        """q is the id of a live sequence."""

    def num_tokens(self, q: Any) -> Number:
        """The length of sequence q."""

    def token(self, q: Any, p: Number) -> Number:
        """Token p of sequence q."""

    def table_len(self, q: Any) -> Number:
        """The number of blocks of sequence q."""

    def table(self, q: Any, i: Number) -> Number:
        """Block i of sequence q."""

    def chain_len(self, q: Any) -> Number:
        """The number of identities in the chain of sequence q."""

    def chain(self, q: Any, i: Number) -> Any:
        """Identity i in the chain of sequence q."""

    def prefix(self, q: Any, i: Number) -> Any:
        """The identity of the first (i+1) * block_size tokens of q, whatever its chain says."""

    def cached(self, q: Any) -> Number:
        """The number of tokens that were hits when q was allocated."""

    def extra(self, q: Any) -> Any:
        """What the KV of sequence q depends on beside its tokens."""

    def cell(self, b: Number, offset: Number) -> Any:
        """The prefix whose K/V the memory holds in that slot."""

    def prefix_of_token(self, q: Any, p: Number) -> Any:
        """The prefix of q that ends with token p."""


class Logic(Protocol):
    """Connectives and quantifiers."""

    def all(self, *claims: Claim) -> Claim:
        """Every claim holds."""

    def any(self, *claims: Claim) -> Claim:
        """At least one claim holds."""

    def no(self, claim: Claim) -> Claim:
        """The claim does not hold."""

    def implies(self, premise: Claim, conclusion: Claim) -> Claim:
        """The conclusion holds wherever the premise does."""

    def iff(self, left: Claim, right: Claim) -> Claim:
        """Both hold or neither does."""

    def every_block(self, claim: Callable[[Any], Claim]) -> Claim:
        """The claim holds of every block of the pool."""

    def every_sequence(self, claim: Callable[[Any], Claim]) -> Claim:
        """The claim holds of every sequence id, live or not."""

    def every_identity(self, claim: Callable[[Any], Claim]) -> Claim:
        """The claim holds of every identity."""

    def every_below(self, count: Number, claim: Callable[[Any], Claim]) -> Claim:
        """The claim holds of 0 .. count - 1."""


class Finite:
    """Evaluates by looking at every block, sequence and identity that some given ledgers speak of."""

    def __init__(self, *ledgers: Ledger) -> None:
        self._blocks = range(ledgers[0].num_blocks)
        self._sequences = {q for ledger in ledgers for q in ledger.sequences}
        self._identities: set[Identity] = set()
        for ledger in ledgers:
            self._identities.update(ledger.hash_to_block, filter(None, ledger.block_hash))
            for seq in ledger.sequences.values():
                self._identities.update(seq.chain, chain_from(None, seq.tokens, ledger.block_size, seq.extra))

    def all(self, *claims: bool) -> bool:
        return all(claims)

    def any(self, *claims: bool) -> bool:
        return any(claims)

    def no(self, claim: bool) -> bool:
        return not claim

    def implies(self, premise: bool, conclusion: bool) -> bool:
        return not premise or conclusion

    def iff(self, left: bool, right: bool) -> bool:
        return bool(left) == bool(right)

    def every_block(self, claim: Callable[[int], bool]) -> bool:
        return all(map(claim, self._blocks))

    def every_sequence(self, claim: Callable[[SeqId], bool]) -> bool:
        return all(map(claim, self._sequences))

    def every_identity(self, claim: Callable[[Identity], bool]) -> bool:
        return all(map(claim, self._identities))

    def every_below(self, count: int, claim: Callable[[int], bool]) -> bool:
        return all(map(claim, range(count)))


_NO_RECORD = Sequence(table=(), tokens=(), chain=(), num_cached_tokens=0)


class LedgerView:
    """Reads a ledger, and the memory beside it if there is one.

    num_free_blocks: what the manager reports, where that may differ from what the ledger says.
    memory: maps a slot to the prefix whose K/V it holds.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        num_free_blocks: int | None = None,
        memory: Callable[[int], Identity | None] = lambda slot: None,
    ) -> None:
        self._ledger = ledger
        self._memory = memory
        self.num_blocks = ledger.num_blocks
        self.block_size = ledger.block_size
        self.cache_on = ledger.enable_prefix_cache
        self.num_free_blocks = ledger.num_free_blocks if num_free_blocks is None else num_free_blocks
        self.num_listed_free = len(ledger.free)
        self.num_listed_evictable = len(ledger.evictable)
        self.num_held = sum(count > 0 for count in ledger.ref)

    def _record(self, q: SeqId) -> Sequence:
        return self._ledger.sequences.get(q, _NO_RECORD)

    def times_free(self, b: int) -> int:
        return self._ledger.free.count(b)

    def times_evictable(self, b: int) -> int:
        return self._ledger.evictable.count(b)

    def ahead_in_free(self, b: int, c: int) -> bool:
        return _precedes(self._ledger.free, b, c)

    def older(self, b: int, c: int) -> bool:
        return _precedes(self._ledger.evictable, b, c)

    def ref(self, b: int) -> int:
        return _at(self._ledger.ref, b, 0)

    def holders(self, b: int) -> int:
        return sum(b in seq.table for seq in self._ledger.sequences.values())

    def has_hash(self, b: int) -> bool:
        return _at(self._ledger.block_hash, b, None) is not None

    def hash_of(self, b: int) -> Identity | None:
        return _at(self._ledger.block_hash, b, None)

    def mapped(self, h: Identity | None) -> bool:
        return h in self._ledger.hash_to_block

    def block_of(self, h: Identity | None) -> int:
        return self._ledger.hash_to_block.get(h, -1) if h is not None else -1

    def live(self, q: SeqId) -> bool:
        return q in self._ledger.sequences

    def num_tokens(self, q: SeqId) -> int:
        return len(self._record(q).tokens)

    def token(self, q: SeqId, p: int) -> int:
        return _at(self._record(q).tokens, p, -1)

    def table_len(self, q: SeqId) -> int:
        return len(self._record(q).table)

    def table(self, q: SeqId, i: int) -> int:
        return _at(self._record(q).table, i, -1)

    def chain_len(self, q: SeqId) -> int:
        return len(self._record(q).chain)

    def chain(self, q: SeqId, i: int) -> Identity | None:
        return _at(self._record(q).chain, i, None)

    def prefix(self, q: SeqId, i: int) -> Identity | None:
        record = self._record(q)
        tokens = record.tokens[: (i + 1) * self.block_size]
        return _at(tuple(chain_from(None, tokens, self.block_size, record.extra)), i, None)

    def cached(self, q: SeqId) -> int:
        return self._record(q).num_cached_tokens

    def extra(self, q: SeqId) -> Extra:
        return self._record(q).extra

    def cell(self, b: int, offset: int) -> Identity | None:
        return self._memory(b * self.block_size + offset)

    def prefix_of_token(self, q: SeqId, p: int) -> Identity | None:
        record = self._record(q)
        nodes = list(chain_from(None, record.tokens[: p + 1], 1, record.extra))
        return nodes[-1] if nodes else None


class Transition:
    """One operation: the views before and after it, what it was given and what it answered.

    tokens: the prompt of an allocate, or the one token of an append. extra: what else was given to an allocate.
    refused: the answer was a refusal.
    """

    def __init__(
        self,
        before: View,
        after: View,
        seq_id: SeqId,
        tokens: tuple[int, ...] = (),
        *,
        extra: Extra = (),
        refused: bool = False,
        result: tuple[int, ...] | int | None = None,
        variants: Variants = SEED_VARIANTS,
    ) -> None:
        self.before = before
        self.after = after
        self.seq_id = seq_id
        self.refused = refused
        self.variants = variants
        self.num_tokens = len(tokens)
        self.extra = extra
        self._tokens = tokens
        self._result = result
        self._identities: tuple[Identity, ...] = tuple(chain_from(None, tokens, before.block_size, extra))
        self.run_of_hits, self.idle_in_run = self._hits()

    def _hits(self) -> tuple[Number, Number]:
        """How many blocks of the prompt are hits, by the definition of a hit, and how many of those are idle."""
        s, run, idle = self.before, 0, 0
        while (
            s.cache_on
            and run < (self.num_tokens - 1) // s.block_size
            and run < len(self._identities)
            and s.mapped(self._identities[run])
        ):
            idle += s.ref(s.block_of(self._identities[run])) == 0
            run += 1
        return run, idle

    def token(self, p: Number) -> Number:
        """Token p of what was given."""
        return _at(self._tokens, p, -1)

    def identity(self, i: Number) -> Any:
        """The identity of block i of the prompt; blocks that are not full have none."""
        return _at(self._identities, i, None)

    @property
    def slot(self) -> Number:
        """The answer of an append."""
        return self._result if isinstance(self._result, int) else -1

    @property
    def result_len(self) -> Number:
        """How many blocks the answer of an allocate lists."""
        return len(self._result) if isinstance(self._result, tuple) else 0

    def result(self, i: Number) -> Number:
        """Block i of the answer of an allocate."""
        return _at(self._result, i, -1) if isinstance(self._result, tuple) else -1


def _at(items: Items[T], i: int, missing: T) -> T:
    return items[i] if 0 <= i < len(items) else missing


def _precedes(items: Iterable[int], b: int, c: int) -> bool:
    listed = list(items)
    return b in listed and c in listed and listed.index(b) < listed.index(c)
