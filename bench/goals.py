"""A figure that is to be reached, and whether it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.console import Console
from rich.table import Table

Measured = TypeVar("Measured", contravariant=True)

Row = tuple[str, str, str, bool | None]
"""What it is about, the goal, what was measured, and whether it is met; None if it was not seen."""


@dataclass(frozen=True)
class Target(Generic[Measured]):
    """about: in words. value: what was measured, None if it was not. goal: `at_least` so much, or at most."""

    about: str
    value: Callable[[Measured], float | None]
    goal: float
    at_least: bool = True

    def is_met(self, value: float) -> bool:
        return value >= self.goal if self.at_least else value <= self.goal

    def row(self, measured: Measured) -> Row:
        value = self.value(measured)
        goal = f"{'at least' if self.at_least else 'at most'} {_number(self.goal)}"
        if value is None:
            return self.about, goal, "not measured", None
        return self.about, goal, _number(value), self.is_met(value)


def _number(value: float) -> str:
    """Three digits, and of large ones all."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as a table of a page."""
    yield "| | goal | measured | |"
    yield "|---|---|---|---|"
    for about, goal, shown, met in rows:
        yield f"| {about} | {goal} | {shown} | {'' if met is None else 'met' if met else '**not met**'} |"


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """The rows as a table on a terminal, and a line to sum up."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("", "goal", "measured", ""):
        table.add_column(heading)
    for about, goal, shown, met in rows:
        table.add_row(about, goal, shown, "" if met is None else "met" if met else "[bold red]not met")
    console.print(table)
    reached, missed, unseen = (sum(row[3] is verdict for row in rows) for verdict in (True, False, None))
    told = f"{reached} of {len(rows)} targets are met, {missed} are not, {unseen} were not measured"
    console.print(told, highlight=False)
