"""Rounds: in each, every contestant plays the workload once, one after the other: all share the machine's moods."""

from __future__ import annotations

import os
import platform
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.contestants import KVBLOCKS, Contestant
from bench.growth import READINGS
from bench.playing import Played
from bench.processes import Broken, Running, started
from bench.results import Cost, Entrant, Measured, Reading, Results, Spread
from bench.shares import shares
from bench.workloads import Workload

Tell = Callable[[str], None]
"""Called with what is being played."""

Costs = dict[str, dict[str, list[float]]]  # by what was done, by contestant: a cost for each round


class Plan:
    """What is to be measured. sweeps: workloads by the field of `Results` that they belong to.

    growth: what kvblocks plays `READINGS` times while its memory is read.
    """

    def __init__(
        self,
        sweeps: dict[str, Sequence[Workload]],
        rounds: int,
        *,
        memory: bool = False,
        growth: Workload | None = None,
        shares: bool = False,
    ) -> None:
        self.sweeps, self.rounds, self.memory, self.growth, self.shares = sweeps, rounds, memory, growth, shares

    def steps(self, contestants: int) -> int:
        """How often `Tell` is called at most."""
        number = sum(len(workloads) for workloads in self.sweeps.values()) * self.rounds + self.memory
        return number * contestants + (READINGS if self.growth else 0) + (self.rounds if self.shares else 0)


def run(plan: Plan, contestants: Sequence[Contestant], folders: Mapping[str, Path | None], tell: Tell) -> Results:
    """Measure everything. folders: see `Contestant.root`.

    A contestant that cannot be started, or that fails on a workload, is left out there.
    """
    with started(contestants, folders) as (running, absent):
        measured = {
            sweep: [measure(running, workload, plan.rounds, tell) for workload in plan.sweeps.get(sweep, ())]
            for sweep in ("main", "pools", "lengths", "live", "traces")
        }
        return Results(
            machine=machine(),
            rounds=plan.rounds,
            entrants=[Entrant(one.contestant.name, one.version, one.hash) for one in running],
            absent=absent,
            bytes_per_block=_memory(running, tell) if plan.memory else {},
            growth=_growth(contestants[0], plan.growth, tell) if plan.growth else [],
            shares=shares(plan.rounds, tell) if plan.shares else [],
            **measured,
        )


def measure(running: Sequence[Running], workload: Workload, rounds: int, tell: Tell) -> Measured:
    """One workload, `rounds` times, each time beginning with another contestant."""
    costs: Costs = defaultdict(lambda: defaultdict(list))
    last: dict[str, Played] = {}
    broken: dict[str, str] = {}
    for number in range(rounds):
        first = number % len(running)
        for one in (*running[first:], *running[:first]):
            name = one.contestant.name
            tell(f"{workload.name}: {name}")
            if name in broken:
                continue
            try:
                last[name] = one.play(workload)
            except Broken as why:
                broken[name] = str(why)
                continue
            for kind, cost in last[name].costs().items():
                costs[kind][name].append(cost)
    return Measured(
        workload=workload.name,
        about=workload.about,
        num_blocks=workload.num_blocks,
        block_size=workload.block_size,
        requests=workload.requests,
        prompt_tokens=workload.prompt_tokens,
        live=workload.live,
        costs={kind: _compared(of_kind, broken) for kind, of_kind in costs.items()},
        hit_rates={
            name: round(played.hit_tokens / played.prompt_tokens, 4)
            for name, played in last.items()
            if played.prompt_tokens and not name.startswith("bare")
        },
        broken=broken,
    )


def _compared(of_kind: dict[str, list[float]], broken: dict[str, str]) -> dict[str, Cost]:
    if KVBLOCKS in broken:
        raise RuntimeError(f"kvblocks is what all others are compared with, and fails: {broken[KVBLOCKS]}")
    ours = of_kind[KVBLOCKS]
    return {
        name: Cost(Spread.of(costs), Spread.of([theirs / our for theirs, our in zip(costs, ours, strict=True)]))
        for name, costs in of_kind.items()
        if name not in broken
    }


def _memory(running: Sequence[Running], tell: Tell) -> dict[str, float]:
    found = {}
    for one in running:
        tell(f"memory: {one.contestant.name}")
        if not one.contestant.name.startswith("bare"):
            found[one.contestant.name] = round(one.bytes_per_block(), 1)
    return found


def _growth(contestant: Contestant, workload: Workload, tell: Tell) -> list[Reading]:
    """In a process of its own: one that has played other workloads has their memory."""
    found = []
    with started([contestant], {}) as ([one], _):
        for number in range(READINGS):
            tell(f"growth: {contestant.name}, {number + 1} of {READINGS}")
            found.append(one.reading(number, workload))
    return found


def machine() -> str:
    """The processor and Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
