"""A finding of an execution that broke an obligation: in words, kept as a trace, with the command that repeats it."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvaudit.breach import SEVERITY, Breach, gravest, gravity
from kvaudit.execution import Execution
from kvaudit.levels import unseen
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import Profile
from kvaudit.protocol import Program
from kvaudit.report import Finding, StepShown
from kvaudit.repro_file import NAME, repro_file
from kvaudit.snapshots import of_ledger
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import FORMAT, Origin, TraceHeader, TraceLine, features_of, keep_trace
from kvspec.obligations import OBLIGATIONS


@dataclass(frozen=True)
class Subject:
    """What is audited and how, and where its failures are kept (None: nowhere)."""

    target: Target
    spec: TargetSpec
    profile: Profile
    failures: Path | None

    def flags(self) -> list[str]:
        """The options that say the same on a command line."""
        profile = ["--profile", self.profile.name] if self.profile.name != self.target.profile else []
        return self.spec.flags() + profile


class Failure(msgspec.Struct, frozen=True):
    """An execution that ended with a breach, as it can be kept and sent: the finding, and the lines of its trace."""

    finding: Finding
    header: TraceHeader
    lines: list[TraceLine]

    @property
    def program(self) -> Program:
        """The operations, of which the last one broke an obligation."""
        return tuple(line.operation for line in self.lines)


def failure_of(subject: Subject, execution: Execution[Any, Any], origin: Origin | None, *notes: str) -> Failure:
    """The failure of an execution that ends with a breach. notes: what is said beside what is wrong."""
    lines = execution.transcript()
    main = gravest(execution.breaches).obligation
    spec = subject.spec
    header = TraceHeader(
        FORMAT,
        execution.pool,
        spec.text,
        subject.profile.name,
        main,
        len(lines),
        refusals=spec.refusals,
        origin=origin,
        features=features_of(subject.profile.level, (line.operation for line in lines)),
    )
    finding = _finding(execution, execution.breaches, execution.shown(), None, [])
    return Failure(msgspec.structs.replace(finding, details=[*finding.details, *notes]), header, lines)


def keep(subject: Subject, failure: Failure, instead: Sequence[str]) -> Finding:
    """Keep a failure as a trace, a test and a page; where none are kept, `instead` is the command that repeats it."""
    trace = keep_trace(subject.failures, failure.finding.id, failure.header, failure.lines)
    if trace is None:
        return msgspec.structs.replace(failure.finding, reproduce=shlex.join(instead))
    finding = kept_at(subject, failure, trace)
    _keep_beside(trace.parent, finding, subject, failure)
    return finding


def kept_at(subject: Subject, failure: Failure, trace: Path) -> Finding:
    """The finding of a failure whose trace is there."""
    repeat = ["kvaudit", "replay", str(trace), *subject.flags()]
    return msgspec.structs.replace(failure.finding, trace=str(trace), reproduce=shlex.join(repeat))


def finding_of(subject: Subject, execution: Execution[Any, Any], origin: Origin, instead: Sequence[str]) -> Finding:
    """The finding of an execution that ends with a breach, kept."""
    return keep(subject, failure_of(subject, execution, origin), instead)


def _keep_beside(folder: Path, finding: Finding, subject: Subject, failure: Failure) -> None:
    """Write the finding as a test and as a page beside its trace, or what can be written: it is shown all the same."""
    from kvaudit.pictures.page import FILE, page  # jinja2 is loaded only where something is found

    profile = subject.profile.name
    # What was found by a target that does not offer all shows from outside, even if no answer differs.
    sees_all = not unseen(subject.profile, finding.obligation, subject.target.capabilities)
    hidden = sees_all and not any(line.differs for line in failure.lines)
    with contextlib.suppress(OSError):
        test = repro_file(finding, failure.program, subject.spec, profile, folder, hidden=hidden)
        (folder / NAME).write_text(test, encoding="utf-8")
        (folder / FILE).write_text(page(finding), encoding="utf-8")


def finding_again(execution: Execution[Any, Any], trace: Path, repeat: Sequence[str]) -> Finding:
    """The finding of a saved trace that still fails. `repeat`: the command that plays it."""
    return _finding(execution, execution.breaches, execution.shown(), trace, repeat)


def finding_of_reads(execution: ManagerExecution, breach: Breach, repeat: Sequence[str]) -> Finding:
    """The finding of a state that is read wrongly. No trace is kept: a trace has no reads."""
    last = StepShown(
        "all reads",
        "what the specification says",
        "something else",
        [breach.obligation],
        of_ledger(execution.oracle.ledger),
        None,
        list(breach.blocks),
    )
    return _finding(execution, (breach,), [*execution.shown(), last], None, repeat)


def _finding(
    execution: Execution[Any, Any],
    breaches: tuple[Breach, ...],
    steps: list[StepShown],
    trace: Path | None,
    repeat: Sequence[str],
) -> Finding:
    breach, pool = gravest(breaches), execution.pool
    main = breach.obligation
    return Finding(
        id=_name(breaches, execution),
        obligation=main,
        also=sorted({breach.obligation for breach in breaches} - {main}, key=SEVERITY.index),
        symptom=OBLIGATIONS[main].symptom,
        details=details(breaches),
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        enable_prefix_cache=pool.enable_prefix_cache,
        steps=steps,
        count=1,
        trace=str(trace) if trace is not None else None,
        reproduce=shlex.join(repeat),
        story=_story(steps, breach),
        settings=pool.configuration,
    )


def _story(steps: list[StepShown], breach: Breach) -> list[str]:
    """What happened, which obligation that breaks, and what production would see."""
    obligation, last = OBLIGATIONS[breach.obligation], steps[-1]
    came = f"expected: {last.expected}; came: {last.got}" if last.got != last.expected else f"{last.got}, as expected"
    return [
        f"Step {len(steps)}, {last.call}: {came}.",
        f"This breaks {breach.obligation}, {obligation.title}: {breach.detail}.",
        f"In production: {obligation.symptom}.",
    ]


def _name(breaches: tuple[Breach, ...], execution: Execution[Any, Any]) -> str:
    digest = hashlib.sha256(msgspec.json.encode((execution.pool, execution.scenario.program))).hexdigest()
    return f"{gravest(breaches).obligation}-{digest[:8]}"


def details(breaches: tuple[Breach, ...]) -> list[str]:
    """One line for each thing that is wrong, with all obligations that it breaks, the gravest first."""
    names: dict[str, list[str]] = {}
    for breach in sorted(breaches, key=gravity):
        if breach.obligation not in names.setdefault(breach.detail, []):
            names[breach.detail].append(breach.obligation)
    return [f"{', '.join(obligations)}: {detail}" for detail, obligations in names.items()]
