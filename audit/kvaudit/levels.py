"""The two levels at which a target is driven: as a block manager, whose scheduler is the auditor, or as a scheduler.

What differs between them is here, once. It follows from the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kvaudit import goals, tracker, workload
from kvaudit.duty import Duty
from kvaudit.errors import UsageError
from kvaudit.execution import Execution
from kvaudit.goal import Goal
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import PROFILES, Profile
from kvaudit.protocol import MANAGER, SCHEDULER, LevelName, Pool, Setting
from kvaudit.scenario import Scenario
from kvaudit.scheduling import goals as scheduler_goals
from kvaudit.scheduling import tracker as scheduler_tracker
from kvaudit.scheduling import workload as scheduler_workload
from kvaudit.scheduling.duties import DUTIES
from kvaudit.scheduling.execution import SchedulerExecution
from kvaudit.targets import Target, profile_named
from kvaudit.workload import Rulebook
from kvspec.obligations import LEDGER, OBLIGATIONS


@dataclass(frozen=True)
class Level:
    """How targets of a level are driven and judged.

    duties: the obligations to which they are held, each with its form. essential: obligations without which no verdict
    is worth its name, each with the method of the target without which it is not observable.
    """

    execution: Callable[[Target, Pool, Profile], Execution[Any, Any]]
    rulebook: Rulebook
    goals: tuple[Goal, ...]
    tracker: Callable[[Pool], Any]
    duties: Mapping[str, Duty]
    essential: Mapping[str, str]


LEVELS: dict[LevelName, Level] = {
    MANAGER: Level(
        ManagerExecution,
        workload.RULEBOOK,
        goals.GOALS,
        tracker.Tracker,
        {o.id: Duty(needs=o.needs, weaker=o.weaker) for o in OBLIGATIONS.values()},
        {"K1": "num_cached_tokens", "O1": "num_free_blocks", "I4": "num_free_blocks"},
    ),
    SCHEDULER: Level(
        SchedulerExecution,
        scheduler_workload.RULEBOOK,
        scheduler_goals.GOALS,
        scheduler_tracker.Tracker,
        DUTIES,
        {"I4": "num_free_blocks"},
    ),
}


def level_of(profile: Profile) -> Level:
    """The level whose targets a profile is for."""
    return LEVELS[profile.level]


def rules_for(target: Target, name: str | None) -> Profile:
    """The profile of that name, or else the target's own. Raises UsageError if it is for targets of the other level."""
    profile = profile_named(name or target.profile)
    check_goals(profile)
    if profile.level != target.level:
        others = [other.name for other in PROFILES.values() if other.level == target.level]
        raise UsageError(
            f"the profile {profile.name} is for targets at {profile.level} level, and {target.name} is driven at "
            f"{target.level} level: choose among {', '.join(others)}, or see --level"
        )
    return profile


def check_goals(profile: Profile) -> None:
    """Raises UsageError if it leaves out a goal that there is not: for what a target brings."""
    unknown = sorted(set(profile.beyond) - {goal.id for goal in level_of(profile).goals})
    if unknown:
        raise UsageError(f"the profile {profile.name} leaves out {', '.join(unknown)}: there is no such reach goal")


def play(target: Target, scenario: Scenario, profile: Profile) -> Execution[Any, Any]:
    """Play a program up to its first breach; operations that are not legal where they stand are left out."""
    return level_of(profile).execution(target, scenario.pool, profile).play(scenario.program)


def goals_of(profile: Profile, capabilities: Collection[str]) -> tuple[Goal, ...]:
    """The goals that a target under this profile can reach, with witnesses for pools that it can make.

    capabilities: what the target offers.
    """
    return tuple(
        _fitted(goal, profile)
        for goal in level_of(profile).goals
        if goal.id not in profile.beyond and all(kind in capabilities for kind in goal.needs)
    )


def _fitted(goal: Goal, profile: Profile) -> Goal:
    pool, program = profile.limits.scaled(goal.witness.pool, goal.witness.program)
    return replace(goal, witness=Scenario(pool, program))


def configured(scenario: Scenario, settings: Mapping[str, tuple[Setting, ...]]) -> Iterator[Scenario]:
    """The scenario as it is, and then with each setting of a scheduler at its first value."""
    yield scenario
    for name, values in settings.items():
        yield Scenario(msgspec.structs.replace(scenario.pool, settings={name: values[0]}), scenario.program)


def offered(capabilities: Collection[str]) -> set[str]:
    """What can be observed of a target that offers these methods."""
    return {*capabilities, *([LEDGER] if "observe" in capabilities else [])}


def unseen(profile: Profile, obligation: str, capabilities: Collection[str]) -> list[str]:
    """What the target would have to offer for a violation of the obligation to be seen in full, and does not."""
    duty = level_of(profile).duties.get(obligation, Duty())
    return methods(duty.needs - offered(capabilities))


def methods(needs: Collection[str]) -> list[str]:
    """What is needed, as methods of a target."""
    return ["observe()" if need == LEDGER else f"{need}()" for need in sorted(needs)]
