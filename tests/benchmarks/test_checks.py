"""What is measured of the checks: the same work with checks and without, on managers that are right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.checks.generated import Empty, Unchecked, checked, play
from bench.checks.kills import kills, planted
from bench.checks.measuring import ALL, BLACK_BOX, EMPTY, HYPOTHESIS, OBSERVED, QUICK, SEARCH, SWARM, UNCHECKED, run
from bench.checks.page import section
from bench.checks.profiling import OTHER, PARTS, shares
from bench.checks.results import Checks, Kill, Rates, read, write
from bench.checks.search import alone, compared
from bench.checks.targets import verdicts
from bench.results import Spread
from kvaudit.api import ApiTarget
from kvaudit.protocol import Mutation, Pool
from kvaudit.targets import TargetSpec
from kvaudit.workload import Engine
from kvblocks import BlockManager
from mutants.pool import EvictsNewest

SPEC = TargetSpec("kvblocks")
ENGINES: tuple[Engine, ...] = ("swarm", "hypothesis")


class Kept(Unchecked):
    """Keeps what the rules make."""

    def __init__(self, target: ApiTarget, max_steps: int) -> None:
        super().__init__(target, max_steps)
        self.made: list[Mutation] = []

    def apply(self, operation: Mutation) -> bool:
        refused = super().apply(operation)
        self.made.append(operation)
        return refused


class EmptyKept(Empty):
    """As Kept, and has no target."""

    def __init__(self, like: Unchecked) -> None:
        super().__init__(like)
        self.made: list[Mutation] = []

    def apply(self, operation: Mutation) -> bool:
        refused = super().apply(operation)
        self.made.append(operation)
        return refused


@pytest.mark.parametrize("engine", ENGINES)
def test_the_empty_loop_makes_the_same_operations(engine: Engine) -> None:
    unchecked = Kept(target_of(BlockManager), 600)
    play(unchecked, engine)
    empty = EmptyKept(unchecked)
    play(empty, engine)
    assert len(unchecked.refusals) > 5 and any(map(any, unchecked.refusals))
    assert empty.made == unchecked.made


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_measured_with_all_checks_is_checked(engine: Engine) -> None:
    checked(SPEC.start(), SPEC)(engine, 600)
    with pytest.raises(RuntimeError, match=r"every obligation, and does not: .*O6"):
        checked(target_of(EvictsNewest), TargetSpec("x:y"))(engine, 600)


def test_the_search_alone_goes_through_the_same_transitions() -> None:
    pool = Pool(2, 2)
    found, without = compared(target_of(BlockManager), pool), alone(pool)
    assert (found.transitions, found.refused) == (without.transitions, without.refused)
    assert found.transitions > 500 and found.reads and found.misuses and found.renamed
    with pytest.raises(RuntimeError, match="is to keep every obligation"):
        compared(target_of(EvictsNewest), pool)


def test_how_soon_a_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.checks.kills.MOST_EXAMPLES", 40)
    assert EvictsNewest in planted()
    told: list[str] = []
    first, second = kills([EvictsNewest, BlockManager], range(2), told.append, black_box=True)
    assert told == ["bugs: EvictsNewest", "bugs: BlockManager"]
    assert (first.mutant, first.ms) == ("BlockManager", None)  # there is nothing to be found
    assert second.ms is not None and second.steps < first.steps


def test_time_goes_where_the_innermost_part_is() -> None:
    def observe() -> None:
        manager = BlockManager(64, 4)
        for _ in range(2_000):
            manager.observe()

    parts = shares(observe)
    assert parts["the target"] > 0.9
    assert set(parts) <= {*PARTS, OTHER}


def checks(swarm: float, unchecked: float, kill: Spread | None) -> Checks:
    rates = Rates("steps", {ALL: Spread.of([swarm]), UNCHECKED: Spread.of([unchecked])}, {"generating": 1.0})
    search = Rates("transitions", {ALL: Spread.of([39_990]), EMPTY: Spread.of([80_000])}, {"comparing": 1.0})
    found = [Kill("EvictsNewest", kill, 10)]
    return Checks(
        "a machine", 3, {SWARM: rates, HYPOTHESIS: rates, SEARCH: search}, {OBSERVED: found, BLACK_BOX: found}
    )


def test_targets_are_met_or_not() -> None:
    rows = [row[2:] for row in verdicts(checks(40_000, 50_000, Spread.of([99])))]
    assert rows == [("40,000", True), ("39,990", False), ("0.8", False), ("99", True), ("99", True)]
    assert verdicts(checks(1, 1, None))[-1][2:] == ("inf", False)


def target_of(cls: type[BlockManager]) -> ApiTarget:
    return ApiTarget(cls, name=cls.__name__, profile="strict")


def test_results_are_read_as_they_were_written_and_shown(tmp_path: Path) -> None:
    results = checks(40_000, 50_000, None)
    write(tmp_path / "checks.json", results)
    assert read(tmp_path / "checks.json") == results
    text = "\n".join(section(results))
    assert "| search: compared transitions a second | at least 40,000 | 39,990 | **not met** |" in text
    assert "| EvictsNewest | not found | not found | 10 |" in text


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("bench.checks.measuring.run", lambda plan, tell: run(plan, told.append))
    said = CliRunner().invoke(app, ["--checks", "--quick", "--write", str(tmp_path)])
    assert said.exit_code == 0
    assert "where the time goes" in said.output and "of 5 targets are met" in said.output
    written = read(tmp_path / "checks.json")
    assert set(written.drivers[SWARM].per_second) == {ALL, UNCHECKED, EMPTY}
    assert all(abs(sum(driver.shares.values()) - 1) < 0.01 for driver in written.drivers.values())
    assert all(kill.ms is not None for kills in written.kills.values() for kill in kills)
    assert len(told) == QUICK.calls(len(planted()))
    wrong = CliRunner().invoke(app, ["main", "--checks"])
    assert wrong.exit_code == 2 and "leave out parts" in wrong.output
