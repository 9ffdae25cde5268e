"""The commands on traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvaudit.cli.console import JsonFile, started
from kvaudit.cli.options import BlackBox, Isolate, Json, Profile, Refusal, Source, Timeout
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec

Saved = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace.jsonl that a run has saved.", show_default=False)]
Recorded = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace, saved or recorded.", show_default=False)]
Another = Annotated[
    str | None,
    typer.Option("--target", metavar="TARGET", help="Another target than the trace's own.", show_default=False),
]


def replay(
    trace: Saved,
    target: Another = None,
    source: Source = None,
    profile: Profile = None,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Play a saved failure again: exit code 0 if it is fixed, 1 if it still fails."""
    from kvaudit.replay import replay as play_again
    from kvaudit.trace import read_trace

    header, scenario = read_trace(trace)
    spec = TargetSpec(target or header.target, source, tuple(refusal), isolate, black_box, timeout)
    with started(spec, profile or header.profile) as (manager, rules, console):
        code = play_again(manager, header, scenario, rules, console)
    raise typer.Exit(code)


def check(trace: Recorded, profile: Profile = None, json: Json = None) -> None:
    """Hold a recorded trace of a running system to the specification, without any target."""
    from kvaudit.check import check_trace
    from kvaudit.checked_terminal import show
    from kvaudit.targets import profile_named
    from kvaudit.terminal import progress_bar
    from kvaudit.trace import TraceReader

    with JsonFile(json) as file, TraceReader(trace) as reader:
        rules = profile_named(profile or reader.header.profile)
        console = Console(stderr=file.is_stdout)
        with progress_bar(console) as bar:
            task = bar.add_task("checking", total=1.0, done="")

            def tell(operations: int, done: float) -> None:
                bar.update(task, completed=done, done=f"{operations:,} operations")

            result = check_trace(reader, rules, tell)
        show(result, reader.header, console)
        file.write(result)
    raise typer.Exit(result.exit_code)
