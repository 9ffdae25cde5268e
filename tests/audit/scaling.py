"""How an audit scales over the processes of this machine.

    python tests/audit/scaling.py [TARGET] [STEPS] [ROUNDS]

The same shards in 1 process and in 2, 4, ... up to the cores of the machine, in turn. Beside the rate by the clock
stands how many cores were busy with it: on a machine that does other things too it is given less, and then the rate by
the clock says nothing of how kvaudit scales.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time

from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec, profile_named


def rates(spec: TargetSpec, processes: int, max_steps: int) -> tuple[float, float]:
    """Steps a second by the clock, and of CPU time."""
    target = spec.start()
    options = Options(max_steps=max_steps, engine="swarm", processes=processes)
    before, began = cpu_time(), time.monotonic()
    report = Audit(target, spec, profile_named(target.profile), options, lambda event: None).run()
    seconds, cpu = time.monotonic() - began, cpu_time() - before
    target.close()
    return report.steps / seconds, report.steps / cpu


def cpu_time() -> float:
    """Of the processes that have ended, and of this one."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    )


def main() -> None:
    """Print a line for each number of processes: medians."""
    name = sys.argv[1] if len(sys.argv) > 1 else "kvblocks"
    max_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    numbers = [2**power for power in range(10) if 2**power <= (os.cpu_count() or 1)]
    rows: dict[int, list[tuple[float, float]]] = {number: [] for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            rows[number].append(rates(TargetSpec(name), number, max_steps))
    first = statistics.median(wall for wall, _ in rows[1])
    for number in numbers:
        wall, cpu = (statistics.median(column) for column in zip(*rows[number], strict=True))
        shown = f"{wall:9,.0f} steps/s, {wall / first:.2f}x; {cpu:7,.0f} a second of CPU, {wall / cpu:.2f} cores busy"
        print(f"-j {number}: {shown}")


if __name__ == "__main__":
    main()
