"""How long the swarm driver takes to find each planted bug."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.checks.results import Kill
from bench.results import Spread
from kvaudit.api import ApiTarget
from kvaudit.collecting import rarely_collecting
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import SEED
from kvaudit.protocol import EXTRAS, Mutation, Pool
from kvaudit.swarm import run_swarm
from kvaudit.workload import RULEBOOK, Driver

MOST_EXAMPLES = 600
"""Of so many one at least must find a bug that is planted, as in the tests of the swarm driver."""


def planted() -> list[type[Any]]:
    """The managers with a bug that shows in legal calls. They live among the tests."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from mutants import MUTANTS

    return [mutant.cls for mutant in MUTANTS if not mutant.misuse]


def kills(
    mutants: Sequence[type[Any]], seeds: Sequence[int], tell: Callable[[str], None], *, black_box: bool
) -> list[Kill]:
    """Of each the CPU time and the steps until it is found, over these seeds; what takes longest first."""
    found = []
    for cls in mutants:
        tell(f"bugs: {cls.__name__}")
        found.append(_kill(cls, seeds, black_box=black_box))
    return sorted(found, key=lambda kill: (kill.ms is not None, -kill.ms.median if kill.ms is not None else 0))


def _kill(cls: type[Any], seeds: Sequence[int], *, black_box: bool) -> Kill:
    target = ApiTarget(cls, name=cls.__name__)
    target.capabilities -= frozenset({"observe"} if black_box else ())
    ms: list[float] = []
    steps: list[int] = []
    for seed in seeds:
        hunter = _Hunter(target)
        began = time.process_time()
        try:
            with rarely_collecting():
                run_swarm(hunter, seed, MOST_EXAMPLES)
        except _Found:
            ms.append((time.process_time() - began) * 1e3)
        steps.append(hunter.steps)
    target.close()
    return Kill(cls.__name__, Spread.of(ms) if len(ms) == len(seeds) else None, statistics.median(steps))


class _Found(Exception):
    """The bug has shown."""


class _Hunter(Driver):
    """Plays with all checks up to the first breach."""

    rulebook = RULEBOOK

    def __init__(self, target: ApiTarget) -> None:
        self.extras = target.capabilities.intersection(EXTRAS)
        self.steps = 0
        self._target = target

    def begin(self, pool: Pool) -> None:
        self._execution = ManagerExecution(self._target, pool, SEED)

    def apply(self, operation: Mutation) -> bool:
        self.steps += 1
        judgement = self._execution.apply(operation)
        if judgement.breaches:
            raise _Found
        return judgement.refused

    def end(self) -> None:
        self._execution.give_all_back()
        if self._execution.breaches:
            raise _Found
