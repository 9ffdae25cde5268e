"""The commands on traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvaudit.cli.console import started
from kvaudit.cli.options import BlackBox, Isolate, Profile, Refusal, Source, Timeout
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec


def replay(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A trace.jsonl that a run has saved.", show_default=False)
    ],
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="Another target than the trace's own.", show_default=False),
    ] = None,
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
