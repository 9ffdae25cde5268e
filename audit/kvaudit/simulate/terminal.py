"""A simulation as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from kvaudit.simulate.report import Simulated
from kvaudit.words import count


def show(result: Simulated, console: Console) -> None:
    """The trace, a row a pool, and a line to sum up."""
    for line in (_trace(result), _best(result), result.model):
        console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
    if result.pools:
        console.print(_pools(result))
    console.print(_summary(result), markup=False, highlight=False, soft_wrap=True)


def _trace(result: Simulated) -> str:
    return (
        f"{result.trace}: {result.kind}, {count(result.requests, 'request')}, {result.prompt_blocks:,} blocks of "
        f"{result.block_size} tokens in prompts, {result.total_blocks - result.prompt_blocks:,} more generated"
    )


def _best(result: Simulated) -> str:
    seen, reusable = (_part(blocks, result) for blocks in (result.seen_blocks, result.reusable_blocks))
    return f"{seen} of the blocks in prompts had come before; at best {reusable} can be hits"


def _part(blocks: int, result: Simulated) -> str:
    return f"{blocks / result.prompt_blocks:.1%}"


def _pools(result: Simulated) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("blocks", "hits", "of best", "evicted", "waited", "unserved", "most in use", "us each"):
        table.add_column(heading, justify="right", style="bold" if heading == "hits" else "")
    for pool in result.pools:
        of_best = pool.hit_blocks / result.reusable_blocks if result.reusable_blocks else 1.0
        table.add_row(
            f"{pool.num_blocks:,}",
            f"{pool.hit_rate:.1%}",
            f"{of_best:.1%}",
            f"{pool.evicted:,}",
            f"{pool.waited:,}",
            f"{pool.unserved:,}",
            f"{pool.peak_blocks:,}",
            f"{pool.us_per_request:,.0f}",
        )
    return table


def _summary(result: Simulated) -> str:
    seconds = sum(pool.seconds for pool in result.pools)
    rate = result.total_blocks * len(result.pools) / seconds if seconds else 0
    played = f"{count(len(result.pools), 'pool')} played on {result.target}, {rate:,.0f} blocks/s"
    return played if result.complete else f"interrupted: {played}"
