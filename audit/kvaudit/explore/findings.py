"""Makes a finding of what a search ran into, by playing its program on a fresh pool."""

from __future__ import annotations

from kvaudit import words
from kvaudit.explore.job import Job
from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.explore.probes import reads, wrong_read
from kvaudit.findings import Subject, finding_of, finding_of_reads
from kvaudit.manager_execution import ManagerExecution
from kvaudit.protocol import Append, ManagerProgram, Pool
from kvaudit.report import Finding
from kvaudit.trace import Origin

_ORIGIN = Origin("exhaustive")


def counterexample(job: Job, pool: Pool, program: ManagerProgram) -> Finding | None:
    """The finding of a program that breaks an obligation; None if on a fresh pool it does not."""
    execution = ManagerExecution(job.target, pool, job.profile).play(program)
    return finding_of(_subject(job), execution, _ORIGIN, _search(job, pool)) if execution.breaches else None


def consequence(job: Job, pool: Pool, program: ManagerProgram) -> Finding | None:
    """What a program that spoils what no read shows leads to: its sequences grow in turn, and every move is tried.

    They grow until the block after the last one is full: by then all has been used that a manager may have noted of
    where the next token goes. None if nothing shows.
    """
    live = [str(seq) for seq in ManagerExecution(job.target, pool, job.profile).play(program).oracle.ledger.sequences]
    for length in range(2 * pool.block_size):
        for seq in live[: None if length else 1]:
            grown = (*program, *[Append(seq, 0)] * length)
            ledger = ManagerExecution(job.target, pool, job.profile).play(grown).oracle.ledger
            unused = [seq for seq in sequence_ids(pool.num_blocks) if seq not in ledger.sequences]
            for op in moves(ledger, unused[:1]):
                finding = counterexample(job, pool, (*grown, op))
                if finding is not None:
                    return finding
    return None


def wrong_reads(job: Job, pool: Pool, program: ManagerProgram) -> Finding | None:
    """The finding of a state that is read wrongly; None if on a fresh pool it is not."""
    execution = ManagerExecution(job.target, pool, job.profile).play(program)
    if execution.breaches:
        return finding_of(_subject(job), execution, _ORIGIN, _search(job, pool))
    ledger = execution.oracle.ledger
    job.target.open(pool)
    asked = reads(ledger, job.target.capabilities)
    breach = wrong_read(ledger, asked, job.target.run([*program, *asked])[len(program) :])
    return finding_of_reads(execution, breach, _search(job, pool)) if breach is not None else None


def _subject(job: Job) -> Subject:
    return Subject(job.target, job.spec, job.profile, job.options.failures)


def _search(job: Job, pool: Pool) -> list[str]:
    sizes = ["--blocks", str(pool.num_blocks), "--block-size", str(pool.block_size)]
    return ["kvaudit", "explore", job.spec.text, *sizes, *_subject(job).flags()]


def in_words(program: ManagerProgram) -> str:
    """A program on one line."""
    return "; ".join(map(words.call, program)) or "a fresh pool"
