"""Generated programs: an audit with all checks, the same examples on a target that nobody watches, and on none.

A step is an allocate, an append or a free. The three make the same examples, since each operation is refused in all of
them or in none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from kvaudit.collecting import rarely_collecting
from kvaudit.ending import BudgetSpent
from kvaudit.findings import Subject
from kvaudit.groups import Groups
from kvaudit.protocol import EXTRAS, Allocate, Append, Free, Mutation, Pool, Refused
from kvaudit.session import Budget, Session
from kvaudit.targets import Target, TargetSpec, profile_named
from kvaudit.turns import turns
from kvaudit.workload import RULEBOOK, Driver, Engine

Loop = Callable[[Engine, int], None]
"""Plays so many steps of the examples of an engine."""


class _Enough(BaseException):
    """The steps have been made."""


def checked(target: Target, spec: TargetSpec) -> Loop:
    """Everything that `kvaudit run` checks of generated examples."""

    def loop(engine: Engine, max_steps: int) -> None:
        subject = Subject(target, spec, profile_named(target.profile), None)
        session = Session(subject, Budget(max_steps), Groups())
        with contextlib.suppress(BudgetSpent):
            session.generate(engine, 0, 0)
        if session.tally.seen:
            raise RuntimeError(f"{target.name} is to keep every obligation, and does not: {session.tally.seen}")

    return loop


class Unchecked(Driver):
    """Executes the operations, and gives all back at the end as the audit does. Nothing is read or compared.

    refusals: for each example, and each operation that a rule has made, whether it was refused.
    """

    rulebook = RULEBOOK

    def __init__(self, target: Target, max_steps: int) -> None:
        self.limits = profile_named(target.profile).limits
        self.extras = target.capabilities.intersection(EXTRAS)
        self.refusals: list[list[bool]] = []
        self._target = target
        self._left = max_steps
        self._live: list[str] = []
        self._pool = Pool(1, 1)

    def begin(self, pool: Pool) -> None:
        self._pool, self._live = pool, []
        self.refusals.append([])
        self._target.open(pool)

    def apply(self, operation: Mutation) -> bool:
        refused = self._executed(operation)
        self.refusals[-1].append(refused)
        return refused

    def _executed(self, operation: Mutation) -> bool:
        if not self._left:
            raise _Enough
        self._left -= 1
        refused = isinstance(self._target.run([operation])[0], Refused)
        if isinstance(operation, Free):
            self._live.remove(operation.seq)
        elif not refused and not isinstance(operation, Append):
            self._live.append(operation.seq)
        return refused

    def end(self) -> None:
        whole = Allocate("all", (3,) * (self._pool.num_blocks * self._pool.block_size))
        operations: list[Mutation] = [*map(Free, self._live), whole, Free("all")]
        for operation in operations:
            self._executed(operation)


class Empty(Driver):
    """Makes the operations and hands them to nobody: whether one is refused is known from before."""

    rulebook = RULEBOOK

    def __init__(self, like: Unchecked) -> None:
        self.limits, self.extras = like.limits, like.extras
        self._examples = iter(like.refusals)
        self._left: Iterator[bool] = iter(())

    def begin(self, pool: Pool) -> None:
        self._left = iter(next(self._examples, ()))  # without one, the last has used up the steps

    def apply(self, operation: Mutation) -> bool:
        for refused in self._left:
            return refused
        raise _Enough

    def end(self) -> None:
        pass


def play(driver: Driver, engine: Engine) -> None:
    """Drive examples until the driver has had enough."""
    with rarely_collecting(), contextlib.suppress(_Enough):
        for turn in turns(driver, engine, 0):
            turn.play()
