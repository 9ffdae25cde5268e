"""Kills a mutant by the search alone: an operation sequence on a small pool shows it."""

from __future__ import annotations

from kvaudit.explore.exploration import explore, pools
from kvaudit.explore.job import Job, Options
from kvaudit.profiles import STRICT
from kvaudit.report import VIOLATION
from kvaudit.targets import TargetSpec
from mutation.running import found, killed_or_not, target_of
from mutation.verdict import KILLED, SURVIVED, Mutant, Verdict

SECONDS = 5.0
"""What a kill may take, in processor time."""

POOLS = [pool for size in ((1, 1), (2, 1), (2, 2), (3, 1), (1, 3), (3, 2)) for pool in pools(*size, smaller=False)]
"""Small ones. Up to blocks of two tokens, one less and one more are the same in a remainder; hence blocks of three."""


def by_search(mutant: Mutant) -> Verdict:
    """Every operation sequence on small pools, under the profile that kvblocks keeps to."""

    def search() -> str:
        job = Job(target_of(mutant), TargetSpec(mutant.id), STRICT, Options(misuse=True))
        for pool in POOLS:  # one by one: misuse does not end a search, and a larger pool would show no more of it
            result = explore(job, [pool])
            if result.exit_code == VIOLATION:
                return found(result.findings, result.misuse)
        return ""

    verdict = killed_or_not(search)
    if verdict.outcome == KILLED and verdict.seconds > SECONDS:
        return Verdict(SURVIVED, f"{verdict.how}, but not within {SECONDS:g} s", verdict.seconds)
    return verdict
