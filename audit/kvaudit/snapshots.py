"""The pool after a step as a finding carries it: of the specification's ledger, and of what a target showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from kvaudit import words
from kvaudit.choices import block_list
from kvaudit.oracle import Judgement
from kvaudit.protocol import Mutation, Observed, State
from kvaudit.report import PoolShown
from kvaudit.rulings import own_step
from kvspec.identity import Identity
from kvspec.ledger import Ledger
from kvspec.operations import OutOfBlocks

MAX_BLOCKS = 256
"""Of a larger pool no snapshot is kept: nobody reads such a picture, and each step would carry one."""

NEW_KEY = "new key"
"""The content of a block under a key of the target's that the specification knows nothing of, as far as it was read."""


def due_after(operation: Mutation, judgement: Judgement) -> Ledger:
    """What was due after a step. Where the target's answer is none that is allowed: the specification's own choice."""
    if judgement.step is not None or judgement.refused:
        return judgement.after
    try:
        return own_step(judgement.before, operation).after
    except OutOfBlocks:
        return judgement.before


def of_ledger(ledger: Ledger) -> PoolShown | None:
    """The specification's pool; None if it is too large. O(pool + tokens)."""
    return around(ledger, range(ledger.num_blocks)) if ledger.num_blocks <= MAX_BLOCKS else None


def around(ledger: Ledger, blocks: Collection[int]) -> PoolShown:
    """The specification's pool, with the contents, tables and hits of these blocks only. O(pool + tokens)."""
    names, wanted = _Names(), set(blocks)
    return PoolShown(
        free=list(ledger.free),
        evictable=list(ledger.evictable),
        ref=list(ledger.ref),
        content=names.content([h if b in wanted else None for b, h in enumerate(ledger.block_hash)]),
        tables={
            str(seq): list(record.table)
            for seq, record in ledger.sequences.items()
            if not wanted.isdisjoint(record.table)
        },
        hits={names(h): block for h, block in ledger.hash_to_block.items() if block in wanted},
    )


def of_observed(seen: Observed, num_blocks: int) -> PoolShown | None:
    """What a target showed, its keys replaced by identities. Numbers that are no blocks are left out."""
    if num_blocks > MAX_BLOCKS:
        return None
    state, names = seen.state or State(), _Names()
    tables = state.tables if state.tables is not None else seen.tables
    return PoolShown(
        free=_blocks(state.free, num_blocks),
        evictable=_blocks(state.evictable, num_blocks),
        ref=_entries(state.ref, num_blocks),
        content=names.content(_entries(state.block_hash, num_blocks)),
        tables=None if tables is None else {seq: block_list(table, num_blocks) or [] for seq, table in tables.items()},
        hits=None if state.hash_to_block is None else {names(h): b for h, b in state.hash_to_block.items()},
    )


def _blocks(blocks: Sequence[int] | None, num_blocks: int) -> list[int] | None:
    return None if blocks is None else [b for b in blocks if 0 <= b < num_blocks]


def _entries(entries: Sequence[Any] | None, num_blocks: int) -> list[Any] | None:
    """An entry for each block; None if there are more or fewer."""
    return list(entries) if entries is not None and len(entries) == num_blocks else None


class _Names:
    """Prefixes as texts, each with its own. A key that stands for no prefix that is due is called a new key."""

    def __init__(self) -> None:
        self._name_of: dict[Identity | None, str] = {}
        self._times: Counter[str] = Counter()

    def __call__(self, h: Identity | None) -> str:
        if h not in self._name_of:
            text = words.short(h) if h is not None and h.is_known else NEW_KEY
            self._times[text] += 1
            self._name_of[h] = text if self._times[text] == 1 else f"{text} #{self._times[text]}"
        return self._name_of[h]

    def content(self, identities: Sequence[Any] | None) -> list[str | None] | None:
        """The text for each block."""
        return None if identities is None else [None if h is None else self(h) for h in identities]
