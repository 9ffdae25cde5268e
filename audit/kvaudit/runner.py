"""Runs an audit: known and saved failures, witnesses, misuse, generated examples; then the verdicts.

What happens is told as a stream of events (`kvaudit.report`); every front end consumes them and nothing else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kvaudit import __version__
from kvaudit.breach import gravest
from kvaudit.ending import BudgetSpent, CutShort, until_its_end
from kvaudit.errors import UsageError
from kvaudit.execution import Execution
from kvaudit.findings import Failure, Subject, failure_of, keep, kept_at
from kvaudit.groups import Groups, Key, Known, key_of, read_known, shape_of
from kvaudit.interrupt import Interrupt
from kvaudit.levels import configured, goals_of, unseen
from kvaudit.misuse import Accepted, try_misuse
from kvaudit.profiles import Profile
from kvaudit.protocol import MANAGER
from kvaudit.report import (
    CONFORMS,
    FAILING,
    FIXED,
    INCONCLUSIVE,
    UNTOLD,
    VIOLATED,
    VIOLATION,
    Begun,
    Ended,
    Event,
    Finding,
    Found,
    GoalCount,
    Header,
    KnownFailure,
    Progress,
    Report,
)
from kvaudit.session import Budget, Session
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import Origin, read_trace
from kvaudit.verdicts import inconclusive, misuse_row, rows, stale
from kvaudit.volume.dispatch import results
from kvaudit.volume.shards import Job, Shard, plan
from kvaudit.volume.workers import Cluster, LocalPool, Workers
from kvaudit.workload import Engine
from kvspec import SPEC_VERSION

DEFAULT_MAX_STEPS = 20_000
DEFAULT_SEED = 0
_PROGRESS_EVERY_S = 0.1


@dataclass(frozen=True)
class Options:
    """How to audit.

    max_steps: the budget; a step is one operation (allocate, append or free; submit, step or cancel) with everything
    checked. max_time_s: a limit in seconds, which makes the run depend on the machine. stop_at_first: end at the first
    finding. misuse: O10 counts for the exit code. failures: where findings are saved, and replayed from. engine: who
    makes the examples. known: where the failures are that are known already. processes, cluster: who plays the
    examples, if not this process: so many of this machine, or the Dask cluster at that address.
    """

    seed: int = DEFAULT_SEED
    max_steps: int | None = DEFAULT_MAX_STEPS
    max_time_s: float | None = None
    stop_at_first: bool = False
    misuse: bool = False
    failures: Path | None = None
    engine: Engine = "both"
    known: Path | None = None
    processes: int | None = None
    cluster: str | None = None

    def workers(self) -> Workers | None:
        """Who plays the examples; None if it is this process."""
        if self.cluster is not None:
            return Cluster(self.cluster)
        return LocalPool(self.processes) if self.processes is not None else None


class Audit:
    """One audit of one started target. Raises UsageError if the known failures cannot be read."""

    def __init__(
        self, target: Target, spec: TargetSpec, profile: Profile, options: Options, emit: Callable[[Event], None]
    ) -> None:
        self._target = target
        self._spec = spec
        self._profile = profile
        self._options = options
        self._goals = goals_of(profile, target.capabilities)
        self._subject = Subject(target, spec, profile, options.failures)
        self._emit = emit
        self._known = read_known(options.known, spec.text) if options.known is not None else []
        self._now_known: list[KnownFailure] = []
        self._groups = Groups[Failure]({known.key: known.trace for known in self._known})
        self._findings: dict[Key, Finding] = {}
        self._misuse: tuple[int, list[Accepted]] | None = None
        self._workers = options.workers()
        self._interrupt = Interrupt()
        self._session = Session(
            self._subject,
            Budget(options.max_steps, options.max_time_s, options.stop_at_first),
            self._groups,
            on_failure=self._found,
            on_tick=self._tell,
            interrupt=self._interrupt,
        )
        self._began = self._told = self._session.began

    def run(self) -> Report:
        """Run to the end of the budget, or to Ctrl-C, and return what was found out."""
        with until_its_end(self._interrupt) as ending, self._workers or contextlib.nullcontext():
            self._emit(Begun(self._header()))
            self._replay_known()
            self._replay_saved()
            self._play_witnesses()
            self._try_misuse()
            self._generate()
        report = self._report(ending.why)
        self._emit(Ended(report))
        return report

    # --- phases --------------------------------------------------------------------------------------------

    def _replay_known(self) -> None:
        self._session.phase = "known failures"
        for known in self._known:
            execution = self._session.replay(known.scenario)
            state = self._state_of(known, execution)
            self._now_known.append(KnownFailure(known.trace, known.key.obligation, state))
            if state == FAILING:
                failure = failure_of(self._subject, execution, None)
                if self._groups.add(known.key, failure):
                    self._found(failure, known.key)
            elif execution.breaches:  # it fails otherwise: that is another failure
                self._session.found(execution, None)

    def _state_of(self, known: Known, execution: Execution[Any, Any]) -> str:
        """What became of a known failure, as it was played again."""
        obligation = known.key.obligation
        if execution.breaches:
            return FAILING if gravest(execution.breaches).obligation == obligation else FIXED
        shows = any(line.differs for line in known.lines)  # then no observe() is needed to see it again
        return FIXED if shows or not unseen(self._profile, obligation, self._target.capabilities) else UNTOLD

    def _replay_saved(self) -> None:
        self._session.phase = "saved failures"
        folder = self._options.failures
        for path in sorted(folder.glob("*/trace.jsonl")) if folder is not None else []:
            if not path.is_file():
                continue  # a pipe would not end
            try:
                header, scenario = read_trace(path)
            except UsageError:
                continue  # somebody else's file, or of another version: `kvaudit replay` says what is wrong with it
            is_known = Key(header.obligation, shape_of(scenario.program)) in self._groups.known
            if header.target == self._spec.text and not is_known:
                self._session.play(scenario, header.origin)

    def _play_witnesses(self) -> None:
        self._session.phase = "witnesses"
        for goal in self._goals:
            for scenario in configured(goal.witness, self._target.settings):
                self._session.play(scenario, Origin("witness"))
                if self._session.tally.goals[goal.id]:
                    break

    def _try_misuse(self) -> None:
        if self._target.level != MANAGER:
            return  # what a server may do is not a matter of this specification
        if self._spec.adapted:
            return  # an adapter of ours checks its own arguments: that says nothing about the engine
        self._session.phase = "misuse"
        self._misuse = try_misuse(self._target, self._tell)

    def _generate(self) -> None:
        self._session.phase = "generated"
        options = self._options
        if self._workers is None:
            self._session.generate(options.engine, options.seed, options.seed)
        else:
            self._generate_by(self._workers)

    def _generate_by(self, workers: Workers) -> None:
        """As many steps as are left, by others, each of whose shards counts once."""
        job = Job(
            self._spec,
            self._profile.name,
            self._options.seed,
            self._groups.known,
            list(self._groups.failures),
            self._options.stop_at_first,
            str(Path.cwd()),
        )
        with contextlib.closing(results(workers, job, self._shards(), self._between)) as each:
            for result in each:
                self._session.tally.add(result.tally)
                for name, times in result.uncounted.items():
                    self._groups.pass_over(name, times)
                for failure, times in result.failures:
                    if self._groups.add(key_of(failure), failure, times):
                        self._found(failure)
                if result.cut_short:
                    raise CutShort(result.cut_short)

    def _shards(self) -> Iterator[Shard]:
        """What is left of the budget; those that are sent later are left less time."""
        options, left = self._options, None
        if options.max_steps is not None:
            left = max(0, options.max_steps - self._session.tally.steps)
        for shard in plan(options.engine, options.seed, left):
            if options.max_time_s is None:
                yield shard
                continue
            seconds = options.max_time_s - (time.monotonic() - self._began)
            if seconds <= 0:
                return
            yield msgspec.structs.replace(shard, max_time_s=seconds)

    def _between(self) -> None:
        self._tell()
        if self._interrupt.came:
            raise BudgetSpent

    # --- what is told --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told < _PROGRESS_EVERY_S:
            return
        self._told = now
        options, steps, seconds = self._options, self._session.tally.steps, now - self._began
        parts = [steps / options.max_steps] if options.max_steps else []
        parts += [seconds / options.max_time_s] if options.max_time_s else []
        fraction = min(1.0, max(parts, default=0.0))
        self._emit(Progress(self._session.phase, steps, seconds, fraction, len(self._groups.failures)))

    def _found(self, failure: Failure, key: Key | None = None) -> None:
        """Keep the first failure of a group, and tell of it."""
        key = key or key_of(failure)
        trace = self._groups.known.get(key)
        if trace is None:
            finding = keep(self._subject, failure, self._again())
        else:
            finding = msgspec.structs.replace(kept_at(self._subject, failure, Path(trace)), known=True)
        self._findings[key] = finding
        self._emit(Found(finding))

    def _again(self) -> list[str]:
        options = self._options
        budget = ["--seed", str(options.seed)]
        if self._workers is None:
            budget += ["--max-steps", str(self._session.tally.steps)]
        else:  # which shards there are depends on the whole of the budget
            budget += ["--max-steps", str(options.max_steps or self._session.tally.steps), "-j", "1"]
        budget += ["--level", self._spec.level] if self._spec.level is not None else []
        budget += ["--engine", options.engine] if options.engine != "both" else []
        return ["kvaudit", "run", self._spec.text, *self._subject.flags(), *budget]

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
            notes=[
                *self._profile.notes,
                *self._target.notes,
                *map(str, self._profile.excuses),
                *_left_out(self._profile),
            ],
            capabilities=sorted(self._target.capabilities),
            stubs=list(self._target.stubs),
            kvaudit=__version__,
            spec=SPEC_VERSION,
            engine=self._options.engine,
            workers=self._workers.name if self._workers is not None else "",
            level=self._profile.level,
            settings=list(self._spec.settings),
            source=self._spec.source,
            drawn={name: list(values) for name, values in self._target.settings.items()},
        )

    def _report(self, cut_short: str) -> Report:
        tally, groups, capabilities = self._session.tally, self._groups, self._target.capabilities
        findings = [
            msgspec.structs.replace(self._findings[key], count=groups.counts[key])
            for key in groups.in_order
            if key in self._findings
        ]
        told = {name: _told_by(findings, name) or detail for name, detail in tally.seen.items()}
        misuse = misuse_row(self._misuse, adapted=self._spec.adapted, counts=self._options.misuse)
        table = [
            msgspec.structs.replace(row, known=row.verdict == VIOLATED and _is_known(findings, row.obligation))
            for row in rows(self._profile, capabilities, msgspec.structs.replace(tally, seen=told), misuse)
        ]
        # Executions that end with a known failure meet less: what is not met is not asked for then.
        goals = tally.goals if not any(finding.known for finding in findings) else {}
        reasons = [cut_short] if cut_short else stale(self._profile, tally)
        reasons += inconclusive(self._profile, capabilities, goals)
        if any(row.verdict == VIOLATED and not row.known for row in table):
            exit_code = VIOLATION
        else:
            exit_code = INCONCLUSIVE if reasons else CONFORMS
        return Report(
            header=self._header(),
            rows=table,
            goals=[GoalCount(g.id, g.statement, tally.goals[g.id]) for g in self._goals],
            findings=findings,
            more=groups.uncounted,
            steps=tally.steps,
            executions=tally.executions,
            seconds=round(time.monotonic() - self._began, 3),
            cut_short=cut_short,
            reasons=reasons,
            exit_code=exit_code,
            date=datetime.now(UTC).date().isoformat(),
            known=self._now_known,
        )


def _is_known(findings: list[Finding], obligation: str) -> bool:
    """Whether it was broken by known failures only. What no finding names went away when one was made small."""
    own = [finding for finding in findings if obligation in (finding.obligation, *finding.also)]
    return bool(findings) and all(finding.known for finding in own or findings)


def _told_by(findings: list[Finding], name: str) -> str:
    """What a finding says of an obligation: easier to read than what was seen at first."""
    for finding in findings:
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
