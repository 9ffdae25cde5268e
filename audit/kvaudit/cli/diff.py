"""The command that compares two targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvaudit.cli.console import JsonFile, started_both
from kvaudit.cli.options import BlackBox, Isolate, Json, MaxTime, Refusal, Settings, Timeout
from kvaudit.errors import UsageError
from kvaudit.protocol import MANAGER
from kvaudit.targets import DEFAULT_TIMEOUT_S, ENGINES, TargetSpec
from kvaudit.workload import Engine

_TARGET_HELP = "A target, as that of run."
_NO_SETTINGS: list[str] = []


def _source(letter: str) -> object:
    help = f"Take the engine {letter.upper()} from this checkout."
    return typer.Option(f"--source-{letter}", metavar="DIR", help=help, show_default=False)


def _settings(letter: str) -> object:
    return typer.Option(f"--set-{letter}", metavar="NAME=VALUE", help=f"A setting of the engine {letter.upper()} only.")


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_TARGET_HELP, show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help=_TARGET_HELP, show_default=False)],
    source_a: Annotated[str | None, _source("a")] = None,
    source_b: Annotated[str | None, _source("b")] = None,
    settings: Settings = _NO_SETTINGS,
    settings_a: Annotated[list[str], _settings("a")] = _NO_SETTINGS,
    settings_b: Annotated[list[str], _settings("b")] = _NO_SETTINGS,
    strict: Annotated[bool, typer.Option("--strict", help="Block numbers count; else they may be renamed.")] = False,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The budget in steps: 20,000 unless --max-time is given.", show_default=False
        ),
    ] = None,
    max_time: MaxTime = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, other programs.")] = 0,
    engine: Annotated[Engine, typer.Option(help="Who makes the programs.")] = "both",
    stop_at_first: Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop at the first difference.")] = False,
    json: Json = None,
    traces: Annotated[
        Path, typer.Option("--traces", metavar="DIR", help="Where the program of each difference is saved.")
    ] = Path(".kvaudit/differences"),
    refusal: Refusal = _NO_SETTINGS,
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show where two implementations, or two versions of one, behave differently on the same programs.

    Exit codes: 0 no difference was found, 1 they differ, 2 usage or a target could not start, 3 inconclusive.
    """
    from kvaudit.diffing.findings import Party
    from kvaudit.diffing.report import Found
    from kvaudit.diffing.runner import Comparison, Options
    from kvaudit.diffing.terminal import concluded, found_shown
    from kvaudit.report import Progress
    from kvaudit.runner import DEFAULT_MAX_STEPS
    from kvaudit.session import Budget
    from kvaudit.terminal import advance, progress_bar

    if settings and not any(TargetSpec(text).adapted for text in (a, b)):
        raise UsageError(f"--set is for engines ({', '.join(ENGINES)}) and adapters, and neither {a} nor {b} is one")
    isolates = isolate, isolate or _are_files_apart(a, b)
    asked = zip((a, b), (source_a, source_b), isolates, (settings_a, settings_b), strict=True)
    first, second = (
        TargetSpec(text, source, tuple(refusal), alone, black_box, timeout, (*_for(text, settings), *own), MANAGER)
        for text, source, alone, own in asked
    )
    if max_steps is None and max_time is None:
        max_steps = DEFAULT_MAX_STEPS
    options = Options(seed, Budget(max_steps, max_time, stop_at_first), engine, strict, traces)
    with (
        JsonFile(json) as file,
        started_both(first, second, stderr=file.is_stdout) as (one, other, console),
        progress_bar(console) as bar,
    ):
        parties = Party(one, first), Party(other, second)
        task = bar.add_task("starting", total=None, done="")

        def tell(progress: Progress) -> None:
            advance(bar, task, progress, progress.phase)

        def show(found: Found) -> None:
            console.print(found_shown(found, parties[0].side, parties[1].side))

        result = Comparison(*parties, options, on_found=show, on_tick=tell).run()
        bar.stop()
        console.print(concluded(result), soft_wrap=True)
        file.write(result)
    raise typer.Exit(result.exit_code)


def _for(text: str, settings: list[str]) -> tuple[str, ...]:
    """What --set says to both is for those that are engines."""
    return tuple(settings) if TargetSpec(text).adapted else ()


def _are_files_apart(a: str, b: str) -> bool:
    """Whether two classes are in files of different folders: modules beside them may have the same name."""
    folders = [Path(text.rpartition(":")[0]).resolve().parent for text in (a, b) if ".py:" in text]
    return len(folders) == 2 and folders[0] != folders[1]
