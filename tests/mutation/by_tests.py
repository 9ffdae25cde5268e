"""Kills a mutant by the tests alone: the audit that `kvaudit run` makes reports a violation."""

from __future__ import annotations

from kvaudit.profiles import STRICT
from kvaudit.report import VIOLATION
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec
from mutation.running import found, killed_or_not, target_of
from mutation.verdict import Mutant, Verdict

STEPS = 20_000
"""The budget of the audit, whose seed is 0: so many operations."""


def by_tests(mutant: Mutant) -> Verdict:
    """Witnesses, generated programs and misuse, to the first finding."""

    def audit() -> str:
        options = Options(max_steps=STEPS, stop_at_first=True, misuse=True)
        report = Audit(target_of(mutant), TargetSpec(mutant.id), STRICT, options, lambda event: None).run()
        if report.exit_code != VIOLATION:
            return ""
        return found(report.findings, next((row.detail for row in report.rows if row.obligation == "O10"), ""))

    return killed_or_not(audit)
