"""The summary of a job on GitHub: Markdown that is appended to the file which $GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from kvaudit.report import CONFORMS, HOLDS, INCONCLUSIVE, VIOLATED, VIOLATION, Report
from kvaudit.words import count

_SIGNS = {CONFORMS: "✓", VIOLATION: "✗", INCONCLUSIVE: "?"}
_MARKS = re.compile(r"[^\w\s.,;:?!'\"/()=+%✓✗-]|_")


def summary(report: Report) -> str:
    """The text."""
    broken = [row.obligation for row in report.rows if row.verdict == VIOLATED and not row.known]
    verdict = report.verdict + (f": {', '.join(broken)}" if broken else "")
    return _template().render(
        report=report,
        header=report.header,
        verdict=verdict,
        held=sum(row.verdict == HOLDS for row in report.rows),
        signs=_SIGNS,
        count=count,
        INCONCLUSIVE=INCONCLUSIVE,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("kvaudit.ci"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"plain": _plain, "code": lambda text: f"<code>{_plain(text)}</code>"}
    return environment.get_template("summary.md.j2")


def _plain(text: str) -> str:
    """Text on one line in which nothing is taken for Markdown or HTML: marks are written as references."""
    return _MARKS.sub(lambda found: f"&#{ord(found[0])};", " ".join(text.split()))
