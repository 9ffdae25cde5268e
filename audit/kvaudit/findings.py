"""A finding of an execution that broke an obligation: in words, kept as a trace, with the command that repeats it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvaudit import words
from kvaudit.breach import SEVERITY, Breach, gravest, gravity
from kvaudit.execution import Execution, Played
from kvaudit.profiles import Profile
from kvaudit.report import Finding, StepShown
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import FORMAT, TraceHeader, keep_trace
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


def finding_of(subject: Subject, execution: Execution, instead: Sequence[str]) -> Finding:
    """The finding of an execution that ends with a breach. `instead`: the command that repeats it without a trace."""
    name = _name(execution.breaches, execution)
    main = gravest(execution.breaches).obligation
    header = TraceHeader(FORMAT, execution.pool, subject.spec.text, subject.profile.name, main)
    trace = keep_trace(subject.failures, name, header, execution.scenario)
    repeat = ["kvaudit", "replay", str(trace), *subject.flags()] if trace is not None else instead
    return _finding(execution, execution.breaches, list(map(shown, execution.played)), trace, repeat)


def finding_of_reads(execution: Execution, breach: Breach, repeat: Sequence[str]) -> Finding:
    """The finding of a state that is read wrongly. No trace is kept: a trace has no reads."""
    last = StepShown("all reads", "what the specification says", "something else", [breach.obligation])
    return _finding(execution, (breach,), [*map(shown, execution.played), last], None, repeat)


def _finding(
    execution: Execution,
    breaches: tuple[Breach, ...],
    steps: list[StepShown],
    trace: Path | None,
    repeat: Sequence[str],
) -> Finding:
    main, pool = gravest(breaches).obligation, execution.pool
    return Finding(
        id=_name(breaches, execution),
        obligation=main,
        also=sorted({breach.obligation for breach in breaches} - {main}, key=SEVERITY.index),
        symptom=OBLIGATIONS[main].symptom,
        details=_details(breaches),
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        enable_prefix_cache=pool.enable_prefix_cache,
        steps=steps,
        count=1,
        trace=str(trace) if trace is not None else None,
        reproduce=shlex.join(repeat),
    )


def _name(breaches: tuple[Breach, ...], execution: Execution) -> str:
    digest = hashlib.sha256(msgspec.json.encode((execution.pool, execution.scenario.program))).hexdigest()
    return f"{gravest(breaches).obligation}-{digest[:8]}"


def _details(breaches: tuple[Breach, ...]) -> list[str]:
    """One line for each thing that is wrong, with all obligations that it breaks, the gravest first."""
    names: dict[str, list[str]] = {}
    for breach in sorted(breaches, key=gravity):
        if breach.obligation not in names.setdefault(breach.detail, []):
            names[breach.detail].append(breach.obligation)
    return [f"{', '.join(obligations)}: {detail}" for detail, obligations in names.items()]


def shown(played: Played) -> StepShown:
    """A step in words."""
    judgement = played.judgement
    broken = [breach.obligation for breach in sorted(judgement.breaches, key=gravity)]
    return StepShown(
        words.call(played.operation), words.expected(played.operation, judgement), words.came(judgement), broken
    )
