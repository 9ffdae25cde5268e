"""The command that plays recorded workloads on pools of several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kvaudit.cli.console import INTERRUPTED, JsonFile, interruptible
from kvaudit.cli.options import Json, Refusal
from kvaudit.errors import UsageError
from kvaudit.plain_console import PlainConsole

if TYPE_CHECKING:
    from kvaudit.simulate.simulation import Simulation


def simulate(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="Lines of Mooncake's kind, lines with tokens, or conversations: a JSON file or a folder of them.",
            show_default=False,
        ),
    ],
    blocks: Annotated[
        str,
        typer.Option(
            metavar="SIZES", help="Of the pools: 8k,16k; 1k..64k, doubling; unbounded, for all.", show_default=False
        ),
    ],
    block_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="B",
            help="The tokens of a block: that of the trace or a multiple; any for tokens (16).",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="So many requests live at once, 64 unless given.", show_default=False),
    ] = None,
    tokens_per_second: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="RATE",
            help="Requests arrive when the trace says, and each generates at that rate.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(metavar="TARGET", help="The block manager: kvblocks, pkg.module:Class, or path/to/file.py:Class."),
    ] = "kvblocks",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the curve as .png, .svg or .pdf.", show_default=False),
    ] = None,
    json: Json = None,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
) -> None:
    """Play a recorded workload on pools of several sizes: hit rate, evictions, and requests that wait."""
    from kvaudit.api import ApiTarget
    from kvaudit.protocol import MANAGER
    from kvaudit.simulate import plot as plots
    from kvaudit.simulate.simulation import Model, Simulation, pool_sizes
    from kvaudit.simulate.terminal import show
    from kvaudit.simulate.traces import read_workload
    from kvaudit.targets import ENGINES, load_in_process

    if concurrency is not None and tokens_per_second is not None:
        raise UsageError("--concurrency and --tokens-per-second both say how long requests live: give one of them")
    if target.startswith("cmd:") or target.partition("==")[0] in ENGINES:
        raise UsageError(f"--target {target}: a Python class is played, in this process")
    if plot is not None:
        plots.check(plot)
    with JsonFile(json) as file, interruptible("interrupted before anything was played"):
        console = PlainConsole(stderr=file.is_stdout)
        workload = read_workload(trace, block_size)
        sizes = pool_sizes(blocks, workload)
        manager = load_in_process(target, refusals=frozenset(refusal), level=MANAGER)
        assert isinstance(manager, ApiTarget)
        simulation = Simulation(str(trace), workload, manager, Model(concurrency or 64, tokens_per_second))
        complete = _run(simulation, sizes, console)
        result = simulation.result(complete=complete)
        show(result, console)
        file.write(result)
        if plot is not None and result.pools:
            plots.plot(result, plot)
    if not complete:
        raise typer.Exit(INTERRUPTED)


def _run(simulation: Simulation, sizes: list[int], console: Console) -> bool:
    """Whether it came to its end; what was done before Ctrl-C is kept."""
    from kvaudit.terminal import progress_bar

    with progress_bar(console) as bar:
        task = bar.add_task("playing", total=1.0, done="")
        try:
            simulation.run(sizes, lambda part, what: bar.update(task, completed=part, done=what))
        except KeyboardInterrupt:
            return False
    return True
