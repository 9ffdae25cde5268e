"""A workload on pools of several sizes, and what it comes to beside the best that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError, UsageError
from kvaudit.quantities import count_of
from kvaudit.simulate.ceiling import ceiling
from kvaudit.simulate.playing import ByTheClock, FixedNumber, Lives, Play
from kvaudit.simulate.report import PoolResult, Simulated
from kvaudit.simulate.workload import Workload
from kvaudit.trace import MAX_SLOTS
from kvaudit.words import count

UNBOUNDED = "unbounded"

Tick = Callable[[float, str], None]
"""Called with the part that is done, up to 1, and what is being played."""


class Model(NamedTuple):
    """How long a request lives: until `concurrency` others have started, or by the clock of the trace."""

    concurrency: int
    tokens_per_second: float | None

    def lives(self) -> Lives:
        return FixedNumber(self.concurrency) if self.tokens_per_second is None else ByTheClock(self.tokens_per_second)

    def __str__(self) -> str:
        if self.tokens_per_second is None:
            return f"{count(self.concurrency, 'request')} live at once, first in, first out"
        return f"requests arrive as recorded, and generate {self.tokens_per_second:g} tokens a second each"


def pool_sizes(text: str, workload: Workload) -> list[int]:
    """`8k,16k`, `1k..64k` (each twice the one before), `unbounded`: without double ones, smallest first.

    Raises UsageError.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not first or (dots and not last):
            where = f"range {part.strip()} lacks an end" if dots else "size is empty"
            raise UsageError(f"--blocks {text!r}: a {where}; say it as 8k,16k, as 1k..64k, or as {UNBOUNDED}")
        if first == UNBOUNDED and not dots:
            sizes.add(_size(workload.total_blocks, part, workload))
        elif dots:
            end = _size(count_of("--blocks", last), part, workload)
            sizes.update(_doubled(count_of("--blocks", first), end, text))
        else:
            sizes.add(_size(count_of("--blocks", first), part, workload))
    if min(sizes) < 1:
        raise UsageError(f"--blocks {text}: a pool has one block at least")
    return sorted(sizes)


def _size(num_blocks: int, part: str, workload: Workload) -> int:
    """The size, if a pool of so many blocks can be played: to make one takes time and memory for each block."""
    most = MAX_SLOTS // workload.played_size
    if num_blocks > most:
        raise UsageError(
            f"--blocks {part.strip()}: a pool of more than {MAX_SLOTS:,} slots cannot be played; with "
            f"{count(workload.played_size, 'slot')} a block, that is {count(most, 'block')} at most"
        )
    return num_blocks


def _doubled(first: int, last: int, text: str) -> Iterator[int]:
    if not 1 <= first <= last:
        raise UsageError(f"--blocks {text}: a range goes up, from 1 at least")
    while first < last:
        yield first
        first *= 2
    yield last


class Simulation:
    """One trace on one target. `pools` is what is done so far."""

    def __init__(self, trace: str, workload: Workload, target: ApiTarget, model: Model) -> None:
        if model.tokens_per_second is not None and not workload.timed:
            raise UsageError(f"{trace} does not say when requests arrive: simulate it with --concurrency")
        self._trace, self._workload, self._target, self._model = trace, workload, target, model
        self._best = ceiling(workload)
        self.pools: list[PoolResult] = []

    def run(self, sizes: Sequence[int], tick: Tick) -> None:
        """Play the workload on a pool of each size. Raises TargetError."""
        total = len(self._workload.requests) * len(sizes)
        for size in sizes:
            before, what = len(self._workload.requests) * len(self.pools), f"a pool of {count(size, 'block')}"
            play = Play(self._target, size, self._workload, self._model.lives())
            pool = play.run(lambda done: tick((before + done) / total, what))  # noqa: B023 (called within)
            if pool.hit_blocks > self._best.reusable:
                raise TargetError(
                    f"{self._target.name} says that {pool.hit_blocks:,} blocks were hits, and only "
                    f"{self._best.reusable:,} had come before: kvaudit run {self._target.name} shows what is wrong"
                )
            self.pools.append(pool)

    def result(self, *, complete: bool) -> Simulated:
        """What it came to."""
        workload = self._workload
        return Simulated(
            trace=self._trace,
            kind=workload.kind,
            target=self._target.name,
            block_size=workload.block_size,
            requests=len(workload.requests),
            prompt_blocks=workload.prompt_blocks,
            total_blocks=workload.total_blocks,
            seen_blocks=self._best.seen,
            reusable_blocks=self._best.reusable,
            model=str(self._model),
            pools=self.pools,
            complete=complete,
        )
