"""The Hypothesis driver: a `RuleBasedStateMachine` of the rules of `kvaudit.workload`.

Hypothesis enables a random subset of the rules in each example (swarm testing), varies what it drew before, and
steers away from what it has tried.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from unittest import mock

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kvaudit.choosing import T
from kvaudit.workload import Driver, EndExample, Rule

STEPS_PER_EXAMPLE = 80
EXAMPLES_PER_BATCH = 100


def run_batch(driver: Driver, seed: int) -> None:
    """Drive one batch of examples; what `driver` raises ends it."""
    machine = hypothesis.seed(seed)(_machine(driver))
    try:
        with _the_same_everywhere():
            run_state_machine_as_test(machine, settings=_SETTINGS)
    except Unsatisfiable:
        pass  # every example of the batch was cut short, each by a breach that is known already
    except FlakyStrategyDefinition as flaky:
        # Hypothesis says this over whatever ended an example where an equal one had gone on: that is what counts.
        raise flaky.__context__ or flaky from None


def _the_same_everywhere() -> contextlib.AbstractContextManager[object]:
    """Hypothesis also draws numbers that it finds in the source files around, for which it has no setting.

    The same seed would then give other examples where kvaudit is installed otherwise or the target's text changes
    (and a folder `.hypothesis` would be left where the user stands).
    """
    return mock.patch.object(providers, "_get_local_constants", Constants)


_SETTINGS = settings(
    max_examples=EXAMPLES_PER_BATCH,
    stateful_step_count=STEPS_PER_EXAMPLE,
    phases=(Phase.generate,),  # `kvaudit.shrink` makes findings small, wherever they come from
    deadline=None,
    database=None,
    verbosity=Verbosity.quiet,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
)


class _Drawn:
    """Choices that Hypothesis draws."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, most: int) -> int:
        return self._draw(_numbers(most))

    def one_of(self, items: Sequence[T]) -> T:
        return items[self._draw(_numbers(len(items) - 1))]

    def some_of(self, items: Sequence[T], most: int) -> list[T]:
        return [items[index] for index in self._draw(_lists_of_numbers(len(items) - 1, most))]


@st.composite
def _choices(draw: st.DrawFn) -> _Drawn:
    """As `data()`, which takes several times as long for each draw, for it also keeps what it would print."""
    return _Drawn(draw)


@cache
def _numbers(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


@cache
def _lists_of_numbers(most: int, length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(_numbers(most), max_size=length)


class _Machine(RuleBasedStateMachine):
    """Begins and ends an example; `_machine` adds the rules."""

    driver: Driver

    def __init__(self) -> None:
        super().__init__()
        self.workload = self.driver.rulebook.example(self.driver)
        self.is_open = False

    @initialize(choices=_choices())
    def start(self, choices: _Drawn) -> None:
        self.is_open = True
        self.play(type(self.workload).start, choices)

    def play(self, play: Callable[[Any, _Drawn], None], choices: _Drawn) -> None:
        try:
            play(self.workload, choices)
        except EndExample:
            reject()

    def teardown(self) -> None:
        if self.is_open:
            with contextlib.suppress(EndExample):  # it has ended
                self.driver.end()


def _machine(driver: Driver) -> type[RuleBasedStateMachine]:
    rules = {rule.name: _as_hypothesis_has_it(rule) for rule in driver.rulebook.rules}
    return type("AuditMachine", (_Machine,), {"driver": driver, **rules})


def _as_hypothesis_has_it(ours: Rule) -> Any:
    def step(self: _Machine, choices: _Drawn) -> None:
        self.play(ours.play, choices)

    step.__name__ = ours.name
    return rule(choices=_choices())(precondition(lambda self: ours.can(self.workload))(step))
