"""From the verdict on an obligation to the outcome of a test, for the front ends that know tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import RenderableType

from kvaudit.levels import LEVELS
from kvaudit.plain_console import PlainConsole
from kvaudit.report import BY_DESIGN, HOLDS, NOT_OBSERVABLE, TRUSTING, VIOLATED, VIOLATION, Report, Row
from kvaudit.terminal import finding_shown

_WIDTH = 100


class Outcome(NamedTuple):
    """What becomes of the test of an obligation; `told` says why, if it did not pass."""

    kind: Literal["passed", "failed", "inconclusive", "skipped"]
    told: str = ""


def outcome_of(row: Row, report: Report) -> Outcome:
    """Only what holds has passed; what cannot be seen is skipped, and what is known to be violated.

    Where something is violated, what was not reached is skipped, too: the violation is why, and it fails.
    """
    if row.known:
        return Outcome("skipped", f"{row.obligation} is violated, as is known: {row.detail}")
    if row.verdict == VIOLATED:
        return Outcome("failed", _violation(row, report))
    essential = LEVELS[report.header.level].essential.get(row.obligation)
    if essential is not None and essential not in report.header.capabilities:
        told = f"{row.obligation} is not observable: the target offers no {essential}, and no verdict counts without"
    elif row.verdict == HOLDS:
        return Outcome("passed")
    elif row.verdict in (NOT_OBSERVABLE, TRUSTING, BY_DESIGN):
        why = row.form if row.verdict == TRUSTING else row.detail
        return Outcome("skipped", f"{row.obligation} is {row.verdict}: {why}")
    else:
        told = f"{row.obligation} is {row.verdict}: {'; '.join(filter(None, (row.detail, report.cut_short)))}"
    is_violated = report.exit_code == VIOLATION or any(row.known for row in report.rows)
    return Outcome("skipped" if is_violated else "inconclusive", f"inconclusive: {told}")


def _violation(row: Row, report: Report) -> str:
    """The findings of that obligation with all their steps; or what was seen of it in another's."""
    own = [finding for finding in report.findings if finding.obligation == row.obligation]
    if not own:
        return f"{row.obligation} is violated: {row.title}\n{row.detail}"
    parts = [as_text(finding_shown(finding), width=_WIDTH) for finding in own]
    kept = [f"kept in {Path(finding.trace).parent}" for finding in own if finding.trace is not None]
    return "\n".join([*parts, *kept])


def as_text(shown: RenderableType, *, width: int | None = None) -> str:
    """What the terminal shows, without colours; without a width nothing is folded."""
    file = io.StringIO()
    PlainConsole(file=file, width=width or _WIDTH, color_system=None).print(shown, soft_wrap=width is None)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip()
