"""The results as tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench import goals
from bench.page import UNITS
from bench.results import Measured, Results
from bench.targets import verdicts


def show(results: Results, console: Console) -> None:
    """A table a workload, then the targets, and a line to sum up."""
    for measured in (*results.main, *results.pools, *results.lengths, *results.live, *results.traces):
        console.print(_table(measured))
    for name, number in results.bytes_per_block.items():
        console.print(f"{name}: {number:,.0f} bytes a block", highlight=False)
    for one in results.growth:
        told = f"{one.rss / 2**20:.2f} MiB, {one.objects:,} objects"
        console.print(f"after {one.operations:,} operations: {told}", highlight=False)
    for share in results.shares:
        console.print(f"{share.operation}: {share.us:.3g} us, {share.about}", highlight=False)
    for name, why in results.absent.items():
        console.print(f"{name} does not take part: {why}", style="yellow", markup=False, highlight=False)
    goals.show("what kvblocks is to reach", verdicts(results), console)


def _table(measured: Measured) -> Table:
    table = Table(
        title=f"{measured.workload}: {measured.about}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    table.add_column("us (ratio)")
    kinds = [kind for kind in UNITS if kind in measured.costs]
    for kind in kinds:
        table.add_column(UNITS[kind], justify="right")
    table.add_column("hits", justify="right")
    for name in dict.fromkeys(name for kind in kinds for name in measured.costs[kind]):
        cells = []
        for kind in kinds:
            cost = measured.costs[kind].get(name)
            cells.append("" if cost is None else f"{cost.us.median:.3g} ({cost.ratio.median:.3g})")
        rate = measured.hit_rates.get(name)
        table.add_row(name, *cells, "" if rate is None else f"{rate:.1%}")
    for name, why in measured.broken.items():
        table.add_row(name, f"[yellow]{why.splitlines()[0]:.60}")
    return table
