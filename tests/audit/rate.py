"""What checking costs: the rate of the Hypothesis machine with all checks off beside the full audit's.

    python tests/audit/rate.py [TARGET] [STEPS] [ROUNDS]

Both drive the same examples on the same target, in turn, and a step is an allocate, an append or a free. With the
checks off the target executes the operations and nothing is observed, compared or counted. Rates are of CPU time.
"""

from __future__ import annotations

import statistics
import sys
import time

from kvaudit.machine import Driver, run_batch
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool, Refused
from kvaudit.runner import Audit, Options
from kvaudit.targets import Target, TargetSpec, profile_named


class _Enough(BaseException):
    """The steps have been made."""


class _ChecksOff(Driver):
    """Executes the operations on the target, and gives all back at the end as the audit does."""

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


def checks_off(target: Target, max_steps: int) -> float:
    """Steps a second of CPU time."""
    driver = _ChecksOff(target, max_steps)
    began = time.process_time()
    batch = 0
    try:
        while True:
            batch += 1
            run_batch(driver, batch)
    except _Enough:
        return max_steps / (time.process_time() - began)


def checks_on(target: Target, spec: TargetSpec, max_steps: int) -> float:
    """Steps a second of CPU time."""
    audit = Audit(target, spec, profile_named(target.profile), Options(max_steps=max_steps), lambda event: None)
    began = time.process_time()
    steps = audit.generate_only()
    return steps / (time.process_time() - began)


def main() -> None:
    """Print a line a round, and the medians."""
    name = sys.argv[1] if len(sys.argv) > 1 else "kvblocks"
    max_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    spec = TargetSpec(name)
    target = spec.start()
    rows = []
    for number in range(1, rounds + 1):
        off, on = checks_off(target, max_steps), checks_on(target, spec, max_steps)
        rows.append((off, on, on / off))
        print(f"round {number}: {off:7,.0f} steps/s with checks off, {on:7,.0f} with all checks: {on / off:.2f}x")
    off, on, ratio = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"median:  {off:7,.0f} steps/s with checks off, {on:7,.0f} with all checks: {ratio:.2f}x")
    target.close()


if __name__ == "__main__":
    main()
