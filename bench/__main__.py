"""`python -m bench`: kvblocks beside vLLM, nano-vllm and SGLang, interleaved in one run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bench.contestants import CONTESTANTS, Contestant
from bench.measuring import Plan, run
from bench.results import merged, read, write
from bench.terminal import show
from bench.workloads import GROWTH, LENGTHS, LIVE, MAIN, POOLS, Workload, traces
from kvaudit.cli.console import interruptible
from kvaudit.plain_console import PlainConsole
from kvaudit.terminal import progress_bar

PARTS = ("main", "pools", "lengths", "live", "traces", "memory", "growth", "shares")

NOT_WRITTEN = "interrupted: nothing was written"


app = typer.Typer(add_completion=False)


@app.command()
def main(
    part: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help=f"Of {', '.join(PARTS)}; all unless given.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each workload is played.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the requests, and no pool of a million.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A contestant; may be repeated.")] = None,
    nano_vllm: Annotated[Path | None, typer.Option(metavar="DIR", help="A checkout of nano-vllm.")] = None,
    compiled: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A wheel of kvblocks compiled by mypyc, unpacked.")
    ] = None,
    trace_folder: Annotated[
        Path | None,
        typer.Option("--traces", metavar="DIR", help="Recorded workloads; $KVAUDIT_TRACES unless given."),
    ] = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="Measure what checking costs instead, and how soon planted bugs are found.")
    ] = False,
    write_to: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="DIR",
            help="Write performance.json and the plots, or checks.json, there, for docs/generate.py.",
        ),
    ] = None,
) -> None:
    """Compare kvblocks with the block managers of serving engines."""
    console = PlainConsole()
    _check_folders(write_to, {"--nano-vllm": nano_vllm, "--compiled": compiled, "--traces": trace_folder})
    if checks:
        if part or only or nano_vllm or compiled or trace_folder:
            raise typer.BadParameter(
                "--checks is measured by itself: leave out parts, --only, --nano-vllm, --compiled and --traces"
            )
        _measure_checks(rounds, write_to, console, quick=quick)
        return
    parts = tuple(part or PARTS)
    if unknown := [name for name in parts if name not in PARTS]:
        raise typer.BadParameter(f"there is no part {unknown[0]}: there are {', '.join(PARTS)}")
    folder = trace_folder or Path(os.environ["KVAUDIT_TRACES"]) if "KVAUDIT_TRACES" in os.environ else trace_folder
    if folder is None and "traces" in (part or ()):
        raise typer.BadParameter("recorded workloads are in a folder: --traces DIR, or $KVAUDIT_TRACES, names it")
    growth = (_smaller(GROWTH) if quick else GROWTH) if "growth" in parts else None
    plan = Plan(
        _sweeps(parts, folder, quick=quick), rounds, memory="memory" in parts, growth=growth, shares="shares" in parts
    )
    contestants = _contestants(only)
    folders = {"nano-vllm": nano_vllm, "compiled": compiled}
    with interruptible(NOT_WRITTEN), progress_bar(console) as bar:
        task = bar.add_task("starting", total=plan.steps(len(contestants)), done="")
        results = run(plan, contestants, folders, lambda what: bar.update(task, advance=1, description=what))
    show(results, console)
    if write_to is not None:
        from bench.plots import write_plots

        file = write_to / "performance.json"
        results = merged(read(file), results) if file.is_file() else results
        write(file, results)
        write_plots(results, write_to)


def _check_folders(write_to: Path | None, given: dict[str, Path | None]) -> None:
    """Before anything is measured: what is not there, and where nothing can be written or merged."""
    if write_to is not None:
        given = {**given, "--write": write_to}
    for option, folder in given.items():
        if folder is not None and not folder.is_dir():
            raise typer.BadParameter(f"{option} names a folder, and {folder} is none")
    if write_to is not None and (write_to / "performance.json").is_file():
        try:
            read(write_to / "performance.json")
        except (OSError, msgspec.MsgspecError) as error:
            raise typer.BadParameter(f"{write_to / 'performance.json'} is no file of results: {error}") from None


def _measure_checks(rounds: int, folder: Path | None, console: PlainConsole, *, quick: bool) -> None:
    from bench.checks import measuring, results, terminal
    from bench.checks.kills import planted

    plan = measuring.QUICK if quick else measuring.Plan(rounds)
    with interruptible(NOT_WRITTEN), progress_bar(console) as bar:
        task = bar.add_task("starting", total=plan.calls(len(planted())), done="")
        measured = measuring.run(plan, lambda what: bar.update(task, advance=1, description=what))
    terminal.show(measured, console)
    if folder is not None:
        results.write(folder / "checks.json", measured)


def _sweeps(parts: Sequence[str], folder: Path | None, *, quick: bool) -> dict[str, Sequence[Workload]]:
    every: dict[str, Sequence[Workload]] = {
        "main": MAIN,
        "pools": POOLS,
        "lengths": LENGTHS,
        "live": LIVE,
        "traces": traces(folder) if folder is not None else (),
    }
    chosen = {name: workloads for name, workloads in every.items() if name in parts}
    return {name: [_smaller(w) for w in of if w.num_blocks < 10**6] for name, of in chosen.items()} if quick else chosen


def _smaller(workload: Workload) -> Workload:
    return replace(workload, requests=max(workload.requests // 10, 2 * workload.live + 8, 80))


def _contestants(names: Sequence[str] | None) -> Sequence[Contestant]:
    if names is None:
        return CONTESTANTS
    known = {contestant.name: contestant for contestant in CONTESTANTS}
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"there is no contestant {unknown[0]!r}: there are {', '.join(map(repr, known))}")
    return [contestant for contestant in CONTESTANTS if contestant.name in names or contestant is CONTESTANTS[0]]


if __name__ == "__main__":
    app()
