"""What is to be searched, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kvaudit.profiles import Profile
from kvaudit.protocol import Pool
from kvaudit.targets import Target, TargetSpec

BOUNDED_DEPTH = 3
"""How many operations deep a target is searched that has to be played from the start for each transition."""

STRICT_BLOCKS = 3
"""Up to so many blocks their numbers count where the profile lays them down to the letter."""


@dataclass(frozen=True)
class Options:
    """How to search.

    depth: no more operations than that (None: all, or BOUNDED_DEPTH where programs are played). without: symmetries
    that are not to be used. processes: how many. misuse: O10 sets the exit code. failures: where traces are saved.
    """

    depth: int | None = None
    without: frozenset[str] = frozenset()
    processes: int = 1
    max_time_s: float | None = None
    misuse: bool = False
    failures: Path | None = None


class Tick(NamedTuple):
    """How far the search of a pool is."""

    pool: Pool
    kind: str
    depth: int
    states: int
    waiting: int
    transitions: int
    seconds: float


@dataclass(frozen=True)
class Job:
    """A started target and the rules for it. `spec` starts another one for each process where it must."""

    target: Target
    spec: TargetSpec
    profile: Profile
    options: Options
    on_tick: Callable[[Tick], None] = lambda tick: None
    deadline: float | None = None
