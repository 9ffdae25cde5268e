"""The three that try to kill a mutant, each alone: the proof, the exhaustive search, and the tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError
from kvaudit.explore.exploration import explore, pools
from kvaudit.explore.job import Job
from kvaudit.explore.job import Options as SearchOptions
from kvaudit.profiles import STRICT
from kvaudit.report import CONFORMS, VIOLATION, Finding
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec
from mutation.by_proof import by_proof
from mutation.verdict import KILLED, SURVIVED, Mutant, Verdict

SECONDS = 5.0
"""What a search may take, in processor time."""

STEPS = 20_000
"""The budget of the tests: an audit of that many operations, with the seed 0."""

POOLS = [pool for size in ((1, 1), (2, 1), (2, 2), (3, 1)) for pool in pools(*size, smaller=False)]


def by_search(mutant: Mutant) -> Verdict:
    """Every operation sequence on small pools, under the profile that kvblocks keeps to."""
    began = time.process_time()

    def search() -> tuple[int, str]:
        job = Job(_target(mutant), TargetSpec(mutant.id), STRICT, SearchOptions(misuse=True))
        for pool in POOLS:  # one by one: misuse does not end a search, and a larger pool would show no more of it
            result = explore(job, [pool])
            if result.exit_code == VIOLATION:
                return VIOLATION, _found(result.findings, result.misuse)
        return CONFORMS, ""

    verdict = _run(search, began)
    if verdict.outcome == KILLED and verdict.seconds > SECONDS:
        return Verdict(SURVIVED, f"{verdict.how}, but not within {SECONDS:g} s", verdict.seconds)
    return verdict


def by_tests(mutant: Mutant) -> Verdict:
    """The audit that `kvaudit run` makes: witnesses, generated programs and misuse."""

    def audit() -> tuple[int, str]:
        options = Options(max_steps=STEPS, stop_at_first=True, misuse=True)
        report = Audit(_target(mutant), TargetSpec(mutant.id), STRICT, options, lambda event: None).run()
        misuse = next((row.detail for row in report.rows if row.obligation == "O10"), "")
        return report.exit_code, _found(report.findings, misuse)

    return _run(audit, time.process_time())


def _target(mutant: Mutant) -> ApiTarget:
    return ApiTarget(mutant.build(), name=mutant.id)


def _found(findings: Iterable[Finding], misuse: str) -> str:
    for finding in findings:
        return f"{finding.obligation}: {'; '.join(step.call for step in finding.steps)}"
    return f"O10: {misuse}" if misuse else ""


def _run(check: Callable[[], tuple[int, str]], began: float) -> Verdict:
    try:
        code, how = check()
    except TargetError as error:
        return Verdict(KILLED, f"no manager: {error}", time.process_time() - began)
    return Verdict(KILLED if code == VIOLATION else SURVIVED, how, time.process_time() - began)


KILLERS: dict[str, Callable[[Mutant], Verdict]] = {"proof": by_proof, "search": by_search, "tests": by_tests}
