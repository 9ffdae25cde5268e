"""Every goal is reached by its witness, rests on real obligations, and can be missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audit.auditing import audit, target_of
from kvaudit.goal import Goal
from kvaudit.goals import GOALS
from kvaudit.levels import goals_of, level_of
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import PROFILES, STRICT, Profile
from kvaudit.programs import of_manager
from kvaudit.protocol import EXTRAS, Allocate, Append
from kvaudit.report import INCONCLUSIVE, NOT_REACHED
from kvaudit.targets import TargetSpec
from kvaudit.tracker import Tracker
from kvspec.obligations import OBLIGATIONS

each_goal = pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.id)


def reached(goal: Goal, profile: Profile = STRICT) -> Iterator[set[str]]:
    """What each operation of the witness reaches on kvblocks; all of them are legal."""
    execution, tracker = (
        ManagerExecution(TargetSpec("kvblocks").start(), goal.witness.pool, profile),
        Tracker(goal.witness.pool),
    )
    for operation in of_manager(goal.witness.program):
        assert execution.is_legal(operation)
        assert not execution.apply(operation).breaches
        yield tracker.reached(execution.played[-1])


@each_goal
def test_the_witness_reaches_its_goal(goal: Goal) -> None:
    assert goal.id in set().union(*reached(goal))


@each_goal
def test_the_witness_uses_symbols_that_every_alphabet_has(goal: Goal) -> None:
    for operation in goal.witness.program:
        tokens = operation.tokens if isinstance(operation, Allocate) else ()
        tokens += (operation.token,) if isinstance(operation, Append) else ()
        assert all(0 <= token <= 8 for token in tokens)


@each_goal
def test_it_supports_obligations_that_there_are(goal: Goal) -> None:
    assert goal.supports
    assert len(set(goal.supports)) == len(goal.supports)
    assert set(goal.supports) <= set(OBLIGATIONS)


def test_ids_and_statements_are_unique() -> None:
    assert len({goal.id for goal in GOALS}) == len({goal.statement for goal in GOALS}) == len(GOALS)


def test_every_verdict_on_an_obligation_rests_on_some_goal() -> None:
    without_situation = {"O10", "O11"}  # misuse is tried by itself, and reads follow every step
    assert set(OBLIGATIONS) - {name for goal in GOALS for name in goal.supports} == without_situation


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_profile_leaves_out_only_what_cannot_happen_under_it(profile: Profile) -> None:
    left_out = {goal.id for goal in level_of(profile).goals} - {goal.id for goal in goals_of(profile, EXTRAS)}
    assert left_out == set(profile.beyond)


@pytest.mark.parametrize("kind", EXTRAS)
def test_what_a_target_does_not_take_is_not_asked_for(kind: str) -> None:
    left_out = {goal.id for goal in GOALS} - {goal.id for goal in goals_of(STRICT, set(EXTRAS) - {kind})}
    assert left_out == {goal.id for goal in GOALS if kind in goal.needs} != set()


def test_a_goal_that_is_missed_leaves_its_obligations_open() -> None:
    from second.manager import SecondManager

    report = audit(target_of(SecondManager), max_steps=1)
    assert report.exit_code == INCONCLUSIVE
    assert any("never met" in reason for reason in report.reasons)
    [o9] = [row for row in report.rows if row.obligation == "O9"]
    assert (o9.verdict, o9.detail) == (NOT_REACHED, "not met: cache off")
