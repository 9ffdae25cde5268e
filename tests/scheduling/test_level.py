"""The scheduler level: a clean scheduler conforms, every planted bug is found and made small, every goal is met."""

from __future__ import annotations

import inspect
import runpy
import sys
from pathlib import Path

import msgspec
import pytest

from audit.auditing import audit, audited, row
from kvaudit.breach import gravest
from kvaudit.goal import Goal
from kvaudit.levels import LEVELS, configured, play
from kvaudit.profiles import SCHEDULER_RULES
from kvaudit.programs import of_scheduler
from kvaudit.protocol import SCHEDULER, Pool, Step, Submit
from kvaudit.report import CONFORMS, HOLDS, INCONCLUSIVE, NOT_OBSERVABLE, VIOLATION, Report
from kvaudit.scheduling.api import SchedulerTarget
from kvaudit.scheduling.duties import DUE, DUTIES
from kvaudit.scheduling.execution import SchedulerExecution
from kvaudit.scheduling.goals import GOALS
from kvaudit.scheduling.tracker import Tracker
from kvaudit.targets import TargetSpec
from kvaudit.trace import read_trace
from kvspec.obligations import OBLIGATIONS
from scheduling.planted import MUTANTS, Mutant
from small_scheduler import Scheduler

SMALL = f"{inspect.getfile(Scheduler)}:Scheduler"
each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.cls.__name__)


@pytest.fixture(autouse=True)
def path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])  # the folder of a target is put before the others


def target_of(cls: type[Scheduler]) -> SchedulerTarget:
    return SchedulerTarget(cls, name=cls.__name__)


@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
def test_a_clean_scheduler_conforms(black_box: bool) -> None:
    report = audited(TargetSpec(SMALL, black_box=black_box), max_steps=4_000)
    assert (report.exit_code, report.findings, report.reasons) == (CONFORMS, [], [])
    assert all(goal.count for goal in report.goals)
    assert report.header.level == SCHEDULER
    assert {r.obligation for r in report.rows if r.verdict == HOLDS} == set(DUTIES) - (
        {"I1", "I8"} if black_box else set()
    )
    assert {r.verdict for r in report.rows} == {HOLDS, NOT_OBSERVABLE}
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


@each_mutant
@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
def test_every_planted_bug_is_found_and_made_small(mutant: Mutant, black_box: bool, tmp_path: Path) -> None:
    spec = TargetSpec(f"{inspect.getfile(mutant.cls)}:{mutant.cls.__name__}", black_box=black_box)
    report = audited(spec, max_steps=6_000, stop_at_first=True, failures=tmp_path)
    assert report.exit_code == VIOLATION
    [finding] = report.findings
    assert {finding.obligation, *finding.also} & set(mutant.names)
    assert len(finding.steps) <= 16
    assert row(report, finding.obligation).detail
    if finding.settings:
        assert len(finding.settings) == 1

    assert finding.trace is not None
    header, scenario = read_trace(Path(finding.trace))
    assert header.features == (SCHEDULER,)
    assert scenario.pool.configuration == finding.settings
    target = target_of(mutant.cls)
    target.capabilities -= frozenset({"observe"} if black_box else ())
    again = play(target, scenario, SCHEDULER_RULES)
    assert len(again.played) == len(scenario.program)
    assert header.obligation == finding.obligation == gravest(again.breaches).obligation

    test = runpy.run_path(str(Path(finding.trace).with_name("test_repro.py")))
    [repro] = [value for name, value in test.items() if name.startswith("test_")]
    with pytest.raises(AssertionError, match=rf"(?m)^  (\w+, )*{finding.obligation}[:,] "):
        repro()
    repro(SMALL)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.id)
def test_each_witness_meets_its_goal(goal: Goal) -> None:
    target, met = target_of(Scheduler), set[str]()
    for scenario in configured(goal.witness, target.settings):
        execution = SchedulerExecution(target, scenario.pool, SCHEDULER_RULES).play(of_scheduler(scenario.program))
        tracker = Tracker(scenario.pool)
        met |= set().union(*(tracker.reached(played) for played in execution.played))
        assert not execution.breaches
    assert goal.id in met


def test_goals_and_duties_are_of_this_level() -> None:
    assert len({goal.id for goal in GOALS}) == len({goal.statement for goal in GOALS}) == len(GOALS)
    assert {name for goal in GOALS for name in goal.supports} <= set(DUTIES) <= set(OBLIGATIONS)
    assert set(DUE) == set(DUTIES)
    assert LEVELS[SCHEDULER].goals is GOALS


def test_settings_are_drawn_for_every_example() -> None:
    seen: set[tuple[tuple[str, object], ...]] = set()

    class Noting(Scheduler):
        def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True, **settings: int) -> None:
            seen.add(tuple(sorted(settings.items())))
            super().__init__(num_blocks, block_size, enable_prefix_cache, **settings)

    audit(target_of(Noting), profile="scheduler", engine="swarm", max_steps=6_000)
    values = {name: {value for chosen in seen for key, value in chosen if key == name} for name in Scheduler.SETTINGS}
    assert values == {name: set(given) for name, given in Scheduler.SETTINGS.items()}
    assert () in seen and any(len(chosen) == 2 for chosen in seen)


def test_a_goal_that_cannot_be_met_is_told() -> None:
    class WholePrompts(Scheduler):
        SETTINGS = {"max_num_seqs": (1, 2)}

    report = audit(target_of(WholePrompts), profile="scheduler", max_steps=1_500)
    assert report.exit_code == INCONCLUSIVE
    assert [goal.id for goal in report.goals if not goal.count] == ["chunked prefill", "cancelled between chunks"]


def test_a_pool_can_be_too_small_for_a_request() -> None:
    execution = SchedulerExecution(target_of(Scheduler), Pool(2, 2), SCHEDULER_RULES)
    assert not execution.is_legal(Submit("a", (1, 2, 3), 2))
    assert execution.is_legal(Submit("a", (1, 2, 3), 1))
    assert not execution.is_legal(Step(1, ("a",)))
    execution.apply(Submit("a", (1, 2, 3), 1))
    assert execution.is_legal(Step(1, ("a",)))
    assert not execution.is_legal(Step(1, ("a", "a")))
    assert not execution.is_legal(Submit("a", (1,), 1))


def test_the_same_seed_gives_the_same_report() -> None:
    reports = [
        msgspec.structs.replace(audited(TargetSpec(SMALL), max_steps=1_500, seed=3), seconds=0.0) for _ in range(2)
    ]
    assert reports[0] == reports[1]
