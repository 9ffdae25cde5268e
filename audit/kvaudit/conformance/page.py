"""The table as one HTML file that needs nothing else; it looks like the page of a report, and can be printed."""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from kvaudit import __version__
from kvaudit.conformance.entries import Conformance
from kvaudit.conformance.shown import SIGNS, legend, verdict_of
from kvaudit.pictures.page import digest
from kvspec import SPEC_VERSION
from kvspec.obligations import OBLIGATIONS


def page(table: Conformance) -> str:
    """The page as text; names are escaped, and the browser is told to load and run nothing."""
    environment = _environment()
    style = "".join(environment.get_template(name).render() for name in ("report.css", "table.css"))
    return environment.get_template("table.html.j2").render(
        entries=table.entries,
        legend=legend(table),
        style=style,
        policy=f"default-src 'none'; style-src {digest(style)}",
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("kvaudit.conformance"), PackageLoader("kvaudit.pictures")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "OBLIGATIONS": OBLIGATIONS,
        "SIGNS": SIGNS,
        "made_by": f"kvaudit {__version__}, specification {SPEC_VERSION}",
        "verdict_of": verdict_of,
    }
    return environment
