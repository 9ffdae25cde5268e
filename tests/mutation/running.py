"""What the killers share that run a mutant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError
from kvaudit.report import Finding
from mutation.verdict import KILLED, SURVIVED, Mutant, Verdict


def target_of(mutant: Mutant) -> ApiTarget:
    """The mutant as a target in this process."""
    return ApiTarget(mutant.build(), name=mutant.id)


def found(findings: Iterable[Finding], misuse: str) -> str:
    """What was found, in a line."""
    for finding in findings:
        return f"{finding.obligation}: {'; '.join(step.call for step in finding.steps)}"
    return f"O10: {misuse}"


def killed_or_not(check: Callable[[], str]) -> Verdict:
    """Killed by what the check says that it found, if anything."""
    began = time.process_time()
    try:
        how = check()
    except TargetError as error:
        how = f"no manager: {error}"
    return Verdict(KILLED if how else SURVIVED, how, time.process_time() - began)
