"""Makes a saved trace small on a target: what `kvaudit shrink` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.errors import UsageError
from kvaudit.execution import Execution
from kvaudit.interrupt import Interrupt
from kvaudit.levels import play
from kvaudit.profiles import Profile
from kvaudit.scenario import Scenario
from kvaudit.shrink import shrink
from kvaudit.targets import Target
from kvaudit.trace import TraceHeader, TraceLine, features_of

_MAX_PLAYS = 20_000
"""Ten times those of an audit: somebody waits for this one trace, and may end it with Ctrl-C."""


class Small(NamedTuple):
    """A small trace. told: what the user should know. summary: how small it is."""

    header: TraceHeader
    lines: list[TraceLine]
    told: list[str]
    summary: str


def minimise(
    target: Target, profile: Profile, header: TraceHeader, scenario: Scenario, tell: Callable[[int, int], None]
) -> Small:
    """Shrink a trace, keeping the obligation that it violates. Ctrl-C ends it with what there is by then.

    tell(plays, operations) is called before each play, with the operations of the smallest scenario so far. Raises
    UsageError if the trace violates nothing on this target.
    """
    failing = play(target, scenario, profile)
    if not failing.breaches:
        raise UsageError(f"the trace violates nothing on {target.name}: there is nothing to shrink")
    obligation = gravest(failing.breaches).obligation
    plays, smallest = 0, len(failing.played)

    with Interrupt() as interrupt:

        def breaks(candidate: Scenario) -> Scenario | None:
            nonlocal plays, smallest
            plays += 1
            tell(plays, smallest)
            if interrupt.came or not profile.limits.allow(candidate.pool):
                return None
            again = play(target, candidate, profile)
            if not _violates(again, obligation):
                return None
            smallest = min(smallest, len(again.played))
            return again.scenario

        small = play(target, shrink(failing.scenario, breaks, _MAX_PLAYS), profile)
    if not _violates(small, obligation):
        raise UsageError(
            f"the same program on a fresh pool goes otherwise on {target.name}: state is left over from other pools, "
            "or there is chance. Such a failure cannot be shrunk"
        )
    lines = small.transcript()
    told = ["interrupted: it may be possible to make it smaller"] if interrupt.came else []
    if plays >= _MAX_PLAYS:
        told.append(f"ended after {plays:,} plays: it may be possible to make it smaller, by shrinking the new trace")
    if header.obligation not in ("", obligation):
        told.append(f"when it was saved it violated {header.obligation}; on {target.name} it violates {obligation}")
        if "observe" in target.capabilities:
            told.append("with observe() a fault may be seen earlier, under another name: see --black-box")
    new = msgspec.structs.replace(
        header,
        pool=small.pool,
        profile=profile.name,
        obligation=obligation,
        steps=len(lines),
        features=features_of(profile.level, (line.operation for line in lines)),
    )
    return Small(
        new, lines, told, f"{obligation} in {words.count(len(lines), 'operation')} instead of {len(scenario.program):,}"
    )


def _violates(execution: Execution[Any, Any], obligation: str) -> bool:
    return bool(execution.breaches) and gravest(execution.breaches).obligation == obligation
