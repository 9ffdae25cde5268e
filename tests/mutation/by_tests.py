"""Kills a mutant by the tests alone: the audit that `kvaudit run` makes reports a violation."""

from __future__ import annotations

from kvaudit.misuse import try_misuse
from kvaudit.profiles import STRICT
from kvaudit.report import VIOLATION
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec
from mutation.running import found, killed_or_not, target_of
from mutation.verdict import Mutant, Verdict

STEPS = 20_000
"""The budget of the audit, whose seed is 0: so many operations."""


def by_tests(mutant: Mutant) -> Verdict:
    """Misuse, witnesses and generated programs, to the first finding."""

    def audit() -> str:
        _, accepted = try_misuse(target_of(mutant))  # first, as it is quick; an audit comes to it last
        if accepted:
            return found([], accepted[0].what)
        options = Options(max_steps=STEPS, stop_at_first=True)
        report = Audit(target_of(mutant), TargetSpec(mutant.id), STRICT, options, lambda event: None).run()
        return found(report.findings, "") if report.exit_code == VIOLATION else ""

    return killed_or_not(audit)
