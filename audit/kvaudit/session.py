"""Plays programs on one target, counts what is met, and makes what fails small: an audit's part in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.collecting import rarely_collecting
from kvaudit.ending import BudgetSpent, CutShort
from kvaudit.execution import Execution, Played
from kvaudit.findings import Failure, Subject, details, failure_of
from kvaudit.groups import Groups, key_of
from kvaudit.interrupt import Interrupt
from kvaudit.levels import goals_of, level_of, play
from kvaudit.protocol import EXTRAS, Pool
from kvaudit.scenario import Scenario
from kvaudit.shrink import MAX_PLAYS, shrink
from kvaudit.trace import Origin
from kvaudit.turns import turns
from kvaudit.workload import Driver, EndExample, Engine

_TELL_EVERY = 16
"""Steps."""

_PATIENCE_WITH_HANGS_S = 30.0
_DOES_NOT_REPEAT = (
    "the same program on a fresh pool goes otherwise: state is left over from other pools, or there is chance"
)


class _Breached(BaseException):
    """Carries a failing execution out of a turn."""

    def __init__(self, execution: Execution[Any, Any]) -> None:
        self.execution = execution


class Difference(msgspec.Struct):
    """A difference by design: how often it was met, and what was said of it first."""

    times: int
    first: str


class Tally(msgspec.Struct):
    """What has been done and met.

    goals: how often each. seen: the broken obligations, each as it was seen first. excused: by the place of the excuse
    in the profile.
    """

    steps: int = 0
    executions: int = 0
    goals: dict[str, int] = {}
    seen: dict[str, str] = {}
    excused: dict[int, Difference] = {}

    def add(self, other: Tally) -> None:
        """What another one counted, too."""
        self.steps += other.steps
        self.executions += other.executions
        for goal, times in other.goals.items():
            self.goals[goal] = self.goals.get(goal, 0) + times
        self.seen = {**other.seen, **self.seen}
        for excuse, difference in other.excused.items():
            self.differs(excuse, difference.first, difference.times)

    def differs(self, excuse: int, what: str, times: int = 1) -> None:
        """Count a difference by design."""
        self.excused.setdefault(excuse, Difference(0, what)).times += times


class Budget(msgspec.Struct, frozen=True):
    """Where a session ends: after so many steps, so many seconds, or its first new failure."""

    max_steps: int | None = None
    max_time_s: float | None = None
    stop_at_first: bool = False


class Session(Driver):
    """One target on which one program after the other is played, up to a budget.

    Everything that plays raises BudgetSpent at its end, and CutShort. on_failure: hears of the first failure of
    each group. on_tick: called often, while something goes on that `phase` names.
    """

    def __init__(
        self,
        subject: Subject,
        budget: Budget,
        groups: Groups[Failure],
        *,
        on_failure: Callable[[Failure], None] = lambda failure: None,
        on_tick: Callable[[], None] = lambda: None,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.tally = Tally(goals={goal.id: 0 for goal in goals_of(subject.profile, subject.target.capabilities)})
        self.phase = ""
        self.began = time.monotonic()
        self._subject = subject
        self._budget = budget
        self.limits = subject.profile.limits
        self.extras = subject.target.capabilities.intersection(EXTRAS)
        self._groups = groups
        self._on_failure = on_failure
        self._on_tick = on_tick
        self._interrupt = interrupt or Interrupt()
        self._execution: Execution[Any, Any] | None = None
        self._level = level_of(subject.profile)
        self.rulebook = self._level.rulebook
        self.settings = subject.target.settings
        self._tracker = self._level.tracker(Pool(1, 1))

    # --- what is played ------------------------------------------------------------------------------------

    def play(self, scenario: Scenario, origin: Origin | None) -> None:
        """A scripted scenario to its end, through the same steps as a generated one."""
        try:
            self.begin(scenario.pool)
            for operation in scenario.program:
                if self.is_legal(operation):
                    self.apply(operation)
            self.end()
        except EndExample:
            pass
        except _Breached as breached:
            self.found(breached.execution, origin)

    def replay(self, scenario: Scenario) -> Execution[Any, Any]:
        """A saved program up to its first breach, whatever else has been found of that obligation."""
        self.check_budget()
        execution = play(self._subject.target, scenario, self._subject.profile)
        self.tally.executions += 1
        self.tally.steps += len(execution.played)
        self._see(execution)
        return execution

    def generate(self, engine: Engine, seed: int, origin_seed: int) -> None:
        """Examples without end. origin_seed: the seed of the run."""
        with rarely_collecting():
            for turn in turns(self, engine, seed):
                try:
                    turn.play()
                except _Breached as breached:
                    assert turn.engine != "both"
                    self.found(breached.execution, Origin(turn.engine, origin_seed))

    def check_budget(self) -> None:
        """Raises BudgetSpent at the end of the budget, and after Ctrl-C."""
        max_steps, max_time_s = self._budget.max_steps, self._budget.max_time_s
        if (
            self._interrupt.came
            or (max_steps is not None and self.tally.steps >= max_steps)
            or (max_time_s is not None and time.monotonic() - self.began >= max_time_s)
        ):
            raise BudgetSpent

    # --- one example (what the rules drive) ------------------------------------------------------------------

    def begin(self, pool: Pool) -> None:
        self.check_budget()
        self.tally.executions += 1
        self._execution = self._level.execution(self._subject.target, pool, self._subject.profile)
        self._tracker = self._level.tracker(pool)

    @property
    def live(self) -> Mapping[Any, Sequence[int]]:
        return self._execution.live if self._execution is not None else {}

    def is_legal(self, operation: Any) -> bool:
        return self._execution is not None and self._execution.is_legal(operation)

    def apply(self, operation: Any) -> bool:
        self.check_budget()
        assert self._execution is not None
        judgement = self._execution.apply(operation)
        self._account(self._execution, self._execution.played[-1])
        refused: bool = judgement.refused
        return refused

    def end(self) -> None:
        execution = self._execution
        if execution is None:
            return
        before = len(execution.played)
        execution.give_all_back()
        for played in execution.played[before:]:
            self._account(execution, played)
        self._execution = None

    def _account(self, execution: Execution[Any, Any], played: Played[Any, Any]) -> None:
        tally = self.tally
        tally.steps += 1
        if tally.steps % _TELL_EVERY == 0:
            self._on_tick()
        breaches = played.judgement.breaches
        if played.judgement.excused:
            self._execution = None
            self._see(execution)
            raise EndExample
        if not breaches:
            for goal in self._tracker.reached(played):
                if goal in tally.goals:
                    tally.goals[goal] += 1
            return
        self._execution = None
        self._see(execution)
        obligation = gravest(breaches).obligation
        if self._groups.is_muted(obligation):
            self._groups.pass_over(obligation)
            raise EndExample
        raise _Breached(execution)

    def _see(self, execution: Execution[Any, Any]) -> None:
        for breach in execution.breaches:
            self.tally.seen.setdefault(breach.obligation, breach.detail)
        if execution.excused:
            operation, judgement = execution.played[-1].operation, execution.played[-1].judgement
            for excuse in judgement.excuses:
                said = "; ".join(details(judgement.excused))
                self.tally.differs(excuse, f"{words.call(operation)}: {said}")

    # --- what fails ----------------------------------------------------------------------------------------

    def found(self, execution: Execution[Any, Any], origin: Origin | None) -> None:
        """Make a failure small, and tell of it if its group is not there yet."""
        obligation = gravest(execution.breaches).obligation
        self.phase, phase = f"shrinking a failure of {obligation}", self.phase

        def breaks(scenario: Scenario) -> Scenario | None:
            self._on_tick()
            if self._interrupt.came or not self.limits.allow(scenario.pool):
                return None  # in the first case, as small as it is by now
            again = play(self._subject.target, scenario, self._subject.profile)
            return again.scenario if _breaks(again, obligation) else None

        max_plays = self._plays_for_hang() if execution.hangs else MAX_PLAYS
        small = shrink(execution.scenario, breaks, max_plays=max_plays)
        again = play(self._subject.target, small, self._subject.profile)
        repeats = _breaks(again, obligation)
        if not repeats:
            again = execution  # as it came: what happens once in a while is wrong, too
        notes = [] if repeats and execution.repeats else [_DOES_NOT_REPEAT]
        self.phase = phase
        self._tell(failure_of(self._subject, again, origin, *notes), hangs=execution.hangs)

    def _tell(self, failure: Failure, *, hangs: bool) -> None:
        if not self._groups.add(key_of(failure), failure):
            return
        self._on_failure(failure)
        if hangs:  # whoever hangs once mostly hangs again
            raise CutShort("ended because the target hangs")
        if self._budget.stop_at_first and key_of(failure) not in self._groups.known:
            raise CutShort("ended at the first finding")

    def _plays_for_hang(self) -> int:
        """So many plays as take half a minute if each of them hangs."""
        return int(_PATIENCE_WITH_HANGS_S / self._subject.spec.timeout)


def _breaks(execution: Execution[Any, Any], obligation: str) -> bool:
    return bool(execution.breaches) and gravest(execution.breaches).obligation == obligation
