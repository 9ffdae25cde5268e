"""The command of the conformance table."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvaudit.cli.console import INTERRUPTED, JsonFile, OutputFile, say
from kvaudit.cli.options import Json
from kvaudit.errors import UsageError
from kvaudit.plain_console import PlainConsole
from kvaudit.report import CONFORMS, USAGE

if TYPE_CHECKING:
    from kvaudit.conformance.entries import Conformance, Entry

Format = Literal["terminal", "markdown", "html"]

_WIDTH = 160
"""Columns of a table that no terminal shows."""


def table(
    reports: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[REPORT.json ...]",
            help="What --json of run or of table wrote; a later one replaces an earlier one on the same target.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Audit every engine that has been fetched.")] = False,
    max_steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The budget of each audit of --run: 20,000 steps.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The seed of --run.")] = 0,
    format: Annotated[Format, typer.Option("--format", help="How to show it.")] = "terminal",
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is standard output."),
    ] = "-",
    json: Json = None,
) -> None:
    """Show which engine and version meets which obligation.

    Exit codes: 0 the table is made, whatever it says; 2 usage, or an engine of --run could not start.
    """
    from kvaudit.conformance.entries import read_table

    if not reports and not run:
        raise UsageError("a table of what? Name reports (kvaudit run TARGET --json FILE), or audit all with --run")
    if (max_steps is not None or seed) and not run:
        raise UsageError("--max-steps and --seed are for --run")
    read_table(reports or [])  # a mistake is told before the work begins
    with JsonFile(json) as data, OutputFile("--output", output) as file:
        entries, code = _audited(max_steps, seed) if run else ([], CONFORMS)
        made = read_table(reports or [], entries)
        data.write(made)
        file.write_bytes(lambda: _shown(made, format, file))
    raise typer.Exit(code)


def _audited(max_steps: int | None, seed: int) -> tuple[list[Entry], int]:
    """An entry for each engine that could be started, and the exit code."""
    from kvaudit.conformance.auditing import audited, fetched_engines
    from kvaudit.conformance.entries import entry_of
    from kvaudit.ending import INTERRUPTED as CUT_SHORT
    from kvaudit.report import Event, Progress
    from kvaudit.runner import DEFAULT_MAX_STEPS, Options
    from kvaudit.targets import TargetSpec
    from kvaudit.terminal import advance, progress_bar

    entries: list[Entry] = []
    specs, code = fetched_engines(), CONFORMS
    with progress_bar(PlainConsole(stderr=True)) as bar:
        task = bar.add_task("starting", total=None, done="")

        def tell(spec: TargetSpec, event: Event) -> None:
            if isinstance(event, Progress):
                advance(bar, task, event, f"{spec.text} ({specs.index(spec) + 1} of {len(specs)})")

        options = Options(seed, max_steps or DEFAULT_MAX_STEPS)
        try:
            for spec, result in audited(specs, options, tell):
                if isinstance(result, str):
                    say("error", f"{spec.text} is left out: {result}")
                    code = USAGE
                elif result.cut_short == CUT_SHORT:
                    raise KeyboardInterrupt
                else:
                    entries.append(entry_of(result))
        except KeyboardInterrupt:
            say("error", f"interrupted: {len(entries)} of {len(specs)} engines are in the table")
            return entries, INTERRUPTED
    return entries, code


def _shown(made: Conformance, format: Format, file: OutputFile) -> bytes:
    from kvaudit.conformance.page import page
    from kvaudit.conformance.shown import markdown, terminal

    if format == "html":
        return page(made).encode()
    if format == "markdown":
        return ("\n".join(markdown(made)) + "\n").encode()
    is_seen = file.is_stdout and PlainConsole().is_terminal
    text = io.StringIO()
    PlainConsole(
        file=text, force_terminal=is_seen, color_system="auto" if is_seen else None, width=None if is_seen else _WIDTH
    ).print(terminal(made))
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines()).encode()
