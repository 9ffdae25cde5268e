"""All that is said of the checks, round by round, in CPU time of one core."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.checks.generated import Empty, Unchecked, checked, play
from bench.checks.kills import kills, planted
from bench.checks.profiling import shares
from bench.checks.results import Checks, Rates
from bench.checks.search import alone, compared
from bench.measuring import machine
from bench.results import Spread
from kvaudit.api import ApiTarget
from kvaudit.protocol import Pool
from kvaudit.targets import TargetSpec
from kvaudit.workload import Engine

SWARM, HYPOTHESIS, SEARCH = "swarm", "Hypothesis", "search"
ALL, UNCHECKED, EMPTY = "all checks", "checks off", "empty loop"
OBSERVED, BLACK_BOX = "with observe()", "from outside"

Tell = Callable[[str], None]
"""Called with what is being measured."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. blocks, block_size: the pool that is searched. bugs: how many planted ones, or all."""

    rounds: int
    swarm_steps: int = 40_000
    hypothesis_steps: int = 6_000
    blocks: int = 4
    block_size: int = 1
    bugs: int | None = None

    def calls(self, bugs: int) -> int:
        """How often `Tell` is called, of so many planted bugs."""
        return self.rounds * (3 + 3 + 2) + 3 + 2 * (bugs if self.bugs is None else self.bugs)


QUICK = Plan(1, 2_000, 300, 2, 1, 4)
"""To see that it works."""


def run(plan: Plan, tell: Tell) -> Checks:
    """Measure everything on kvblocks, and on the planted bugs."""
    return Checks(
        machine=machine(),
        rounds=plan.rounds,
        drivers={
            SWARM: _generated("swarm", SWARM, plan.swarm_steps, plan.rounds, tell),
            HYPOTHESIS: _generated("hypothesis", HYPOTHESIS, plan.hypothesis_steps, plan.rounds, tell),
            SEARCH: _searched(plan, tell),
        },
        kills={
            how: kills(planted()[: plan.bugs], range(plan.rounds), tell, black_box=how == BLACK_BOX)
            for how in (OBSERVED, BLACK_BOX)
        },
    )


def _generated(engine: Engine, name: str, steps: int, rounds: int, tell: Tell) -> Rates:
    spec = TargetSpec("kvblocks")
    target = spec.start()
    with_all = partial(checked(target, spec), engine, steps)
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        tell(f"{name}: {ALL}")
        rates[ALL].append(steps / _seconds(with_all))
        tell(f"{name}: {UNCHECKED}")
        unchecked = Unchecked(target, steps)
        rates[UNCHECKED].append(steps / _seconds(partial(play, unchecked, engine)))
        tell(f"{name}: {EMPTY}")
        rates[EMPTY].append(steps / _seconds(partial(play, Empty(unchecked), engine)))
    tell(f"{name}: where the time goes")
    parts = shares(with_all)
    target.close()
    return Rates("checked steps", _spread(rates), parts)


def _searched(plan: Plan, tell: Tell) -> Rates:
    target = TargetSpec("kvblocks").start()
    assert isinstance(target, ApiTarget)
    pool = Pool(plan.blocks, plan.block_size)
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(plan.rounds):
        for name, search in ((ALL, partial(compared, target, pool)), (EMPTY, partial(alone, pool))):
            tell(f"{SEARCH}: {name}")
            began = time.process_time()
            transitions = search().transitions
            rates[name].append(transitions / (time.process_time() - began))
    tell(f"{SEARCH}: where the time goes")
    parts = shares(partial(compared, target, pool))
    target.close()
    return Rates("compared transitions", _spread(rates), parts)


def _seconds(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def _spread(rates: dict[str, list[float]]) -> dict[str, Spread]:
    return {name: Spread.of(of) for name, of in rates.items()}
