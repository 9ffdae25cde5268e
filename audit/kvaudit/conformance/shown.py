"""The table on the terminal and as Markdown: a sign for each verdict, a legend below."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvaudit.conformance.entries import VERDICTS, Conformance, Entry
from kvaudit.printable import one_line
from kvaudit.report import BY_DESIGN, HOLDS, NOT_OBSERVABLE, NOT_REACHED, TRUSTING, VIOLATED
from kvspec.obligations import OBLIGATIONS

SIGNS = {HOLDS: "✓", VIOLATED: "✗", BY_DESIGN: "≠", NOT_OBSERVABLE: "–", NOT_REACHED: "?", TRUSTING: "t"}
DOES_NOT_APPLY = "does not apply at that level"

_STYLES = {HOLDS: "green", VIOLATED: "bold red", BY_DESIGN: "cyan"}


def verdict_of(entry: Entry) -> str:
    """The verdict on a target, with what is violated and what differs."""
    told = [entry.verdict]
    if broken := entry.with_verdict(VIOLATED):
        told.append(f": {', '.join(broken)}")
    if differs := entry.with_verdict(BY_DESIGN):
        told.append(f"; by design: {', '.join(differs)}")
    return "".join(told)


def legend(table: Conformance) -> dict[str, str]:
    """The signs that are used, and what they mean."""
    used = {verdict for entry in table.entries for verdict in entry.cells.values()}
    signs = {SIGNS[verdict]: verdict for verdict in VERDICTS if verdict in used}
    lacks = any(name not in entry.cells for entry in table.entries for name in OBLIGATIONS)
    return signs | ({"blank": DOES_NOT_APPLY} if lacks else {})


def terminal(table: Conformance) -> RenderableType:
    """The table for a terminal of 120 columns."""
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    grid.add_column("target", overflow="fold", min_width=12)
    grid.add_column("level", no_wrap=True)
    for name in OBLIGATIONS:
        grid.add_column(name, justify="center", no_wrap=True)
    grid.add_column("steps", justify="right", no_wrap=True)
    grid.add_column("date", no_wrap=True)
    for entry in table.entries:
        verdicts = [entry.cells.get(name, "") for name in OBLIGATIONS]
        cells = [Text(SIGNS.get(verdict, ""), _STYLES.get(verdict, "yellow")) for verdict in verdicts]
        grid.add_row(Text(entry.name), entry.level, *cells, f"{entry.steps:,}", entry.date)
    told = ", ".join(f"{sign} {verdict}" for sign, verdict in legend(table).items())
    return Group(grid, "", Text(told, "dim"))


def _in_a_cell(text: str) -> str:
    """A report may be made by hand: its names are not to end the cell or the line."""
    return one_line(text).replace("|", "\\|")


def markdown(table: Conformance, obligations: str = "obligations.md") -> Iterator[str]:
    """The table as lines of Markdown. obligations: the page to which the heads of the columns lead."""
    heads = [f"[{name}]({obligations}#{name.lower()})" for name in OBLIGATIONS]
    yield f"| target | level | profile | verdict | {' | '.join(heads)} | steps | date |"
    yield f"|---|---|---|---|{':-:|' * len(heads)}--:|---|"
    for entry in table.entries:
        cells = [SIGNS.get(entry.cells.get(name, ""), "") for name in OBLIGATIONS]
        texts = [entry.name, entry.level, f"`{entry.profile}`", verdict_of(entry)]
        told = " | ".join([*map(_in_a_cell, texts), *cells])
        yield f"| {told} | {entry.steps:,} | {_in_a_cell(entry.date)} |"
    yield ""
    yield ", ".join(f"{sign} {verdict}" for sign, verdict in legend(table).items()) + "."
