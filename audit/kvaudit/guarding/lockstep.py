"""The ledger that is due, kept beside a manager that serves: each call costs what it changes, not what the pool holds.

The rules are kvspec's (`kvaudit.rulings` on a live ledger). One thing is kept differently: the tokens that a sequence
has appended since it was last looked at are in its `Tail`, since a record of the ledger is a tuple, and a longer one
is a copy. Inside a block an append changes nothing but the tokens, so there it is enough that the slot is the next.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Any

from kvaudit.breach import Breach
from kvaudit.check import by_a_caller
from kvaudit.choices import Appended, Illegal
from kvaudit.protocol import MAX_TOKEN, Allocate, Append, Free, Mutation, Outcome, Pool, Returned
from kvaudit.rulings import rule, wrong_free_count
from kvspec import extra
from kvspec.extra import of_block
from kvspec.identity import Identity, identity
from kvspec.ledger import Ledger, Sequence, empty_ledger
from kvspec.live import live
from kvspec.operations import Draft
from kvspec.policy import SEED
from kvspec.variants import Variants

NONE: Any = object()
"""Stands for the slot of a token that has none before a block is taken: equals no slot."""


class Tail:
    """The end of a live sequence.

    next: the slot of the next token, NONE if it needs a new block. edge: the slot that makes the last block full.
    tokens: those from position `start`, where a block begins, to the end. chain: the identities of the full blocks
    among them, and parent the last identity of all. extra: what the first of these blocks adds beside tokens; what is
    appended adds nothing.
    """

    __slots__ = ("chain", "edge", "extra", "next", "parent", "start", "tokens")

    def __init__(self, record: Sequence, size: int) -> None:
        length = len(record.tokens)
        self.start = length // size * size
        self.tokens = list(record.tokens[self.start :])
        self.edge = record.table[-1] * size + size - 1
        self.next: Any = NONE if length % size == 0 else record.table[-1] * size + length % size
        self.chain: list[Identity] = []
        self.parent = record.chain[-1] if record.chain else None
        self.extra = of_block(record.extra, length // size, size)


class Lockstep:
    """The ledger of a pool, from fresh, and the tails of its live sequences."""

    def __init__(self, pool: Pool, variants: Variants) -> None:
        self.pool = pool
        self.start = empty_ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
        self.ledger: Ledger = live(self.start, indexed=variants.duplicates == "keep all")
        self.tails: dict[Hashable, Tail] = {}
        self.num_free_blocks = pool.num_blocks
        self.variants = variants
        self._sequences = self.ledger.books().sequences

    def judge(self, operation: Mutation, outcome: Outcome, cached: Any, num_free_blocks: Any) -> list[Breach]:
        """Hold a legal call to the specification, and follow it if both agree. O(blocks of the operation).

        An append at the edge of a block costs O(blocks of its table), one that is refused or wrong O(its tokens).
        """
        refused = False
        slot = outcome.value if isinstance(operation, Append) and isinstance(outcome, Returned) else None
        if not (isinstance(operation, Append) and self.append(operation.seq, operation.token, slot)):
            if isinstance(operation, Append):
                self._settle(operation.seq)
            refused, step, breaches = rule(self.ledger, operation, outcome, cached, self.variants, None)
            if step is None and breaches:
                self.settle()
                return by_a_caller(self.pool, self.ledger, operation, outcome, cached) + breaches
            self._follow(operation, outcome)
        self.num_free_blocks = self.ledger.num_free_blocks
        if num_free_blocks is None:
            return []
        return wrong_free_count(operation, refused, self.num_free_blocks, num_free_blocks)

    def settle(self) -> None:
        """Bring the records of all sequences up to date. O(tokens)."""
        for seq in self.tails:
            self._settle(seq)

    def _settle(self, seq: Hashable) -> None:
        tail, record = self.tails[seq], self._sequences[seq]
        if tail.start + len(tail.tokens) == len(record.tokens):
            return
        tokens = record.tokens[: tail.start] + tuple(tail.tokens)
        record = record._replace(tokens=tokens, chain=record.chain + tuple(tail.chain))
        self._sequences[seq] = record
        self.tails[seq] = Tail(record, self.pool.block_size)

    def _follow(self, operation: Mutation, outcome: Outcome) -> None:
        if isinstance(operation, Free):
            del self.tails[operation.seq]
        elif isinstance(outcome, Returned):
            self.tails[operation.seq] = Tail(self._sequences[operation.seq], self.pool.block_size)

    def append(self, seq: Hashable, token: int, slot: Any) -> bool:
        """Whether this is a legal append to a live sequence, and the ledger follows it. With False nothing changed.

        It says of a slot what `rule` says, and does what `kvspec.operations.append_slot` does: a test holds it to that.
        """
        if type(slot) is not int or not 0 <= slot < self.pool.num_blocks * self.pool.block_size:
            return False
        size, tail = self.pool.block_size, self.tails[seq]
        if tail.next is not NONE:
            if slot != tail.next:
                return False
        elif slot % size or not self._takes(seq, slot // size):
            return False
        else:
            tail.edge = slot + size - 1
        tail.tokens.append(token)
        tail.next = slot + 1
        if slot == tail.edge:
            tail.next = NONE
            if self.pool.enable_prefix_cache:
                tail.parent = identity(tail.parent, tail.tokens[-size:], tail.extra)
                tail.extra = ()
                tail.chain.append(tail.parent)
                Draft(self.ledger, SEED).register(slot // size, tail.parent)
        return True

    def _takes(self, seq: Hashable, block: int) -> bool:
        policy = Appended(block, self.variants)
        try:
            policy.blocks(self.ledger, (), 1)
        except Illegal:
            return False
        Draft(self.ledger, policy).take(block)
        record = self._sequences[seq]
        self._sequences[seq] = record._replace(table=(*record.table, block))
        self.num_free_blocks -= 1
        return True


def owners(ledger: Ledger, blocks: tuple[int, ...]) -> list[Hashable]:
    """The live sequences that hold any of these blocks. O(tables)."""
    wanted = set(blocks)
    return [seq for seq, record in ledger.sequences.items() if not wanted.isdisjoint(record.table)]


def is_legal(live: Container[Hashable], operation: Mutation) -> bool:
    """Whether a caller may do this where these sequences are live. O(tokens of the operation)."""
    try:
        is_live = operation.seq in live
    except TypeError:  # no hashable id
        return False
    if isinstance(operation, Allocate):
        tokens = operation.tokens
        is_prompt = bool(tokens) and all(map(_is_token, tokens)) and extra.is_legal(operation.extra.items, len(tokens))
        return not is_live and is_prompt
    return is_live and (isinstance(operation, Free) or _is_token(operation.token))


def _is_token(token: Any) -> bool:
    return isinstance(token, int) and not isinstance(token, bool) and 0 <= token <= MAX_TOKEN
