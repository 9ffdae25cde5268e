"""Runs an audit: saved failures, witnesses, generated examples, misuse; then the verdicts.

What happens is told as a stream of events (`kvaudit.report`); every front end consumes them and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvaudit import __version__, words
from kvaudit.breach import SEVERITY, Breach, gravest, gravity
from kvaudit.errors import UsageError
from kvaudit.execution import Execution, Played, Scenario, play
from kvaudit.goals import goals_of
from kvaudit.interrupt import Interrupt
from kvaudit.machine import Driver, EndExample, run_batch
from kvaudit.misuse import Accepted, try_misuse
from kvaudit.profiles import Profile
from kvaudit.protocol import Mutation, Pool
from kvaudit.report import (
    CONFORMS,
    HOLDS,
    INCONCLUSIVE,
    NOT_OBSERVABLE,
    NOT_REACHED,
    TRUSTING,
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
    Row,
    StepShown,
)
from kvaudit.shrink import MAX_PLAYS, shrink
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import FORMAT, TraceHeader, keep_trace, read_trace
from kvaudit.tracker import Tracker
from kvspec import SPEC_VERSION
from kvspec.obligations import LEDGER, OBLIGATIONS
from kvspec.variants import chosen

DEFAULT_MAX_STEPS = 20_000
DEFAULT_SEED = 0
_PROGRESS_EVERY_S = 0.1
_SHAPES_PER_OBLIGATION = 3
_REPEATS_BEFORE_MUTED = 3
_PATIENCE_WITH_HANGS_S = 30.0
_DOES_NOT_REPEAT = (
    "the same program on a fresh pool goes otherwise: state is left over from other pools, or there is chance"
)
_ESSENTIAL = {"K1": "num_cached_tokens", "O1": "num_free_blocks", "I4": "num_free_blocks"}
"""Without these no verdict is worth its name."""


@dataclass(frozen=True)
class Options:
    """How to audit.

    max_steps: the budget; a step is one allocate, append or free with everything checked. max_time_s: a limit
    in seconds, which makes the run depend on the machine. stop_at_first: end at the first finding. misuse:
    O10 counts for the exit code. failures: where findings are saved, and replayed from.
    """

    seed: int = DEFAULT_SEED
    max_steps: int | None = DEFAULT_MAX_STEPS
    max_time_s: float | None = None
    stop_at_first: bool = False
    misuse: bool = False
    failures: Path | None = None


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
        self._options = options
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
        report = self._report("interrupted" if self._interrupt.came else cut_short)
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
        batch = 0
        while True:
            batch += 1
            try:
                run_batch(self, self._options.seed * 1_000_003 + batch)
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
            if self._interrupt.came:
                return None  # as small as it is by now
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
        finding = self._finding(again)
        if not repeats or not execution.repeats:
            finding = msgspec.structs.replace(finding, details=[*finding.details, _DOES_NOT_REPEAT])
        group.shapes[shape] = finding
        self._emit(Found(finding))
        if hangs:  # whoever hangs once mostly hangs again
            raise _CutShort("ended because the target hangs")
        if self._options.stop_at_first:
            raise _CutShort("ended at the first finding")

    def _plays_for_hang(self) -> int:
        """So many plays as take half a minute if each of them hangs."""
        return int(_PATIENCE_WITH_HANGS_S / self._spec.timeout)

    def _finding(self, execution: Execution) -> Finding:
        main = gravest(execution.breaches)
        pool, scenario = execution.pool, execution.scenario
        digest = hashlib.sha256(msgspec.json.encode((pool, scenario.program))).hexdigest()[:8]
        name = f"{main.obligation}-{digest}"
        header = TraceHeader(FORMAT, scenario.pool, self._spec.text, self._profile.name, main.obligation)
        trace = keep_trace(self._options.failures, name, header, scenario)
        return Finding(
            id=name,
            obligation=main.obligation,
            also=sorted({b.obligation for b in execution.breaches} - {main.obligation}, key=SEVERITY.index),
            symptom=OBLIGATIONS[main.obligation].symptom,
            details=details_of(execution.breaches),
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            enable_prefix_cache=pool.enable_prefix_cache,
            steps=[shown(played) for played in execution.played],
            count=1,
            trace=str(trace) if trace is not None else None,
            reproduce=self._reproduce(trace),
        )

    def _reproduce(self, trace: Path | None) -> str:
        flags = self._spec.flags()
        if self._profile.name != self._target.profile:
            flags += ["--profile", self._profile.name]
        if trace is not None:
            return shlex.join(["kvaudit", "replay", str(trace), *flags])
        budget = ["--seed", str(self._options.seed), "--max-steps", str(self._steps)]
        return shlex.join(["kvaudit", "run", self._spec.text, *flags, *budget])

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
            notes=[*self._profile.notes, *self._target.notes],
            capabilities=sorted(self._target.capabilities),
            stubs=list(self._target.stubs),
            kvaudit=__version__,
            spec=SPEC_VERSION,
        )

    def _report(self, cut_short: str) -> Report:
        rows = [self._row(name) for name in OBLIGATIONS]
        findings = [
            msgspec.structs.replace(finding, count=group.counts[shape])
            for _, group in sorted(self._groups.items(), key=lambda item: SEVERITY.index(item[0]))
            for shape, finding in group.shapes.items()
        ]
        violated = [row.obligation for row in rows if row.verdict == VIOLATED]
        reasons = [
            f"{name} is not observable: the target offers no {method}"
            for name, method in _ESSENTIAL.items()
            if method not in self._target.capabilities
        ]
        missed = [goal for goal, count in self._goals.items() if not count]
        if missed:
            reasons.append(f"{len(missed)} of {len(self._goals)} reach goals never met")
        if cut_short:
            reasons.insert(0, cut_short)
        if violated:
            exit_code = VIOLATION
        else:
            exit_code = INCONCLUSIVE if reasons else CONFORMS
        return Report(
            header=self._header(),
            rows=rows,
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

    def _row(self, name: str) -> Row:
        obligation = OBLIGATIONS[name]
        if name == "O10":
            return self._misuse_row()
        form = chosen(self._profile.variants, name)
        unseen = obligation.needs - self._offered()
        if unseen and obligation.weaker:
            form.append(f"black box: {obligation.weaker}")

        def row(verdict: str, detail: str = "") -> Row:
            return Row(name, obligation.title, obligation.statement, verdict, "; ".join(form), detail)

        if name in self._seen:
            return row(VIOLATED, self._shrunk_detail(name) or self._seen[name])
        if unseen and not obligation.weaker:
            missing = ", ".join("observe()" if need == LEDGER else f"{need}()" for need in sorted(unseen))
            return row(NOT_OBSERVABLE, f"the target offers no {missing}")
        missed = [g.id for g in goals_of(self._profile) if name in g.supports and not self._goals[g.id]]
        if missed:
            return row(NOT_REACHED, f"not met: {', '.join(missed)}")
        return row(HOLDS)

    def _shrunk_detail(self, name: str) -> str:
        """What a finding says of an obligation: easier to read than what was seen at first."""
        for group in self._groups.values():
            for finding in group.shapes.values():
                for names, _, detail in (line.partition(": ") for line in finding.details):
                    if name in names.split(", "):
                        return f"{detail} (see {finding.id})"
        return ""

    def _offered(self) -> set[str]:
        return {*self._target.capabilities, *([LEDGER] if "observe" in self._target.capabilities else [])}

    def _misuse_row(self) -> Row:
        title, statement = OBLIGATIONS["O10"].title, OBLIGATIONS["O10"].statement
        if self._spec.adapted:
            return Row(
                "O10", title, statement, NOT_OBSERVABLE, "", "an adapter stands between the auditor and the engine"
            )
        if self._misuse is None:
            return Row("O10", title, statement, NOT_REACHED, "", "misuse was not tried")
        count, accepted = self._misuse
        if not count:
            return Row("O10", title, statement, NOT_OBSERVABLE, "", "the target cannot make such calls")
        if not accepted:
            return Row("O10", title, statement, HOLDS, f"strict: {count} kinds of misuse", "")
        kinds: dict[str, list[str]] = {}
        for misuse in accepted:
            kinds.setdefault(misuse.how, []).append(misuse.what)
        listed = "\n".join(f"{how}: {'; '.join(what)}" for how, what in kinds.items())
        form = f"{len(accepted)} of {count} kinds of misuse get through"
        return Row("O10", title, statement, VIOLATED if self._options.misuse else TRUSTING, form, listed)


def details_of(breaches: tuple[Breach, ...]) -> list[str]:
    """One line for each thing that is wrong, with all obligations that it breaks, the gravest first."""
    names: dict[str, list[str]] = {}
    for breach in sorted(breaches, key=gravity):
        if breach.obligation not in names.setdefault(breach.detail, []):
            names[breach.detail].append(breach.obligation)
    return [f"{', '.join(obligations)}: {detail}" for detail, obligations in names.items()]


def shown(played: Played) -> StepShown:
    judgement = played.judgement
    broken = [breach.obligation for breach in sorted(judgement.breaches, key=gravity)]
    return StepShown(
        words.call(played.operation), words.expected(played.operation, judgement), words.came(judgement), broken
    )
