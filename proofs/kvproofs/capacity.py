"""O2, the other way: allocate's check is no stricter than it must be, and a laxer one is wrong.

Necessary: without the check, whatever completes had the capacity that the check asks for. So the check refuses only
what would fail half-way. (That it is sufficient is O2 of `allocate`: after the check nothing runs out of blocks.)

The naive check counts idle hits as room for new blocks. It is refuted by the smallest pool that can be, in a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import z3

from kvblocks import errors
from kvproofs import allocate_reading, allocate_writing
from kvproofs.allocate import begin, step
from kvproofs.executor import Goal
from kvproofs.operation import LoopRule, Run, prove_operation
from kvproofs.removal import excludes_idle_hits, is_capacity_check, real_class, text_without
from kvproofs.state import capture
from kvproofs.theorems import REFUTED
from kvspec.obligations import OBLIGATIONS


def _part_of(rule: LoopRule, *labels: str) -> LoopRule:
    """Of what a rule says, what is needed here."""
    return lambda *args: {label: claim for label, claim in rule(*args).items() if label in labels}


_LOOPS = allocate_reading.LOOPS | {
    allocate_writing.HITS: allocate_writing.hit_loop,
    allocate_writing.TAKE: _part_of(
        allocate_writing.take_loop, "the table", "the free list", "the evictable pool", "room"
    ),
    allocate_writing.REGISTER: lambda *_: {},
}


def unchecked() -> str:
    """The text without allocate's check."""
    return text_without(is_capacity_check)


def necessity(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """allocate of a class without the check: completing implies that the capacity held."""

    def at_end(run: Run) -> None:
        if run.outcome.error is None:
            for clause in OBLIGATIONS["O2"].steps["allocate"]:
                run.prove("O2", clause.__name__, clause(run.logic, step(run, capture(run.manager))))

    return prove_operation(cls, begin, at_end, options, _LOOPS)


@dataclass(frozen=True)
class Workload:
    """A prompt of `num_hits` blocks comes and goes; then one of `num_tokens` comes that begins with the same blocks."""

    num_blocks: int
    block_size: int
    num_hits: int
    num_tokens: int

    def __str__(self) -> str:
        first, second = (list(range(n)) for n in (self.num_hits * self.block_size, self.num_tokens))
        return f"BlockManager({self.num_blocks}, {self.block_size}): allocate {first}, free it, allocate {second}"

    def fails_half_way(self, cls: Any) -> bool:
        """The second prompt is refused after something was written."""
        manager = cls(self.num_blocks, self.block_size)
        manager.allocate("first", range(self.num_hits * self.block_size))
        manager.free("first")
        before = manager.observe()
        try:
            manager.allocate("second", range(self.num_tokens))
        except errors.OutOfBlocks:
            return bool(manager.observe() != before)
        return False


def smallest_between() -> Workload | None:
    """The smallest such workload that fits by the naive check only: the pool first, then the block, then the prompt."""
    pool, size, hits, length = z3.Ints("num_blocks block_size num_hits num_tokens")
    needed = (length + size - 1) / size - hits
    least = z3.Optimize()
    least.add(pool >= 1, size >= 1, length >= 1, 0 <= hits, hits <= pool, hits <= (length - 1) / size)
    least.add(needed <= pool, needed > pool - hits)
    for amount in (pool, size, length):
        least.minimize(amount)
    if least.check() != z3.sat:
        return None
    model = least.model()
    return Workload(*(model.eval(amount, model_completion=True).as_long() for amount in (pool, size, hits, length)))


def naive() -> Any:
    """BlockManager with the naive check: idle hits are not taken out of what is available."""
    return real_class(text_without(excludes_idle_hits))


def naive_check_is_refuted(cls: Any) -> Iterator[Goal]:
    """One goal: the smallest workload, run on the class, fails half-way."""
    workload = smallest_between()
    refuted = workload is not None and workload.fails_half_way(cls)
    yield Goal(REFUTED, f"fails half-way on {workload}", refuted, "" if refuted else "no counterexample")
