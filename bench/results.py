"""What was measured, as it is written to a file and read again."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """The median of several rounds, and their extremes."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Rounded to four digits: more of them mean nothing."""
        return cls(*(float(f"{value:.4g}") for value in (statistics.median(values), min(values), max(values))))


class Cost(msgspec.Struct, frozen=True):
    """us: microseconds a unit. ratio: to kvblocks in the same round, more than 1 where kvblocks is faster."""

    us: Spread
    ratio: Spread


class Measured(msgspec.Struct, frozen=True):
    """One workload. costs: by what was done and by contestant. hit_rates: of the tokens of all prompts."""

    workload: str
    about: str
    num_blocks: int
    block_size: int
    requests: int
    prompt_tokens: int
    live: int
    costs: dict[str, dict[str, Cost]]
    hit_rates: dict[str, float]
    broken: dict[str, str]


class Entrant(msgspec.Struct, frozen=True):
    """A contestant as it took part."""

    name: str
    version: str
    hash: str


class Reading(msgspec.Struct, frozen=True):
    """The memory of a process after so many operations. rss: resident bytes. objects: blocks that Python has allocated.

    The first sees all there is, in pages; the second is exact, and sees small objects only.
    """

    operations: int
    rss: int
    objects: int


class Share(msgspec.Struct, frozen=True):
    """Of one operation of kvblocks, what one part of it, or one kind of it, costs."""

    operation: str
    about: str
    us: float


class Results(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-bench/1"):
    """One run. absent: who could not take part, and why. bytes_per_block: of a pool that is all cached.

    growth: of kvblocks, in a process that does nothing else.
    """

    machine: str
    rounds: int
    entrants: list[Entrant]
    absent: dict[str, str]
    main: list[Measured]
    pools: list[Measured]
    lengths: list[Measured]
    live: list[Measured]
    traces: list[Measured]
    bytes_per_block: dict[str, float]
    growth: list[Reading] = []
    shares: list[Share] = []

    def named(self, workload: str) -> Measured | None:
        """The main workload of that name."""
        return next((measured for measured in self.main if measured.workload == workload), None)


def read(path: Path) -> Results:
    """Read a file of results. Raises OSError, and msgspec's error for what is none."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def merged(old: Results, new: Results) -> Results:
    """The new results, and of what was not measured now the old ones: a part can be measured again by itself."""
    parts = ("main", "pools", "lengths", "live", "traces", "bytes_per_block", "growth", "shares")
    kept = {part: getattr(old, part) for part in parts if not getattr(new, part)}
    return msgspec.structs.replace(new, **kept)


def write(path: Path, results: Results) -> None:
    """Write them. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
