"""The symbolic paths of an operation: the outcomes of its conditions, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kvproofs import sources
from kvproofs.errors import Restart
from kvproofs.executor import Executor, Outcome
from kvproofs.operations import OPERATIONS

Decisions = tuple[bool, ...]
"""The outcome of each condition that is not settled before."""


@dataclass
class Listing(Executor):
    """Goes through the paths without proving anything."""

    listed: dict[Decisions, str] = field(default_factory=dict)

    def paths(self, program: Callable[[], Any]) -> Iterator[Outcome]:
        self._known, self._exploring = {}, True
        while True:
            try:
                self.listed.clear()
                for outcome in self._paths(program):
                    self.listed[self.decisions] = end_of(outcome)
                return
            except Restart:
                pass
        yield


def end_of(outcome: Outcome) -> str:
    """How a path ends, in a word."""
    if outcome.ended:
        return "one iteration"
    return type(outcome.error).__name__ if outcome.error else "answer"


@cache
def listing(operation: str) -> Listing:
    """The symbolic paths of an operation, and what its loops change. Seconds."""
    made: list[Listing] = []

    def kind(**settings: Any) -> Listing:
        made.append(Listing(**settings))
        return made[0]

    for _ in OPERATIONS[operation](sources.manager_class(), {"executor": kind}):
        pass
    return made[0]
