"""Shrinking ends, never grows, and keeps what is broken."""

from __future__ import annotations

import pytest

from audit.auditing import target_of
from kvaudit.breach import gravest
from kvaudit.levels import play
from kvaudit.profiles import SEED
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.scenario import Scenario
from kvaudit.shrink import shrink
from mutants import MUTANTS, Mutant

LONG = Scenario(
    Pool(8, 3),
    (
        Allocate("first", (7, 7, 7, 7, 9, 9, 9)),
        Append("first", 8),
        Append("first", 8),
        Allocate("second", (7, 7, 7, 7, 9, 9, 9, 9)),
        Free("first"),
        Allocate("third", (1, 2, 3, 4, 5)),
        Append("third", 6),
        Free("second"),
        Free("third"),
    ),
)


def has(scenario: Scenario, kind: type[Mutation]) -> bool:
    return any(isinstance(operation, kind) for operation in scenario.program)


def test_the_smallest_scenario_with_an_append() -> None:
    small = shrink(LONG, lambda scenario: scenario if has(scenario, Append) else None)
    assert len(small.program) == 1
    assert has(small, Append)
    assert (small.pool.num_blocks, small.pool.block_size) == (1, 1)


def test_prompts_and_tokens_are_made_plain() -> None:
    def same_twice(scenario: Scenario) -> Scenario | None:
        prompts = [operation.tokens for operation in scenario.program if isinstance(operation, Allocate)]
        return scenario if len(prompts) != len(set(prompts)) else None

    twice = Scenario(Pool(4, 2), (Allocate("left", (500, 600, 700)), Allocate("right", (500, 600, 700))))
    small = shrink(twice, same_twice)
    assert [op.tokens for op in small.program if isinstance(op, Allocate)] == [(0,), (0,)]


def test_what_cannot_be_made_smaller_stays() -> None:
    plays = []

    def never(scenario: Scenario) -> None:
        plays.append(scenario)

    assert shrink(LONG, never) == LONG
    assert LONG not in plays


def test_it_ends_at_the_limit() -> None:
    plays = []

    def always(scenario: Scenario) -> Scenario:
        plays.append(scenario)
        return scenario

    shrink(LONG, always, max_plays=3)
    assert len(plays) == 3
    assert shrink(LONG, always, max_plays=0) == LONG


def test_a_target_that_gives_back_something_larger_does_not_keep_it_going() -> None:
    larger = Scenario(LONG.pool, LONG.program * 2)
    assert shrink(LONG, lambda scenario: larger) == LONG


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.misuse][::6], ids=lambda m: m.cls.__name__)
def test_what_is_broken_stays_broken(mutant: Mutant) -> None:
    """Shrinks a long failing walk; every accepted step and the result break the same obligation."""
    target = target_of(mutant.cls)
    walk = [op for _ in range(4) for op in LONG.program]
    found = None
    for pool in (LONG.pool, Pool(4, 2), Pool(3, 1), Pool(2, 1)):
        execution = play(target, Scenario(pool, tuple(walk)), SEED)
        if execution.breaches:
            found = execution
            break
    if found is None:
        return  # this walk does not reach it; tests/audit/test_mutants.py shrinks every mutant
    name = gravest(found.breaches).obligation

    def breaks(scenario: Scenario) -> Scenario | None:
        again = play(target, scenario, SEED)
        return again.scenario if again.breaches and gravest(again.breaches).obligation == name else None

    small = shrink(found.scenario, breaks)
    assert len(small.program) <= len(found.scenario.program)
    assert breaks(small) == small
    assert shrink(small, breaks) == small
