"""Two targets on one fresh pool each, in lockstep on the same operations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from kvaudit.diffing.compared import Contents, Difference, Shown, Tokens, differences, tables_told
from kvaudit.errors import TargetError
from kvaudit.protocol import (
    Allocate,
    Append,
    CanAllocate,
    Free,
    Mutation,
    Observe,
    Observed,
    Operation,
    Outcome,
    Pool,
    Refused,
    Returned,
    Scribble,
    Slot,
    is_hang,
)
from kvaudit.scenario import Scenario
from kvaudit.targets import Target

_SCRIBBLE = Scribble()
"""A careless caller: it overwrites the lists that it gave and got."""


class Step(NamedTuple):
    """An operation, and what each target showed after it."""

    operation: Mutation
    a: Shown
    b: Shown


class _Side:
    """One of the two."""

    def __init__(self, target: Target, pool: Pool) -> None:
        failed = target.open(pool)
        if failed is not None:
            raise TargetError(
                f"{target.name} could not make a pool of {pool.num_blocks} blocks of {pool.block_size} tokens "
                f"(prefix cache {'on' if pool.enable_prefix_cache else 'off'}): {failed.error}: {failed.message}"
            )
        self._target = target
        self._pool = pool
        self._contents = Contents(pool)
        self.tables: dict[str, list[int]] = {}

    def play(self, operation: Mutation, reads: list[Operation], live: dict[str, Tokens]) -> Shown:
        """Play an operation. live: the tokens of the sequences before it, and of the one that it adds to."""
        outcomes = self._target.run([operation, _SCRIBBLE, *reads, Observe()])
        answer, last = outcomes[0], outcomes[-1]
        if any(map(is_hang, outcomes)):
            answer = last
        seen = last if isinstance(last, Observed) else Observed()
        told = tables_told(operation, answer, self.tables, _length(operation, live), self._pool)
        before, self.tables = self.tables, _as_lists(seen, told)
        kept = None
        if seen.state is not None and "observe" in self._target.capabilities:
            kept = self._contents.kept(seen.state, {**before, **self.tables}, live)
        fits, slot = None, None
        for read, outcome in zip(reads, outcomes[2:], strict=False):
            if isinstance(read, Slot):
                slot = self._from_its_block(read, outcome)
            else:
                fits = outcome.value if isinstance(outcome, Returned) else "no answer"
        size = self._pool.block_size
        return Shown(answer, self.tables, seen.cached, seen.num_free_blocks, fits, slot, kept, size)

    def _from_its_block(self, read: Slot, outcome: Outcome) -> Any:
        """The answer of a slot up to renaming of blocks."""
        place, size = read.pos // self._pool.block_size, self._pool.block_size
        table = self.tables.get(read.seq, [])
        if not isinstance(outcome, Returned) or type(outcome.value) is not int or place >= len(table):
            return "no slot"
        return outcome.value - table[place] * size


class Pair:
    """Two targets on which the same program is played.

    kinds: those that are compared. strict: block numbers count. After a difference, or `ended`, nothing more is played.
    """

    def __init__(self, a: Target, b: Target, pool: Pool, kinds: Collection[str], *, strict: bool) -> None:
        self.pool = pool
        self.steps: list[Step] = []
        self.live: dict[str, Tokens] = {}
        self.ended = False  # the two have other sequences now, or broke down
        self.hangs = False
        self._kinds = kinds
        self._strict = strict
        self._sides = _Side(a, pool), _Side(b, pool)
        self._reads = a.capabilities & b.capabilities

    @property
    def scenario(self) -> Scenario:
        """What has been played so far."""
        return Scenario(self.pool, tuple(step.operation for step in self.steps))

    def is_legal(self, operation: Mutation) -> bool:
        """Whether the caller of both may do this now."""
        is_live = operation.seq in self.live
        legal = not is_live and bool(operation.tokens) if isinstance(operation, Allocate) else is_live
        return legal and not self.ended

    def apply(self, operation: Mutation) -> Difference | None:
        """Play one legal operation on both; the first difference of a kind that is compared."""
        tokens = {**self.live, operation.seq: _after(operation, self.live)}
        reads = self._reads_after(operation)
        a, b = (side.play(operation, reads, tokens) for side in self._sides)
        self.steps.append(Step(operation, a, b))
        found = list(differences(operation, a, b, strict=self._strict))
        self.hangs = is_hang(a.answer) or is_hang(b.answer)
        both = [type(shown.answer) for shown in (a, b)]
        self.ended = self.hangs or both not in ([Returned, Returned], [Refused, Refused])
        if not self.ended and isinstance(a.answer, Returned):
            self.live = {seq: ids for seq, ids in tokens.items() if seq != operation.seq or type(operation) is not Free}
        return next((difference for difference in found if difference.kind in self._kinds), None)

    def give_all_back(self) -> list[Mutation]:
        """What ends a program: every live sequence is freed, and then the whole pool is filled once."""
        frees: list[Mutation] = [Free(seq) for seq in self.live]
        return [*frees, Allocate("all", (3,) * (self.pool.num_blocks * self.pool.block_size)), Free("all")]

    def _reads_after(self, operation: Mutation) -> list[Operation]:
        """`can_allocate` of every length in turn, and `slot` of a token that is there in any case."""
        turn, reads = len(self.steps), list[Operation]()
        if "can_allocate" in self._reads:
            reads.append(CanAllocate(1 + turn % ((self.pool.num_blocks + 1) * self.pool.block_size)))
        sure = [seq for seq in self.live if seq != operation.seq or type(operation) is not Free]
        if "slot" in self._reads and sure:
            seq = sure[turn % len(sure)]
            reads.append(Slot(seq, turn % len(self.live[seq])))
        return reads


def _after(operation: Mutation, live: dict[str, Tokens]) -> Tokens:
    if isinstance(operation, Allocate):
        return operation.tokens
    return live[operation.seq] + ((operation.token,) if isinstance(operation, Append) else ())


def _length(operation: Mutation, tokens: dict[str, Tokens]) -> int:
    return len(tokens[operation.seq]) - isinstance(operation, Append)


def _as_lists(seen: Observed, told: dict[str, list[int]]) -> dict[str, list[int]]:
    """The tables that a target gives where it gives them, else as its answers told."""
    if seen.tables is None:
        return told
    return {str(seq): list(table) if isinstance(table, list | tuple) else [] for seq, table in seen.tables.items()}


def play(
    a: Target, b: Target, scenario: Scenario, kinds: Collection[str], *, strict: bool
) -> tuple[Pair, Difference | None]:
    """Play a program on both up to the first difference; what is not legal where it stands is left out."""
    pair = Pair(a, b, scenario.pool, kinds, strict=strict)
    for operation in scenario.program:
        assert isinstance(operation, Mutation)  # both are block managers
        difference = pair.apply(operation) if pair.is_legal(operation) else None
        if difference is not None:
            return pair, difference
    return pair, None
