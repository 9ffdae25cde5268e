"""What checking costs: the rate of each driver with all checks off beside that of the full audit.

    python tests/audit/rate.py [TARGET] [STEPS] [ROUNDS]

With checks and without, a driver makes the same examples on the same target, in turn, and a step is an allocate, an
append or a free. With the checks off the target executes the operations and nothing is observed, compared or counted.
Rates are of CPU time.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time

from kvaudit.ending import BudgetSpent
from kvaudit.findings import Subject
from kvaudit.groups import Groups
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool, Refused
from kvaudit.session import Budget, Session
from kvaudit.targets import Target, TargetSpec, profile_named
from kvaudit.turns import turns
from kvaudit.workload import RULEBOOK, Driver, Engine


class _Enough(BaseException):
    """The steps have been made."""


class _ChecksOff(Driver):
    """Executes the operations on the target, and gives all back at the end as the audit does."""

    rulebook = RULEBOOK

    def __init__(self, target: Target, max_steps: int) -> None:
        self._target = target
        self._left = max_steps
        self._live: list[str] = []
        self._pool = Pool(1, 1)

    def begin(self, pool: Pool) -> None:
        self._pool, self._live = pool, []
        self._target.open(pool)

    def apply(self, operation: Mutation) -> bool:
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
            if self._left:
                self.apply(operation)


def checks_off(target: Target, engine: Engine, max_steps: int) -> float:
    """Steps a second of CPU time."""
    driver = _ChecksOff(target, max_steps)
    began = time.process_time()
    try:
        for turn in turns(driver, engine, 0):
            turn.play()
    except _Enough:
        pass
    return max_steps / (time.process_time() - began)


def checks_on(target: Target, spec: TargetSpec, engine: Engine, max_steps: int) -> float:
    """Steps a second of CPU time."""
    subject = Subject(target, spec, profile_named(target.profile), None)
    session = Session(subject, Budget(max_steps), Groups())
    began = time.process_time()
    with contextlib.suppress(BudgetSpent):
        session.generate(engine, 0, 0)
    return session.tally.steps / (time.process_time() - began)


def main() -> None:
    """Print a line a round, and the medians."""
    name = sys.argv[1] if len(sys.argv) > 1 else "kvblocks"
    max_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    spec = TargetSpec(name)
    target = spec.start()
    engines: tuple[Engine, ...] = ("hypothesis", "swarm")
    rows: dict[Engine, list[tuple[float, float]]] = {engine: [] for engine in engines}
    for number in range(1, rounds + 1):
        for engine in engines:
            off, on = checks_off(target, engine, max_steps), checks_on(target, spec, engine, max_steps)
            rows[engine].append((off, on))
            print(_line(f"round {number}", engine, off, on))
    for engine in engines:
        off, on = (statistics.median(column) for column in zip(*rows[engine], strict=True))
        print(_line("median", engine, off, on))
    target.close()


def _line(what: str, engine: Engine, off: float, on: float) -> str:
    return f"{what}, {engine:>10}: {off:9,.0f} steps/s with checks off, {on:7,.0f} with all checks: {on / off:.2f}x"


if __name__ == "__main__":
    main()
