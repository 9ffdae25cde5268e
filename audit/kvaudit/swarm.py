"""The swarm driver: the rules of `kvaudit.workload` under a random generator, for volume.

Each example enables a random subset of the rules and favours some of them (swarm testing), as Hypothesis does, without
what Hypothesis spends on each choice. The same seed gives the same examples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random

from kvaudit.choosing import T
from kvaudit.workload import Driver, EndExample, Rule, Rulebook

_LENGTHS = (20, 40, 80, 160)
_WEIGHTS = (0, 1, 1, 2, 4)


def run_swarm(driver: Driver, seed: int, examples: int) -> None:
    """Drive so many examples; what `driver` raises, but EndExample, ends them."""
    random = Random(seed)
    choices = _Random(random)
    for _ in range(examples):
        with contextlib.suppress(EndExample):
            _example(driver, choices)
            driver.end()


def _example(driver: Driver, choices: _Random) -> None:
    workload = driver.rulebook.example(driver)
    workload.start(choices)
    workload.new_prompt(choices)
    rules = _enabled(driver.rulebook, choices)
    for _ in range(choices.one_of(_LENGTHS)):
        rule = choices.one_of(rules)
        if rule.can(workload):
            rule.play(workload, choices)


def _enabled(rulebook: Rulebook, choices: _Random) -> list[Rule]:
    """The rules that this example may use, the favoured ones several times; always those without which a pool is idle
    or full for ever."""
    rules = [rule for rule in rulebook.rules for _ in range(choices.one_of(_WEIGHTS))]
    return [*rules, *rulebook.always]


class _Random:
    """Choices of a random generator. Not its randrange and choice: they take several times as long."""

    def __init__(self, random: Random) -> None:
        self._random = random.random

    def number(self, most: int) -> int:
        return int(self._random() * (most + 1))

    def one_of(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def some_of(self, items: Sequence[T], most: int) -> list[T]:
        random, size = self._random, len(items)
        return [items[int(random() * size)] for _ in range(int(random() * (most + 1)))]
