"""What is compared of two targets after an operation, and how a difference is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvaudit import words
from kvaudit.choices import block_list
from kvaudit.observation import check_sense
from kvaudit.protocol import Allocate, Append, Mutation, Outcome, Pool, Raised, Returned, State, is_hang

Tokens = tuple[int, ...]

KINDS = {
    "answer": "one completes what the other refuses, or raises",
    "cached": "num_cached_tokens, how much of a prompt is hit",
    "tables": "block tables and slots: which sequences share which blocks",
    "free": "num_free_blocks",
    "can_allocate": "can_allocate",
    "kept": "what can be hit afterwards: which prefixes have been registered, kept, or evicted",
}
"""Each kind of difference, with what it is about; the first that is there gives a difference its name."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "answer": (),
    "cached": ("num_cached_tokens",),
    "tables": (),
    "free": ("num_free_blocks",),
    "can_allocate": ("can_allocate",),
    "kept": ("observe",),
}
"""What both targets have to offer for a kind to be compared."""


class Difference(NamedTuple):
    """One difference: its kind, and what it is in words; A is the first target and B the other."""

    kind: str
    detail: str


class Shown(NamedTuple):
    """What one target showed after an operation; None where it does not show it.

    tables: those of the live sequences, as it gives them or as its answers told. fits: can_allocate of some length.
    slot: of some token, counted from the block that its table has for it. kept: the prefixes that can be hit.
    """

    answer: Outcome
    tables: dict[str, list[int]]
    cached: dict[str, Any] | None
    free: Any
    fits: Any
    slot: Any
    kept: frozenset[Tokens] | None
    block_size: int


def differences(operation: Mutation, a: Shown, b: Shown, *, strict: bool) -> Iterator[Difference]:
    """Every difference of two targets after an operation, the kinds in their order. strict: block numbers count."""
    if (one := _ended(a.answer)) != (other := _ended(b.answer)):
        yield Difference("answer", f"{words.call(operation)}: A {one}, B {other}")
        return  # from here on their callers have different sequences
    if a.cached != b.cached:
        yield Difference("cached", f"tokens cached: {_told(a.cached, b.cached)}")
    yield from _tables(operation, a, b, strict)
    if a.slot != b.slot:
        yield Difference("tables", f"slot(), counted from the block of the table: {_told(a.slot, b.slot)}")
    if a.free != b.free:
        yield Difference("free", f"blocks free: A {words.short(a.free)}, B {words.short(b.free)}")
    if a.fits != b.fits:
        yield Difference("can_allocate", f"can_allocate: A {words.short(a.fits)}, B {words.short(b.fits)}")
    if a.kept is not None and b.kept is not None and a.kept != b.kept:
        only = [_prefixes(one - other) for one, other in ((a.kept, b.kept), (b.kept, a.kept))]
        yield Difference("kept", f"can be hit in A only: {only[0]}; in B only: {only[1]}")


def _ended(answer: Outcome) -> str:
    """How an operation ended; how a refusal is called does not count."""
    if is_hang(answer):
        return "hangs"
    if isinstance(answer, Raised):
        return f"raises {answer.error}"
    return "completes" if isinstance(answer, Returned) else "refuses"


def _tables(operation: Mutation, a: Shown, b: Shown, strict: bool) -> Iterator[Difference]:
    """Up to renaming, tables are equal if one bijection of the blocks that are held takes each to its counterpart."""
    if strict or a.tables.keys() != b.tables.keys():
        if a.tables != b.tables:
            yield Difference("tables", f"tables: {_told(a.tables, b.tables)}")
        return
    there: dict[int, int] = {}
    back: dict[int, int] = {}
    for seq, table in a.tables.items():
        other = b.tables[seq]
        pairs = zip(table, other, strict=False)
        if len(table) != len(other) or any(there.setdefault(x, y) != y or back.setdefault(y, x) != x for x, y in pairs):
            yield Difference("tables", f"no renaming makes these the same tables: {_told(a.tables, b.tables)}")
            return
    if isinstance(operation, Append):
        first, second = (_place(operation, shown) for shown in (a, b))
        if first != second:
            yield Difference("tables", f"the slot, counted from its block: A {first}, B {second}")


def _place(operation: Append, shown: Shown) -> str:
    """Where in the last block of its sequence an append put its token."""
    table = shown.tables.get(operation.seq)
    if not isinstance(shown.answer, Returned) or not table:
        return "none"
    slot = shown.answer.value
    return str(slot - table[-1] * shown.block_size) if type(slot) is int else words.short(slot)


def _told(one: Any, other: Any) -> str:
    """Two values; of mappings only where they differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        one, other = ({name: value[name] for name in names if name in value} for value in (one, other))
    return f"A {words.short(one)}, B {words.short(other)}"


def _prefixes(prefixes: frozenset[Tokens]) -> str:
    return ", ".join(f"<{' '.join(map(str, prefix))}>" for prefix in sorted(prefixes)) or "nothing"


class Contents:
    """What the opaque keys of a target mean: each stands for the prefix with which it was first seen in a table."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._meaning: dict[Any, Tokens] = {}

    def kept(
        self, state: State, tables: Mapping[str, list[int]], tokens: Mapping[str, Tokens]
    ) -> frozenset[Tokens] | None:
        """The prefixes that can be hit; None if it does not show them, or a key was never seen in a table.

        tables, tokens: of the sequences that are live now, or were before the operation. Raises TargetError if the
        state makes no sense.
        """
        check_sense(state, self._pool.num_blocks)
        if state.block_hash is None or state.hash_to_block is None:
            return None
        size = self._pool.block_size
        for seq, ids in tokens.items():
            for place, block in enumerate(tables.get(seq, ())[: len(ids) // size]):
                key = state.block_hash[block] if 0 <= block < len(state.block_hash) else None
                if key is not None:
                    self._meaning.setdefault(key, ids[: (place + 1) * size])
        found = [self._meaning.get(key) for key in state.hash_to_block]
        return frozenset(prefix for prefix in found if prefix is not None) if None not in found else None


def tables_told(
    operation: Mutation, answer: Outcome, tables: Mapping[str, list[int]], length: int, pool: Pool
) -> dict[str, list[int]]:
    """The tables after an operation, as its answer tells them. length: of its sequence before, in tokens."""
    if not isinstance(answer, Returned):
        return dict(tables)
    others = {seq: table for seq, table in tables.items() if seq != operation.seq}
    if isinstance(operation, Allocate):
        return {**others, operation.seq: block_list(answer.value, pool.num_blocks) or []}
    if isinstance(operation, Append):
        table = tables[operation.seq]
        is_new = length // pool.block_size == len(table) and type(answer.value) is int
        return {**others, operation.seq: [*table, answer.value // pool.block_size] if is_new else table}
    return others
