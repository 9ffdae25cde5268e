"""Compares two targets: witnesses and generated programs, up to a budget; what differs is made small and grouped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvaudit import __version__
from kvaudit.collecting import rarely_collecting
from kvaudit.diffing.compared import KINDS, NEEDS, Difference
from kvaudit.diffing.findings import Party, kept
from kvaudit.diffing.pair import Pair, play
from kvaudit.diffing.report import DIFFERENT, INCONCLUSIVE, SAME, Diff, Found
from kvaudit.diffing.situations import Situations
from kvaudit.ending import BudgetSpent, CutShort, until_its_end
from kvaudit.goals import GOALS
from kvaudit.groups import Groups, Key, shape_of
from kvaudit.interrupt import Interrupt
from kvaudit.protocol import EXTRAS, Mutation, Pool, Refused
from kvaudit.report import Progress
from kvaudit.scenario import Scenario
from kvaudit.session import Budget
from kvaudit.shrink import shrink
from kvaudit.targets import profile_named
from kvaudit.trace import Origin
from kvaudit.turns import turns
from kvaudit.workload import RULEBOOK, Driver, EndExample, Engine

_TELL_EVERY_S = 0.1
_ESSENTIAL = ("cached", "free")
"""Where these cannot be compared, "no difference" says little."""

_MAX_PLAYS = 1_000
"""A play takes two targets; three shapes of a kind are made small, and a difference is no fault."""


@dataclass(frozen=True)
class Options:
    """How to compare. strict: block numbers count. traces: where the program of each difference is kept."""

    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    engine: Engine = "both"
    strict: bool = False
    traces: Path | None = None


class _Differs(BaseException):
    """Carries a difference out of a turn."""

    def __init__(self, pair: Pair, difference: Difference) -> None:
        self.pair = pair
        self.difference = difference


class Comparison(Driver):
    """One comparison. on_found: hears of the first difference of each group. on_tick: called often."""

    def __init__(
        self,
        a: Party,
        b: Party,
        options: Options,
        *,
        on_found: Callable[[Found], None] = lambda found: None,
        on_tick: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._a, self._b, self._options = a, b, options
        self._on_found, self._on_tick = on_found, on_tick
        profiles = [profile_named(party.target.profile) for party in (a, b)]
        self.rulebook = RULEBOOK
        self.limits = profiles[0].limits.common(profiles[1].limits)
        both = a.target.capabilities & b.target.capabilities
        self.extras = both.intersection(EXTRAS)
        self._unseen = {kind: _lacks(NEEDS[kind], a, b) for kind in KINDS if not set(NEEDS[kind]) <= both}
        self._kinds = [kind for kind in KINDS if kind not in self._unseen]
        self._groups = Groups[Found]()
        self._situations = Situations()
        self._steps = self._executions = 0
        self._began = self._told = time.monotonic()
        self._phase = "witnesses"
        self._pair: Pair | None = None
        self._interrupt = Interrupt()

    def run(self) -> Diff:
        """Run to the end of the budget, or to Ctrl-C."""
        with until_its_end(self._interrupt) as ending:
            self._play_witnesses()
            self._generate()
        return self._report(ending.why)

    def _play_witnesses(self) -> None:
        for goal in (goal for goal in GOALS if self.extras.issuperset(goal.needs)):
            pool, program = self.limits.scaled(goal.witness.pool, goal.witness.program)
            with contextlib.suppress(EndExample):
                try:
                    self.begin(pool)
                    for operation in program:
                        assert isinstance(operation, Mutation)
                        if self._pair is not None and self._pair.is_legal(operation):
                            self.apply(operation)
                    self.end()
                except _Differs as differs:
                    self._found(differs, Origin("witness"))

    def _generate(self) -> None:
        self._phase, seed = "generated", self._options.seed
        with rarely_collecting():
            for turn in turns(self, self._options.engine, seed):
                try:
                    turn.play()
                except _Differs as differs:
                    assert turn.engine != "both"
                    self._found(differs, Origin(turn.engine, seed))

    # --- one example (what the rules drive) ------------------------------------------------------------------

    def begin(self, pool: Pool) -> None:
        self._check_budget()
        self._executions += 1
        self._situations.begin()
        self._pair = Pair(self._a.target, self._b.target, pool, self._wanted(), strict=self._options.strict)

    def apply(self, operation: Mutation) -> bool:
        self._check_budget()
        pair = self._pair
        assert pair is not None
        difference = pair.apply(operation)
        self._steps += 1
        self._tick()
        if difference is not None or pair.ended:
            self._pair = None
            if difference is None:
                raise EndExample
            raise _Differs(pair, difference)
        self._situations.note(pair)
        return isinstance(pair.steps[-1].a.answer, Refused)

    def end(self) -> None:
        pair = self._pair
        if pair is not None:
            for operation in pair.give_all_back():
                if pair.is_legal(operation):
                    self.apply(operation)
        self._pair = None

    def _wanted(self) -> list[str]:
        """The kinds of which there is still something to learn."""
        return [kind for kind in self._kinds if not self._groups.is_muted(kind)]

    def _check_budget(self) -> None:
        budget = self._options.budget
        if (
            self._interrupt.came
            or (budget.max_steps is not None and self._steps >= budget.max_steps)
            or (budget.max_time_s is not None and time.monotonic() - self._began >= budget.max_time_s)
        ):
            raise BudgetSpent

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S:
            return
        self._told, budget, seconds = now, self._options.budget, now - self._began
        parts = [self._steps / budget.max_steps] if budget.max_steps else []
        parts += [seconds / budget.max_time_s] if budget.max_time_s else []
        fraction = min(1.0, max(parts, default=0.0))
        self._on_tick(Progress(self._phase, self._steps, seconds, fraction, len(self._groups.failures)))

    # --- what differs --------------------------------------------------------------------------------------

    def _found(self, differs: _Differs, origin: Origin) -> None:
        """Make a difference small, and tell of it if its group is not there yet."""
        kind, hangs = differs.difference.kind, differs.pair.hangs
        self._phase, phase = f"shrinking a difference of the kind {kind}", self._phase
        small = differs.pair.scenario if hangs else shrink(differs.pair.scenario, self._keeping(kind), _MAX_PLAYS)
        pair, difference = self._play(small, kind) if not hangs else (differs.pair, differs.difference)
        repeats = difference is not None
        if difference is None:
            pair, difference = differs.pair, differs.difference  # as it came
        self._phase = phase
        key = Key(kind, shape_of(pair.scenario.program))
        found = self._groups.failures.get(key) or kept(
            self._a, self._b, pair, difference, origin, repeats, self._options.traces
        )
        if self._groups.add(key, found):
            self._on_found(found)
            if self._options.budget.stop_at_first:
                raise CutShort("ended at the first difference")
        if hangs:
            raise CutShort("ended because a target hangs")

    def _keeping(self, kind: str) -> Callable[[Scenario], Scenario | None]:
        def differs(scenario: Scenario) -> Scenario | None:
            self._tick()
            if self._interrupt.came or not self.limits.allow(scenario.pool):
                return None
            pair, difference = self._play(scenario, kind)
            return pair.scenario if difference is not None else None

        return differs

    def _play(self, scenario: Scenario, kind: str) -> tuple[Pair, Difference | None]:
        return play(self._a.target, self._b.target, scenario, [kind], strict=self._options.strict)

    def _report(self, cut_short: str) -> Diff:
        groups, options = self._groups, self._options
        found = [
            msgspec.structs.replace(groups.failures[key], count=groups.counts[key])
            for key in sorted(groups.failures, key=lambda key: list(KINDS).index(key.obligation))
        ]
        reasons = [cut_short] if cut_short else []
        reasons += [f"{kind} is not compared: {self._unseen[kind]}" for kind in _ESSENTIAL if kind in self._unseen]
        reasons += self._situations.lacking(self.limits)
        return Diff(
            a=self._a.side,
            b=self._b.side,
            strict=options.strict,
            compared=self._kinds,
            not_compared=self._unseen,
            seed=options.seed,
            max_steps=options.budget.max_steps,
            max_time_s=options.budget.max_time_s,
            found=found,
            muted=[kind for kind in self._kinds if groups.is_muted(kind)],
            met=self._situations.met,
            steps=self._steps,
            executions=self._executions,
            seconds=round(time.monotonic() - self._began, 3),
            cut_short=cut_short,
            reasons=[] if found else reasons,
            exit_code=DIFFERENT if found else INCONCLUSIVE if reasons else SAME,
            date=datetime.now(UTC).date().isoformat(),
            kvaudit=__version__,
        )


def _lacks(needs: tuple[str, ...], a: Party, b: Party) -> str:
    """Who does not offer what a kind needs."""
    lacking = [party.spec.text for party in (a, b) if not set(needs) <= party.target.capabilities]
    return f"{' and '.join(dict.fromkeys(lacking))} {'offer' if len(set(lacking)) > 1 else 'offers'} no {needs[0]}"
