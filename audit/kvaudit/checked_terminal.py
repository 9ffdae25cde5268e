"""Shows a check of a recorded trace on a terminal."""

from __future__ import annotations

import collections

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvaudit import words
from kvaudit.checked import Checked, Departure
from kvaudit.printable import one_line
from kvaudit.report import CONFORMS, VERDICTS, VIOLATION
from kvaudit.trace import TraceHeader

_STYLES = {CONFORMS: "bold green", VIOLATION: "bold red"}


def show(result: Checked, header: TraceHeader, console: Console) -> None:
    """The departure, if there is one; what could be told and what could not; and the verdict on one line."""
    pool = header.pool
    size = f"{words.count(pool.num_blocks, 'block')} of {words.count(pool.block_size, 'token')}"
    cache = "on" if pool.enable_prefix_cache else "off"
    of = f" of {one_line(header.target)}" if header.target else ""
    _print(console, f"a trace{of}: {size}, prefix cache {cache}, profile {result.profile}")
    if result.departure is not None:
        _show_departure(result.departure, console)
    else:
        _print(console, f"checked: {', '.join(result.checked) or 'nothing'}")
        for title, names in (("not reached", result.not_reached), ("not observable", result.not_observable)):
            whys: dict[str, list[str]] = collections.defaultdict(list)
            for name, why in names.items():
                whys[why].append(name)
            for why, which in whys.items():
                _print(console, f"{title}: {', '.join(which)} ({why})", "yellow" if title == "not reached" else "dim")
    _print(console, "")
    _print(console, _last_line(result), _STYLES.get(result.exit_code, "bold yellow"))


def _show_departure(departure: Departure, console: Console) -> None:
    title = f"✗ line {departure.line} departs: {departure.obligation} is violated"
    if departure.also:
        title += f" (at the same step: {', '.join(departure.also)})"
    _print(console, title, "bold red")
    _print(console, f"  In production: {departure.symptom}.")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(f"step {departure.step:,}", Text(departure.call))
    grid.add_row("expected", Text(departure.expected))
    grid.add_row("came", Text(departure.came))
    console.print(Padding(grid, (1, 0, 1, 2)))
    for detail in departure.details:
        _print(console, f"  {detail}")


def _last_line(result: Checked) -> str:
    rate = f", {result.operations / result.seconds:,.0f}/s" if result.seconds else ""
    did = ", ".join(
        f"{result.met[name]:,} {what}"
        for name, what in (("refused", "refused"), ("hit", "blocks hit"), ("evicted", "evicted"))
        if result.met.get(name)
    )
    why = f": {'; '.join(result.reasons)}" if result.reasons and result.departure is None else ""
    if result.departure is not None:
        why = f": {result.departure.obligation}, at line {result.departure.line:,}"
    ran = f"{words.count(result.operations, 'operation')}{f', {did}' if did else ''}; {result.seconds:.1f} s{rate}"
    return f"{result.trace}: {VERDICTS[result.exit_code]}{why} ({ran})"


def _print(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
