"""The commands on traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding

from kvaudit.cli.console import INTERRUPTED, JsonFile, ReportFolder, say, started
from kvaudit.cli.options import RULES, BlackBox, Isolate, Json, Refusal, Report, Settings, Source, Timeout
from kvaudit.errors import BrokenProtocol, TargetError, UsageError
from kvaudit.plain_console import PlainConsole
from kvaudit.profiles import PROFILES, Profile
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec

if TYPE_CHECKING:
    from kvaudit.execution import Execution
    from kvaudit.trace import TraceHeader, TraceLine

Saved = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace.jsonl that a run has saved.", show_default=False)]
Recorded = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace, saved or recorded.", show_default=False)]
Another = Annotated[
    str | None,
    typer.Option("--target", metavar="TARGET", help="Another target than the trace's own.", show_default=False),
]

Rules = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help=f"{RULES}; else the trace's own.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Where to write it; beside TRACE if not given.", show_default=False
    ),
]


def replay(
    trace: Saved,
    target: Another = None,
    source: Source = None,
    settings: Settings = [],  # noqa: B006
    profile: Rules = None,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    report: Report = None,
) -> None:
    """Play a saved failure again: exit code 0 if it is fixed, 1 if it still fails, 3 if it cannot be told."""
    from kvaudit.findings import finding_again
    from kvaudit.pictures.terminal import picture
    from kvaudit.replay import replay as play_again
    from kvaudit.trace import read_lines

    header, lines = read_lines(trace)
    given = TargetSpec(target or "", source, tuple(refusal), isolate, black_box, timeout, tuple(settings))
    spec = _spec(header, given)
    folder = ReportFolder(report)
    with _started(spec, header, profile) as (manager, rules, console):

        def draw(execution: Execution[Any, Any]) -> None:
            other = ["--target", target] if target is not None else []
            finding = finding_again(execution, trace, ["kvaudit", "replay", str(trace), *other, *spec.flags()])
            drawn = picture(finding)
            if drawn is not None:
                console.print(Padding(drawn, (1, 0, 1, 5)))
            folder.write(finding, console)

        code = play_again(manager, header, lines, rules, console, draw)
        folder.close(console)
    raise typer.Exit(code)


def check(trace: Recorded, profile: Rules = None, json: Json = None) -> None:
    """Hold a recorded trace of a running system to the specification, without any target."""
    from kvaudit.check import check_trace
    from kvaudit.checked_terminal import show
    from kvaudit.targets import profile_named
    from kvaudit.terminal import progress_bar
    from kvaudit.trace import TraceReader

    with JsonFile(json) as file, TraceReader(trace) as reader:
        rules = profile_named(profile or reader.header.profile)
        console = PlainConsole(stderr=file.is_stdout)
        with progress_bar(console) as bar:
            task = bar.add_task("checking", total=1.0, done="")

            def tell(operations: int, done: float) -> None:
                bar.update(task, completed=done, done=f"{operations:,} operations")

            result = check_trace(reader, rules, tell)
        show(result, reader.header, console)
        file.write(result)
    raise typer.Exit(result.exit_code)


def shrink(
    trace: Saved,
    output: Output = None,
    target: Another = None,
    source: Source = None,
    settings: Settings = [],  # noqa: B006
    profile: Rules = None,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Make a failing trace small: fewer operations and tokens, a smaller pool, plainer ids; the failure stays."""
    from kvaudit.minimise import minimise
    from kvaudit.terminal import progress_bar
    from kvaudit.trace import read_trace, write_trace

    header, scenario = read_trace(trace)
    small_trace = output or beside(trace, "small")
    given = TargetSpec(target or "", source, tuple(refusal), isolate, black_box, timeout, tuple(settings))
    spec = _spec(header, given)
    with _started(spec, header, profile) as (manager, rules, console):
        with progress_bar(console) as bar:
            task = bar.add_task("shrinking", total=None, done="")

            def tell(plays: int, operations: int) -> None:
                bar.update(task, done=f"{operations:,} operations, {plays:,} plays")

            small = minimise(manager, rules, header, scenario, tell)
        write_trace(
            small_trace, msgspec.structs.replace(small.header, target=spec.text, refusals=spec.refusals), small.lines
        )
        for line in small.told:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(f"{small_trace}: {small.summary}", markup=False, highlight=False, soft_wrap=True)


def anonymise(trace: Recorded, output: Output = None) -> None:
    """Rename the tokens and ids of a trace, so that it can be given away; what it shows stays the same."""
    from kvaudit.anonymise import Names
    from kvaudit.terminal import progress_bar
    from kvaudit.trace import TraceReader, write_trace

    console = PlainConsole()
    with TraceReader(trace) as reader, progress_bar(console) as bar:
        renamed = output or beside(trace, "anonymous")
        if renamed.exists() and renamed.samefile(trace):
            raise UsageError(f"{renamed} is the trace itself: give another file")
        task = bar.add_task("renaming", total=1.0, done="")
        names = Names()

        def lines() -> Iterator[TraceLine]:
            for line in reader:
                yield names.line(line)
                if line.step % 512 == 0:
                    bar.update(task, completed=reader.done, done=f"{line.step:,} operations")

        try:
            write_trace(renamed, names.header(reader.header), lines())
        except KeyboardInterrupt:
            say("error", "interrupted: nothing was written")
            raise typer.Exit(INTERRUPTED) from None
    console.print(f"{renamed}: {names.summary}", markup=False, highlight=False, soft_wrap=True)


def _spec(header: TraceHeader, given: TargetSpec) -> TargetSpec:
    """The target to play a trace on: where none is given, its own; what counts as a refusal there does in any case."""
    if not (given.text or header.target):
        raise UsageError("the trace names no target to play it on: give one with --target")
    refusals = tuple(dict.fromkeys([*header.refusals, *given.refusals]))
    return replace(given, text=given.text or header.target, refusals=refusals, level=header.level)


@contextlib.contextmanager
def _started(spec: TargetSpec, header: TraceHeader, profile: str | None) -> Iterator[tuple[Target, Profile, Console]]:
    """As `started`; where what the trace names cannot be started, the error says whose name that is."""
    begun = False
    its_own = header.profile if header.profile in PROFILES or not spec.adapted else None  # None: the adapter brings it
    try:
        with started(spec, profile or its_own) as parts:
            begun = True
            yield parts
    except (UsageError, TargetError) as error:
        if begun or spec.text != header.target or isinstance(error, BrokenProtocol):
            raise
        raise UsageError(f"{error}\nThat is the target that the trace names: give another with --target.") from None


def beside(trace: Path, kind: str) -> Path:
    """Where a trace made of another one goes: beside it."""
    if trace.is_symlink() and not trace.is_file():  # /dev/stdin, and what a shell gives for <(COMMAND)
        raise UsageError(f"beside {trace} nothing is to be written: name a file with -o")
    return trace.with_name(f"{trace.name.removesuffix('.jsonl')}.{kind}.jsonl")


export = typer.Typer(no_args_is_help=True, help="Write what others can use without kvaudit.")


@export.command()
def vectors(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.", show_default=False)],
) -> None:
    """Write the conformance vectors: step programs with refusals and expected answers, and how to play them."""
    from kvaudit.vectors.export import export as write_vectors

    print(f"{write_vectors(folder)} vectors are in {folder}; README.md there says how to play them")
