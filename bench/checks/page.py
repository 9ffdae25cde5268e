"""The section of docs/performance.md on the checks."""

from __future__ import annotations

from collections.abc import Iterator

from bench.checks.measuring import ALL, BLACK_BOX, EMPTY, OBSERVED, SWARM, UNCHECKED
from bench.checks.results import Checks, Kill
from bench.checks.targets import SWARM_GOAL, verdicts
from bench.goals import markdown
from bench.results import Spread

_SECTION = """\
## The checks

What checking costs, from [`checks.json`](checks.json), which `./check.sh bench --checks` (or
`python -m bench --checks --write docs`) makes: all on kvblocks, in CPU time of one core, on {machine}. Shown are the
median and in brackets the extremes of {rounds} rounds."""

_DRIVERS = """\
*All checks* is what `kvaudit run` and `kvaudit explore` do. *Checks off* is the same driver with the same examples on
the same target: nothing is read or compared. *Empty loop* is that driver with no target at all; of the search, the
specification alone goes through the same states. The pool that is searched has 4 blocks of 1 token."""

_SHARES = """\
Where the time of all checks goes, to a few percent: the own time of functions under a profiler."""

_BUDGET = """\
At {goal:,} a second a step of the swarm may take {allowed:.0f} us. It takes {all:.0f} us, of which {off:.0f} us are
left with the checks off; so the checks would have to become {times:.1f} times as fast. No part of them is large enough
to give that, and none can be left out: a step goes through more than 250 calls of functions. What a target shows is
copied and looked at in C. The collector of cycles plays no part: without it the rate is the same."""

_KILLS = """\
How long the swarm driver, without witnesses and from its first example on, takes to find each planted bug: CPU time
over {rounds} seeds. These take longest; of all {number} the median is {observed} with `observe()` and {outside} from
outside."""

_SLOWEST = 8


def section(checks: Checks) -> list[str]:
    """The lines of the section."""
    machine, rounds = checks.machine, checks.rounds
    return [
        _SECTION.format(machine=machine, rounds=rounds),
        "",
        *markdown(verdicts(checks)),
        "",
        _DRIVERS,
        "",
        *_drivers(checks),
        "",
        _SHARES,
        "",
        *_shares(checks),
        "",
        *_budget(checks),
        *_kills(checks),
    ]


def _drivers(checks: Checks) -> Iterator[str]:
    yield f"| a second | {ALL} | {UNCHECKED} | {EMPTY} |"
    yield "|---|--:|--:|--:|"
    for name, driver in checks.drivers.items():
        cells = " | ".join(_rate(driver.per_second.get(kind)) for kind in (ALL, UNCHECKED, EMPTY))
        yield f"| {name}: {driver.unit} | {cells} |"


def _rate(spread: Spread | None) -> str:
    return f"{spread.median:,.0f} ({spread.low:,.0f}-{spread.high:,.0f})" if spread is not None else ""


def _shares(checks: Checks) -> Iterator[str]:
    yield "| | " + " | ".join(checks.drivers) + " |"
    yield "|---" + "|--:" * len(checks.drivers) + "|"
    parts = dict.fromkeys(part for driver in checks.drivers.values() for part in driver.shares)
    for part in parts:
        cells = [driver.shares.get(part) for driver in checks.drivers.values()]
        yield f"| {part} | " + " | ".join("" if share is None else f"{share:.1%}" for share in cells) + " |"


def _budget(checks: Checks) -> Iterator[str]:
    """How far the swarm is from its target; nothing where it is met."""
    us = {kind: 1e6 / rate.median for kind, rate in checks.drivers[SWARM].per_second.items()}
    allowed = 1e6 / SWARM_GOAL
    if us[ALL] > allowed > us[UNCHECKED]:
        times = (us[ALL] - us[UNCHECKED]) / (allowed - us[UNCHECKED])
        yield _BUDGET.format(goal=SWARM_GOAL, allowed=allowed, all=us[ALL], off=us[UNCHECKED], times=times)
        yield ""


def _kills(checks: Checks) -> Iterator[str]:
    observed, outside = ({kill.mutant: kill for kill in checks.kills[how]} for how in (OBSERVED, BLACK_BOX))
    medians = [next(shown for about, _, shown, _ in verdicts(checks) if how in about) for how in (OBSERVED, BLACK_BOX)]
    yield _KILLS.format(
        rounds=checks.rounds, number=len(observed), observed=f"{medians[0]} ms", outside=f"{medians[1]} ms"
    )
    yield ""
    yield "| | ms, with `observe()` | ms, from outside | steps |"
    yield "|---|--:|--:|--:|"
    for name in list(observed)[:_SLOWEST]:
        yield f"| {name} | {_ms(observed[name])} | {_ms(outside[name])} | {observed[name].steps:,.0f} |"


def _ms(kill: Kill) -> str:
    return f"{kill.ms.median:.3g} ({kill.ms.low:.3g}-{kill.ms.high:.3g})" if kill.ms is not None else "not found"
