"""Makes a finding of what a search ran into, by playing its program on a fresh pool."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import msgspec

from kvaudit import words
from kvaudit.breach import SEVERITY, Breach, gravest
from kvaudit.execution import Execution, Scenario, play
from kvaudit.explore.job import Job
from kvaudit.explore.probes import reads, wrong_read
from kvaudit.protocol import Pool, Program
from kvaudit.report import Finding, StepShown
from kvaudit.runner import details_of, shown
from kvaudit.trace import FORMAT, TraceHeader, keep_trace
from kvspec.obligations import OBLIGATIONS


def counterexample(job: Job, pool: Pool, program: Program) -> Finding | None:
    """The finding of a program that breaks an obligation; None if on a fresh pool it does not."""
    execution = play(job.target, Scenario(pool, program), job.profile)
    return _finding(job, execution, execution.breaches, []) if execution.breaches else None


def wrong_reads(job: Job, pool: Pool, program: Program) -> Finding | None:
    """The finding of a state that is read wrongly; None if on a fresh pool it is not."""
    execution = play(job.target, Scenario(pool, program), job.profile)
    if execution.breaches:
        return _finding(job, execution, execution.breaches, [])
    ledger = execution.oracle.ledger
    job.target.open(pool)
    asked = reads(ledger, job.target.capabilities)
    breach = wrong_read(ledger, asked, job.target.run([*program, *asked])[len(program) :])
    if breach is None:
        return None
    last = StepShown("all reads", "what the specification says", "something else", [breach.obligation])
    return _finding(job, execution, (breach,), [last])


def _finding(job: Job, execution: Execution, breaches: tuple[Breach, ...], more: list[StepShown]) -> Finding:
    main = gravest(breaches)
    pool, scenario = execution.pool, execution.scenario
    digest = hashlib.sha256(msgspec.json.encode((pool, scenario.program))).hexdigest()[:8]
    name = f"{main.obligation}-{digest}"
    header = TraceHeader(FORMAT, scenario.pool, job.spec.text, job.profile.name, main.obligation)
    trace = keep_trace(job.options.failures, name, header, scenario) if not more else None  # a trace has no reads
    return Finding(
        id=name,
        obligation=main.obligation,
        also=sorted({b.obligation for b in breaches} - {main.obligation}, key=SEVERITY.index),
        symptom=OBLIGATIONS[main.obligation].symptom,
        details=details_of(breaches),
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        enable_prefix_cache=pool.enable_prefix_cache,
        steps=[*map(shown, execution.played), *more],
        count=1,
        trace=str(trace) if trace is not None else None,
        reproduce=_reproduce(job, pool, trace),
    )


def _reproduce(job: Job, pool: Pool, trace: Path | None) -> str:
    flags = job.spec.flags()
    if job.profile.name != job.target.profile:
        flags += ["--profile", job.profile.name]
    if trace is not None:
        return shlex.join(["kvaudit", "replay", str(trace), *flags])
    sizes = ["--blocks", str(pool.num_blocks), "--block-size", str(pool.block_size)]
    return shlex.join(["kvaudit", "explore", job.spec.text, *sizes, *flags])


def in_words(program: Program) -> str:
    """A program on one line."""
    return "; ".join(map(words.call, program)) or "a fresh pool"
