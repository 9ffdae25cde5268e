"""The page: one HTML file that needs nothing else, made from a report, a search, or a single finding."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kvaudit.explore.report import EXHAUSTIVE, Explored
from kvaudit.pictures.grid import grid_of
from kvaudit.profiles import PROFILES
from kvaudit.report import HOLDS, VIOLATED, Finding, Report
from kvaudit.words import count
from kvspec.obligations import OBLIGATIONS

FILE = "report.html"
"""What the page is called in the folder of `--report`."""

_COLOURS = 8
_TAIL = 12


def page(result: Report | Explored | Finding) -> str:
    """The page as text. Names and tokens are escaped; the browser is told to load and run nothing from elsewhere."""
    facts, findings, title = _told(result)
    environment = _environment()
    style, script = (environment.get_template(name).render() for name in ("report.css", "report.js"))
    return environment.get_template("report.html.j2").render(
        title=title,
        facts=facts,
        findings=[(finding, grid_of(finding)) for finding in findings],
        rows=result.rows if isinstance(result, Report) else [],
        goals=result.goals if isinstance(result, Report) else [],
        pools=result.pools if isinstance(result, Explored) else [],
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}",
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kvaudit.pictures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tail"] = _tail
    environment.globals |= {
        "COLOURS": _COLOURS,
        "EXHAUSTIVE": EXHAUSTIVE,
        "SIGNS": {HOLDS: "✓", VIOLATED: "✗"},
        "OBLIGATIONS": OBLIGATIONS,
        "count": count,
    }
    return environment


def _tail(prefix: str) -> str:
    """The end of a prefix, if it is long: it is the end in which the blocks of a prompt differ."""
    return prefix if len(prefix) <= _TAIL else "…" + prefix[-_TAIL:].partition(" ")[2]


def digest(text: str) -> str:
    """How a page's policy names the one style or script that it may use."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _told(result: Report | Explored | Finding) -> tuple[dict[str, Any], list[Finding], str]:
    """The facts of the head, the findings, and the title."""
    if isinstance(result, Finding):
        return {}, [result], f"kvaudit: {result.obligation} is violated"
    if isinstance(result, Explored):
        facts = {
            "target": f"{result.target} {result.version}".strip(),
            "profile": result.profile,
            "searched": f"{count(len(result.pools), 'pool')}, {result.seconds:.1f} s",
            "assumed": result.assumptions,
            "lacking": result.reasons,
            "made by": f"kvaudit {result.kvaudit}, specification {result.spec}",
        }
        return facts, result.findings, f"{result.target}: {result.verdict}"
    header = result.header
    held = sum(row.verdict == HOLDS for row in result.rows)
    facts = {
        "target": f"{header.target} {header.version}" if header.version not in header.target else header.target,
        "profile": f"{header.profile} ({PROFILES[header.profile].summary})",
        "obligations": f"{held} of {len(result.rows)} hold",
        "checked": f"{count(result.steps, 'step')} in {count(result.executions, 'execution')}, {result.seconds:.1f} s",
        "seed": str(header.seed),
        "played by": header.workers,
        "assumed": header.assumptions,
        "by design": header.notes,
        "ended early": result.cut_short,
        "lacking": result.reasons,
        "made by": f"kvaudit {header.kvaudit}, specification {header.spec}",
    }
    return facts, result.findings, f"{header.target}: {result.verdict}"
