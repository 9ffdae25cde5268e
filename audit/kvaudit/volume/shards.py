"""A shard: a part of an audit that any process can do by itself, given by an engine, a seed and a number of steps.

How an audit is cut depends on its seed and its budget alone. So it finds the same on two processes as on two hundred.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvaudit import __version__
from kvaudit.ending import BudgetSpent, CutShort
from kvaudit.errors import TargetError, UsageError
from kvaudit.findings import Failure, Subject
from kvaudit.groups import Groups, Key
from kvaudit.levels import rules_for
from kvaudit.session import Budget, Session, Tally
from kvaudit.targets import Target, TargetSpec
from kvaudit.workload import Engine

_HYPOTHESIS_STEPS, _FIRST_SWARM_STEPS, _LARGEST_SWARM_STEPS = 4_000, 5_000, 20_000
"""Steps of a shard: a second or two of kvblocks, so that not much is lost with a process, nor waited for at the end."""


class Job(msgspec.Struct, frozen=True):
    """What the shards of an audit have in common.

    seed: of the run. known: the groups that were known before it. found: those that it has found by now. root: the
    folder from which the target is started. kvaudit: the version, which must be that of the workers.
    """

    spec: TargetSpec
    profile: str
    seed: int
    known: dict[Key, str]
    found: list[Key]
    stop_at_first: bool
    root: str
    kvaudit: str = __version__


class Shard(msgspec.Struct, frozen=True):
    """One of the parts, which are numbered from 0."""

    id: int
    engine: Engine
    seed: int
    max_steps: int
    max_time_s: float | None = None


class Result(msgspec.Struct, frozen=True):
    """What a shard came to.

    failures: the first one of each group, with the number of all. uncounted: further ones that were not made small,
    by obligation. cut_short: why it ended before its budget. error: why it could not be done.
    """

    shard: int
    tally: Tally
    failures: list[tuple[Failure, int]] = []
    uncounted: dict[str, int] = {}
    cut_short: str = ""
    error: str = ""


def plan(engine: Engine, seed: int, max_steps: int | None) -> Iterator[Shard]:
    """The shards of a run, without end if `max_steps` is None.

    Where both engines take turns, those of the swarm double as they do in one process (`kvaudit.turns`).
    """
    left, numbers = max_steps, itertools.count()
    for number, (whose, steps) in zip(numbers, _parts(engine), strict=False):
        if left is not None:
            steps = min(steps, left)
            if not steps:
                return
            left -= steps
        yield Shard(number, whose, seed * 1_000_003 + number + 1, steps)


def _parts(engine: Engine) -> Iterator[tuple[Engine, int]]:
    for number in itertools.count():
        if engine != "swarm":
            yield "hypothesis", _HYPOTHESIS_STEPS
        if engine != "hypothesis":
            steps = _FIRST_SWARM_STEPS << min(number, 20)
            while steps:
                part = min(steps, _LARGEST_SWARM_STEPS)
                yield "swarm", part
                steps -= part


_one_at_a_time = threading.Lock()
"""A target may keep what belongs to its process."""


def run_shard(job: Job, shard: Shard) -> Result:
    """Do a shard. An error of the user's or of the target's is in the result: not every exception can be sent."""
    if job.kvaudit != __version__:
        return Result(shard.id, Tally(), error=f"a worker has kvaudit {__version__}, and the audit is of {job.kvaudit}")
    try:
        with _one_at_a_time, _started(job) as target:
            return _run(job, shard, target)
    except (TargetError, UsageError) as error:
        return Result(shard.id, Tally(), error=str(error))


def _run(job: Job, shard: Shard, target: Target) -> Result:
    groups = Groups[Failure](job.known)
    groups.expect(job.found)
    subject = Subject(target, job.spec, rules_for(target, job.profile), None)
    session = Session(subject, Budget(shard.max_steps, shard.max_time_s, job.stop_at_first), groups)
    cut_short = ""
    try:
        session.generate(shard.engine, shard.seed, job.seed)
    except BudgetSpent:
        pass
    except CutShort as cut:
        cut_short = str(cut)
    failures = [(failure, groups.counts[key]) for key, failure in groups.failures.items()]
    return Result(shard.id, session.tally, failures, groups.uncounted, cut_short)


@contextlib.contextmanager
def _started(job: Job) -> Iterator[Target]:
    """The target, started where the audit was: each shard has its own, so that none depends on another."""
    path = sys.path[:]
    with contextlib.chdir(job.root) if Path(job.root).is_dir() else contextlib.nullcontext():
        target = job.spec.start()
    try:
        yield target
    finally:
        target.close()
        sys.path[:] = path
