"""What was measured of the checks, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from bench import goals
from bench.checks.results import Checks
from bench.checks.targets import verdicts

_SLOWEST = 5


def show(checks: Checks, console: Console) -> None:
    """The rates, where the time goes, the bugs that take longest; then the targets, and a line to sum up."""
    for name, driver in checks.drivers.items():
        rates = ", ".join(f"{rate.median:,.0f} {kind}" for kind, rate in driver.per_second.items())
        console.print(f"{name}, {driver.unit} a second: {rates}", highlight=False)
    parts = dict.fromkeys(part for driver in checks.drivers.values() for part in driver.shares)
    table = _table("where the time goes", checks.drivers)
    for part in parts:
        shares = [driver.shares.get(part) for driver in checks.drivers.values()]
        table.add_row(part, *("" if share is None else f"{share:.1%}" for share in shares))
    console.print(table)
    table = _table("planted bugs that take longest, ms", checks.kills)
    for row in zip(*(kills[:_SLOWEST] for kills in checks.kills.values()), strict=True):
        table.add_row("", *(f"{k.mutant} {'not found' if k.ms is None else f'{k.ms.median:.3g}'}" for k in row))
    console.print(table)
    goals.show("what the checks are to reach", verdicts(checks), console)


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table
