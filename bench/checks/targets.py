"""What the checks are to reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from bench.checks.measuring import ALL, BLACK_BOX, HYPOTHESIS, OBSERVED, SEARCH, SWARM, UNCHECKED
from bench.checks.results import Checks
from bench.goals import Row, Target


def _rate(driver: str, kind: str = ALL) -> Callable[[Checks], float]:
    return lambda checks: checks.drivers[driver].per_second[kind].median


def _of_unchecked(checks: Checks) -> float:
    return _rate(HYPOTHESIS)(checks) / _rate(HYPOTHESIS, UNCHECKED)(checks)


def median_kill(how: str) -> Callable[[Checks], float | None]:
    """The median over the planted bugs, of which one that was not found takes for ever; None if none was tried."""

    def value(checks: Checks) -> float | None:
        ms = [kill.ms.median if kill.ms is not None else float("inf") for kill in checks.kills[how]]
        return statistics.median(ms) if ms else None

    return value


SWARM_GOAL = 40_000

TARGETS: tuple[Target[Checks], ...] = (
    Target("swarm: checked steps a second", _rate(SWARM), SWARM_GOAL),
    Target("search: compared transitions a second", _rate(SEARCH), 40_000),
    Target("Hypothesis: of its rate with checks off", _of_unchecked, 0.9),
    Target(
        "swarm: median ms until a planted bug is found with observe()",
        median_kill(OBSERVED),
        100,
        at_least=False,
    ),
    Target(
        "swarm: median ms until a planted bug is found from outside",
        median_kill(BLACK_BOX),
        100,
        at_least=False,
    ),
)


def verdicts(checks: Checks) -> list[Row]:
    """A row for each target."""
    return [target.row(checks) for target in TARGETS]
