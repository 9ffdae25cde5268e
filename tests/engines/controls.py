"""What the tests of the engines share: one audit of an engine that is at hand, or a reason to skip."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kvaudit.engines.fetch import cached
from kvaudit.profiles import PROFILES
from kvaudit.report import Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec


@functools.cache
def audited(text: str, source: str | None = None, **options: Any) -> Report:
    """A short audit of an engine: all witnesses, then generated programs."""
    name, _, version = text.partition("==")
    if source is None and cached(name, version) is None:
        pytest.skip(f"not in the cache; run: kvaudit fetch {text}")
    spec = TargetSpec(text, source)
    target = spec.start()
    try:
        return Audit(
            target, spec, PROFILES[target.profile], Options(max_steps=2_000, **options), lambda event: None
        ).run()
    finally:
        target.close()


def violated(report: Report) -> dict[str, str]:
    """What is violated, and what is said of it."""
    return {row.obligation: row.detail for row in report.rows if row.verdict == "violated"}


def is_clean(report: Report) -> bool:
    """No finding, and no situation that was never met: else the message says which."""
    assert report.exit_code == 0, [*violated(report).items(), *report.reasons]
    return True
