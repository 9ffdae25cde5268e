"""Runs an audit: saved failures, witnesses, generated examples, misuse; then the verdicts.

What happens is told as a stream of events (`kvaudit.report`); every front end consumes them and nothing else.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvaudit import __version__
from kvaudit.breach import SEVERITY, gravest
from kvaudit.errors import UsageError
from kvaudit.execution import Execution, Played, Scenario, play
from kvaudit.findings import Subject, finding_of
from kvaudit.goals import goals_of
from kvaudit.interrupt import Interrupt
from kvaudit.misuse import Accepted, try_misuse
from kvaudit.profiles import Profile
from kvaudit.protocol import Mutation, Pool
from kvaudit.report import (
    CONFORMS,
    INCONCLUSIVE,
    VIOLATED,
    VIOLATION,
    Begun,
    Ended,
    Event,
    Finding,
    Found,
    GoalCount,
    Header,
    Progress,
    Report,
)
from kvaudit.shrink import MAX_PLAYS, shrink
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import read_trace
from kvaudit.tracker import Tracker
from kvaudit.turns import turns
from kvaudit.verdicts import inconclusive, misuse_row, rows
from kvaudit.workload import Driver, EndExample, Engine
from kvspec import SPEC_VERSION

DEFAULT_MAX_STEPS = 20_000
DEFAULT_SEED = 0
INTERRUPTED = "interrupted"
"""Why an audit was cut short that Ctrl-C has ended."""

_PROGRESS_EVERY_S = 0.1
_SHAPES_PER_OBLIGATION = 3
_REPEATS_BEFORE_MUTED = 3
_PATIENCE_WITH_HANGS_S = 30.0
_DOES_NOT_REPEAT = (
    "the same program on a fresh pool goes otherwise: state is left over from other pools, or there is chance"
)


@dataclass(frozen=True)
class Options:
    """How to audit.

    max_steps: the budget; a step is one allocate, append or free with everything checked. max_time_s: a limit
    in seconds, which makes the run depend on the machine. stop_at_first: end at the first finding. misuse:
    O10 counts for the exit code. failures: where findings are saved, and replayed from. engine: who makes the examples.
    """

    seed: int = DEFAULT_SEED
    max_steps: int | None = DEFAULT_MAX_STEPS
    max_time_s: float | None = None
    stop_at_first: bool = False
    misuse: bool = False
    failures: Path | None = None
    engine: Engine = "both"


class _BudgetSpent(BaseException):
    """Ends a batch. Not an Exception, so that Hypothesis passes it on untouched."""


class _CutShort(BaseException):
    """Ends the audit before its budget; the message says why."""


class _Breached(BaseException):
    """Carries a failing execution out of a batch."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution


@dataclass
class _Group:
    """Findings of one obligation."""

    shapes: dict[tuple[str, ...], Finding] = field(default_factory=dict)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    repeats: int = 0  # findings in a row that were shrunk to a known shape
    uncounted: int = 0  # failures since then, no longer shrunk

    @property
    def is_muted(self) -> bool:
        return len(self.shapes) >= _SHAPES_PER_OBLIGATION or self.repeats >= _REPEATS_BEFORE_MUTED


