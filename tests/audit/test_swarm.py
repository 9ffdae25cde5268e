"""The swarm driver: the rules of Hypothesis, the same programs for the same seed, and every planted bug is found."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from audit.auditing import audit, target_of
from kvaudit.breach import Breach
from kvaudit.choosing import Choices
from kvaudit.goals import GOALS
from kvaudit.machine import run_batch
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import SEED
from kvaudit.protocol import EXTRAS, Mutation, Pool
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.swarm import run_swarm
from kvaudit.targets import Target
from kvaudit.workload import RULEBOOK, RULES, Driver, Rule, Workload
from kvblocks import BlockManager
from mutants import MUTANTS, Mutant
from second.manager import SecondManager

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse]


class Breached(Exception):
    """The target broke an obligation."""


class Recorder(Driver):
    """Plays on a target up to its first breach, and keeps what it played."""

    rulebook = RULEBOOK

    def __init__(self, target: Target) -> None:
        self.target = target
        self.extras = target.capabilities.intersection(EXTRAS)
        self.programs: list[tuple[Pool, list[Mutation]]] = []
        self.breaches: tuple[Breach, ...] = ()
        self.steps = 0

    def begin(self, pool: Pool) -> None:
        self.execution = ManagerExecution(self.target, pool, SEED)
        self.programs.append((pool, []))

    def apply(self, operation: Mutation) -> bool:
        assert self.execution.is_legal(operation)
        self.programs[-1][1].append(operation)
        self.steps += 1
        judgement = self.execution.apply(operation)
        self._stop_at_breach()
        return judgement.refused

    def end(self) -> None:
        self.execution.give_all_back()
        self._stop_at_breach()

    def _stop_at_breach(self) -> None:
        self.breaches = self.execution.breaches
        if self.breaches:
            raise Breached


@pytest.mark.parametrize("mutant", LEGAL, ids=lambda mutant: mutant.cls.__name__)
@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
def test_every_mutant_is_killed_without_witnesses(mutant: Mutant, black_box: bool) -> None:
    driver = Recorder(target_of(mutant.cls, black_box=black_box))
    with pytest.raises(Breached):
        run_swarm(driver, seed=0, examples=600)
    if black_box:
        assert {breach.obligation for breach in driver.breaches} & set(mutant.names)


def test_a_good_manager_is_not_found_fault_with() -> None:
    for cls in (BlockManager, SecondManager):
        run_swarm(Recorder(target_of(cls)), seed=1, examples=40)


def test_the_same_seed_gives_the_same_programs() -> None:
    one, two, other = (Recorder(target_of(BlockManager)) for _ in range(3))
    for driver, seed in ((one, 5), (two, 5), (other, 6)):
        run_swarm(driver, seed, examples=20)
    assert one.programs == two.programs != other.programs
    assert len(one.programs) == 20


def test_both_drivers_play_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    played: Counter[str] = Counter()
    counting = RULEBOOK._replace(rules=tuple(counted(rule, played) for rule in RULES))
    monkeypatch.setattr(Nothing, "rulebook", counting)
    run_batch(Nothing(), seed=0)
    assert set(played) == {rule.name for rule in RULES}
    played.clear()
    run_swarm(Nothing(), seed=0, examples=20)
    assert set(played) == {rule.name for rule in RULES}


class Nothing(Driver):
    """Refuses every third operation."""

    rulebook = RULEBOOK

    def __init__(self) -> None:
        self.steps = 0

    def begin(self, pool: Pool) -> None:
        self.steps = 0

    def apply(self, operation: Mutation) -> bool:
        self.steps += 1
        return self.steps % 3 == 0

    def end(self) -> None:
        pass


def counted(rule: Rule, played: Counter[str]) -> Rule:
    """The rule, counting how often it is played."""

    @functools.wraps(rule.play)
    def play(workload: Workload, choices: Choices) -> None:
        played[rule.name] += 1
        rule.play(workload, choices)

    return Rule(play, rule.can)


@pytest.mark.parametrize("engine", ["both", "hypothesis", "swarm"])
def test_each_engine_audits(engine: str) -> None:
    report = audit(target_of(BlockManager), engine=engine, max_steps=700, profile="strict")
    assert report.exit_code == CONFORMS
    assert len(report.goals) == len(GOALS)
    again = audit(target_of(BlockManager), engine=engine, max_steps=700, profile="strict")
    assert (again.executions, again.goals) == (report.executions, report.goals)


def test_what_the_swarm_finds_is_made_small_and_reported() -> None:
    mutant = next(mutant for mutant in LEGAL if mutant.cls.__name__ == "MatchesPastMiss")
    report = audit(target_of(mutant.cls, black_box=True), engine="swarm", max_steps=20_000, stop_at_first=True)
    assert report.exit_code == VIOLATION
    [finding] = report.findings
    assert len(finding.steps) <= 12
    assert finding.reproduce.endswith("--engine swarm")