class Audit(Driver):
    """One audit of one started target."""

    def __init__(
        self, target: Target, spec: TargetSpec, profile: Profile, options: Options, emit: Callable[[Event], None]
    ) -> None:
        self._target = target
        self._spec = spec
        self._profile = profile
        self.limits = profile.limits
        self._options = options
        self._subject = Subject(target, spec, profile, options.failures)
        self._emit = emit
        self._goals = {goal.id: 0 for goal in goals_of(profile)}
        self._groups: dict[str, _Group] = {}
        self._seen: dict[str, str] = {}
        self._misuse: tuple[int, list[Accepted]] | None = None
        self._steps = 0
        self._executions = 0
        self._began = self._told = time.monotonic()
        self._phase = "witnesses"
        self._execution: Execution | None = None
        self._tracker = Tracker()
        self._interrupt = Interrupt()

    def run(self) -> Report:
        """Run to the end of the budget, or to Ctrl-C, and return what was found out."""
        cut_short = ""
        with self._interrupt:
            try:
                self._emit(Begun(self._header()))
                self._replay_saved()
                self._play_witnesses()
                self._try_misuse()
                self._generate()
            except _BudgetSpent:
                pass
            except _CutShort as cut:
                cut_short = str(cut)
            except KeyboardInterrupt:
                self._interrupt.came = True
            except Exception:
                if not self._interrupt.came:
                    raise  # else it is what a KeyboardInterrupt has become on its way
        report = self._report(INTERRUPTED if self._interrupt.came else cut_short)
        self._emit(Ended(report))
        return report

    def generate_only(self) -> int:
        """Only the generated examples, to the end of the budget: for measuring. Returns the steps made."""
        with contextlib.suppress(_BudgetSpent):
            self._generate()
        return self._steps

    # --- phases --------------------------------------------------------------------------------------------

    def _replay_saved(self) -> None:
        self._phase = "saved failures"
        folder = self._options.failures
        for path in sorted(folder.glob("*/trace.jsonl")) if folder is not None else []:
            if not path.is_file():
                continue  # a pipe would not end
            try:
                header, scenario = read_trace(path)
            except UsageError:
                continue  # somebody else's file, or of another version: `kvaudit replay` says what is wrong with it
            if header.target == self._spec.text:
                self._play(scenario)

    def _play_witnesses(self) -> None:
        self._phase = "witnesses"
        for goal in goals_of(self._profile):
            self._play(goal.witness)

    def _play(self, scenario: Scenario) -> None:
        """A scripted scenario to its end, through the same steps as a generated one."""
        try:
            self.begin(scenario.pool)
            for operation in scenario.program:
                if self._execution is not None and self._execution.is_legal(operation):
                    self.apply(operation)
            self.end()
        except EndExample:
            pass
        except _Breached as breached:
            self._found(breached.execution)

    def _generate(self) -> None:
        self._phase = "generated"
        for turn in turns(self, self._options.engine, self._options.seed):
            try:
                turn()
            except _Breached as breached:
                self._found(breached.execution)

    def _try_misuse(self) -> None:
        if self._spec.adapted:
            return  # an adapter of ours checks its own arguments: that says nothing about the engine
        self._phase = "misuse"
        self._misuse = try_misuse(self._target, self._tell)

    # --- one example (the driver's side of the state machine) ------------------------------------------------

    def begin(self, pool: Pool) -> None:
        self._check_budget()
        self._executions += 1
        self._execution = Execution(self._target, pool, self._profile)
        self._tracker = Tracker()

    def apply(self, operation: Mutation) -> bool:
        self._check_budget()
        assert self._execution is not None
        judgement = self._execution.apply(operation)
        self._account(self._execution, self._execution.played[-1])
        return judgement.refused

    def end(self) -> None:
        execution = self._execution
        if execution is None:
            return
        before = len(execution.played)
        execution.give_all_back()
        for played in execution.played[before:]:
            self._account(execution, played)
        self._execution = None

    def _account(self, execution: Execution, played: Played) -> None:
        self._steps += 1
        if self._steps % 16 == 0:
            self._tell()
        breaches = played.judgement.breaches
        if not breaches:
            for goal in self._tracker.reached(played):
                if goal in self._goals:
                    self._goals[goal] += 1
            return
        self._execution = None
        for breach in breaches:
            self._seen.setdefault(breach.obligation, breach.detail)
        group = self._groups.setdefault(gravest(breaches).obligation, _Group())
        if group.is_muted:
            group.uncounted += 1
            raise EndExample
        raise _Breached(execution)

    def _check_budget(self) -> None:
        if self._interrupt.came:
            raise _BudgetSpent
        if self._options.max_steps is not None and self._steps >= self._options.max_steps:
            raise _BudgetSpent
        limit = self._options.max_time_s
        if limit is not None and time.monotonic() - self._began >= limit:
            raise _BudgetSpent

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told >= _PROGRESS_EVERY_S:
            self._told = now
            found = sum(len(group.shapes) for group in self._groups.values())
            seconds = now - self._began
            parts = [self._steps / self._options.max_steps] if self._options.max_steps else []
            parts += [seconds / self._options.max_time_s] if self._options.max_time_s else []
            self._emit(Progress(self._phase, self._steps, seconds, min(1.0, max(parts, default=0.0)), found))

    # --- findings ------------------------------------------------------------------------------------------

    def _found(self, execution: Execution) -> None:
        """Make a failure small, and report it unless one of the same obligation and shape is known."""
        obligation = gravest(execution.breaches).obligation
        group = self._groups[obligation]
        self._phase = f"shrinking a failure of {obligation}"
        phase = self._phase

        def breaks(scenario: Scenario) -> Scenario | None:
            self._tell()
            if self._interrupt.came or not self.limits.allow(scenario.pool):
                return None  # in the first case, as small as it is by now
            again = play(self._target, scenario, self._profile)
            if again.breaches and gravest(again.breaches).obligation == obligation:
                return again.scenario
            return None

        hangs = execution.hangs
        small = shrink(execution.scenario, breaks, max_plays=self._plays_for_hang() if hangs else MAX_PLAYS)
        again = play(self._target, small, self._profile)
        repeats = bool(again.breaches) and gravest(again.breaches).obligation == obligation
        if not repeats:
            again = execution  # as it came: what happens once in a while is wrong, too
        self._phase = phase
        shape = tuple(type(op).__name__ for op in again.scenario.program)
        group.counts[shape] += 1
        if shape in group.shapes:
            group.repeats += 1
            return
        group.repeats = 0
        finding = finding_of(self._subject, again, self._again())
        if not repeats or not execution.repeats:
            finding = msgspec.structs.replace(finding, details=[*finding.details, _DOES_NOT_REPEAT])
        group.shapes[shape] = finding
        self._emit(Found(finding))
        if hangs:  # whoever hangs once mostly hangs again
            raise _CutShort("ended because the target hangs")
        if self._options.stop_at_first:
            raise _CutShort("ended at the first finding")

    def _again(self) -> list[str]:
        budget = ["--seed", str(self._options.seed), "--max-steps", str(self._steps)]
        budget += ["--engine", self._options.engine] if self._options.engine != "both" else []
        return ["kvaudit", "run", self._spec.text, *self._subject.flags(), *budget]

    def _plays_for_hang(self) -> int:
        """So many plays as take half a minute if each of them hangs."""
        return int(_PATIENCE_WITH_HANGS_S / self._spec.timeout)

    # --- the report ----------------------------------------------------------------------------------------

    def _header(self) -> Header:
        variants = self._profile.variants
        return Header(
            target=self._spec.text,
            version=self._target.version,
            profile=self._profile.name,
            variants={name: getattr(variants, name) for name in variants.__slots__},
            seed=self._options.seed,
            max_steps=self._options.max_steps,
            max_time_s=self._options.max_time_s,
            assumptions=list(self._profile.assumptions),
            notes=[*self._profile.notes, *self._target.notes, *_left_out(self._profile)],
            capabilities=sorted(self._target.capabilities),
            stubs=list(self._target.stubs),
            kvaudit=__version__,
            spec=SPEC_VERSION,
        )

    def _report(self, cut_short: str) -> Report:
        seen = {name: self._shrunk_detail(name) or detail for name, detail in self._seen.items()}
        misuse = misuse_row(self._misuse, adapted=self._spec.adapted, counts=self._options.misuse)
        table = rows(self._profile, self._target.capabilities, seen, self._goals, misuse)
        findings = [
            msgspec.structs.replace(finding, count=group.counts[shape])
            for _, group in sorted(self._groups.items(), key=lambda item: SEVERITY.index(item[0]))
            for shape, finding in group.shapes.items()
        ]
        reasons = [cut_short] if cut_short else []
        reasons += inconclusive(self._target.capabilities, self._goals)
        if any(row.verdict == VIOLATED for row in table):
            exit_code = VIOLATION
        else:
            exit_code = INCONCLUSIVE if reasons else CONFORMS
        return Report(
            header=self._header(),
            rows=table,
            goals=[GoalCount(g.id, g.statement, self._goals[g.id]) for g in goals_of(self._profile)],
            findings=findings,
            more={name: group.uncounted for name, group in self._groups.items() if group.uncounted},
            steps=self._steps,
            executions=self._executions,
            seconds=round(time.monotonic() - self._began, 3),
            cut_short=cut_short,
            reasons=reasons,
            exit_code=exit_code,
        )

    def _shrunk_detail(self, name: str) -> str:
        """What a finding says of an obligation: easier to read than what was seen at first."""
        for group in self._groups.values():
            for finding in group.shapes.values():
                for names, _, detail in (line.partition(": ") for line in finding.details):
                    if name in names.split(", "):
                        return f"{detail} (see {finding.id})"
        return ""


def _left_out(profile: Profile) -> list[str]:
    """Which reach goals are not asked for, and why."""
    goals: dict[str, list[str]] = {}
    for goal, reason in profile.beyond.items():
        goals.setdefault(reason, []).append(goal)
    return [f"not asked for ({', '.join(names)}): {reason}" for reason, names in goals.items()]
