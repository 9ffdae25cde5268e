"""The command line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvaudit import __version__
from kvaudit.errors import TargetError, UsageError
from kvaudit.report import USAGE
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec, profile_named

NOT_FETCHED = 4
"""Exit code of `kvaudit fetch` where the engine could not be had: no network, no such version, ..."""

_INTERRUPTED = 130
"""Exit code of a shell's command that Ctrl-C has ended."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Holds any paged KV-cache block manager to an executable specification.",
    epilog="Exit codes: 0 conforms, 1 violated, 2 usage or the target could not start, 3 inconclusive, 4 not fetched.",
)

_TARGET_HELP = "kvblocks, an engine (vllm, vllm==0.33.0), pkg.module:Class, path/to/file.py:Class, or cmd:PROGRAM ARGS"
Target = Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET_HELP)]
Source = Annotated[
    str | None,
    typer.Option("--source", metavar="DIR", help="Take the engine from this checkout.", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", help="seed, strict, or an engine's; the default follows from the target.", show_default=False
    ),
]
Refusal = Annotated[
    list[str],
    typer.Option("--refusal", metavar="NAME", help="An exception class that is a refusal, beside OutOfBlocks."),
]
Isolate = Annotated[bool, typer.Option("--isolate", help="Run a Python class in a child process.")]
BlackBox = Annotated[bool, typer.Option("--black-box", help="Do not use observe().")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.01, max=86_400, metavar="SECONDS", help="What one step may take.")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"kvaudit {__version__}")
        raise typer.Exit


@app.command()
def run(
    target: Target,
    source: Source = None,
    profile: Profile = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The budget in steps: 20,000 unless --max-time is given.", show_default=False
        ),
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="Stop after so long.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, other examples.")] = 0,
    stop_at_first: Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop at the first finding.")] = False,
    misuse: Annotated[bool, typer.Option("--misuse", help="Let O10, misuse, count for the exit code.")] = False,
    json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the report as JSON; - is standard output.", show_default=False
        ),
    ] = None,
    failures: Annotated[
        Path, typer.Option(metavar="DIR", help="Where failures are saved, and replayed from at the next run.")
    ] = Path(".kvaudit/failures"),
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Audit a block manager against the specification."""
    from kvaudit.runner import DEFAULT_MAX_STEPS, Audit, Options
    from kvaudit.terminal import Terminal

    spec = TargetSpec(target, source, tuple(refusal), isolate, black_box, timeout)
    if profile is not None:
        profile_named(profile)  # a wrong name is to be told before anything is started
    if max_steps is None and max_time is None:
        max_steps = DEFAULT_MAX_STEPS
    options = Options(seed, max_steps, max_time, stop_at_first, misuse, failures)
    with _json_file(json) as report_file, _muffled() as console:
        if json == "-":
            console = Console(stderr=True)
        started = spec.start()
        try:
            with Terminal(console) as terminal:
                rules = profile_named(profile or started.profile)
                report = Audit(started, spec, rules, options, terminal).run()
        finally:
            started.close()
        if report_file is not None:
            report_file.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    raise typer.Exit(report.exit_code)


@app.command()
def explore(
    target: Target,
    blocks: Annotated[int, typer.Option("--blocks", min=1, metavar="N", help="The blocks of the pool.")],
    block_size: Annotated[int, typer.Option("--block-size", min=1, metavar="B", help="The tokens of a block.")],
    smaller: Annotated[bool, typer.Option("--smaller", help="Search every smaller pool first.")] = False,
    depth: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="No more than N operations in a row.", show_default=False),
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="Stop after so long.", show_default=False)
    ] = None,
    processes: Annotated[int, typer.Option("-j", min=1, metavar="N", help="Search in N processes.")] = 1,
    without: Annotated[
        list[str],
        typer.Option("--without", metavar="NAMES", help="Let these count: blocks, sequences, or tokens (of a few)."),
    ] = [],  # noqa: B006
    misuse: Annotated[bool, typer.Option("--misuse", help="Let O10, misuse, count for the exit code.")] = False,
    json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the report as JSON; - is standard output.", show_default=False
        ),
    ] = None,
    failures: Annotated[Path, typer.Option(metavar="DIR", help="Where failures are saved.")] = Path(
        ".kvaudit/failures"
    ),
    source: Source = None,
    profile: Profile = None,
    refusal: Refusal = [],  # noqa: B006
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Search every sequence of operations on a small pool, with the prefix cache on and off."""
    from kvaudit.explore.exploration import ASSUMED, pools
    from kvaudit.explore.exploration import explore as explore_pools
    from kvaudit.explore.job import Job, Options
    from kvaudit.explore.terminal import Terminal

    for name in without:
        if name not in ASSUMED:
            raise UsageError(f"--without {name}: there are {', '.join(ASSUMED)}")
    spec = TargetSpec(target, source, tuple(refusal), isolate, black_box, timeout)
    if profile is not None:
        profile_named(profile)
    options = Options(depth, frozenset(without), processes, max_time, misuse, failures)
    with _json_file(json) as report_file, _muffled() as console:
        if json == "-":
            console = Console(stderr=True)
        started = spec.start()
        try:
            with Terminal(console) as terminal:
                job = Job(started, spec, profile_named(profile or started.profile), options, terminal.tick)
                terminal.begin(job, started.version)
                every = pools(blocks, block_size, smaller=smaller)
                explored = explore_pools(job, every, terminal.pool, terminal.finding)
                terminal.end(explored)
        finally:
            started.close()
        if report_file is not None:
            report_file.write(msgspec.json.format(msgspec.json.encode(explored), indent=2) + b"\n")
    raise typer.Exit(explored.exit_code)


@app.command()
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
    refusal: Refusal = [],  # noqa: B006
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Play a saved failure again: exit code 0 if it is fixed, 1 if it still fails."""
    from kvaudit.replay import replay as play_again
    from kvaudit.trace import read_trace

    header, scenario = read_trace(trace)
    spec = TargetSpec(target or header.target, source, tuple(refusal), isolate, black_box, timeout)
    with _muffled() as console:
        started = spec.start()
        try:
            code = play_again(started, header, scenario, profile_named(profile or header.profile), console)
        finally:
            started.close()
    raise typer.Exit(code)


@app.command()
def fetch(
    requirement: Annotated[
        str, typer.Argument(metavar="ENGINE==VERSION", help="For example vllm==0.33.0.", show_default=False)
    ],
) -> None:
    """Download the few files of an engine that its block manager needs, into the user's cache."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from kvaudit.engines.fetch import FetchError
    from kvaudit.engines.fetch import fetch as fetch_engine

    name, equals, version = requirement.partition("==")
    if not (name and equals and version):
        raise UsageError(f"{requirement!r} names no version: for example kvaudit fetch vllm==0.33.0")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(requirement, total=None)
            folder = fetch_engine(
                name, version, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
    except FetchError as error:
        _say("error", str(error))
        raise typer.Exit(NOT_FETCHED) from None
    print(f"{requirement} is in {folder}")


@app.command()
def matrix(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="What --json of run, explore or kvproofs wrote.", show_default=False),
    ],
    json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the matrix as JSON; - is standard output.", show_default=False
        ),
    ] = None,
) -> None:
    """Show what supports each obligation: fuzz, exhaustive search, proof, CrossHair, planted bugs."""
    from kvaudit import matrix as assurance
    from kvaudit.evidence import read_matrix

    read = read_matrix(results)
    with _json_file(json) as file:
        assurance.show(read, Console(stderr=json == "-"))
        if file is not None:
            file.write(msgspec.json.format(msgspec.json.encode(read), indent=2) + b"\n")
    raise typer.Exit(assurance.exit_code(read))


@app.command()
def obligations(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this one.", show_default=False)] = None,
) -> None:
    """List what a block manager owes: every obligation with its statement and its symptom."""
    from kvspec.obligations import OBLIGATIONS

    if name is not None and name.upper() not in OBLIGATIONS:
        raise UsageError(f"no obligation {name!r}: there are {', '.join(OBLIGATIONS)}")
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for obligation in OBLIGATIONS.values():
        if name is None or obligation.id == name.upper():
            text = f"[bold]{escape(obligation.title)}[/]\n{escape(obligation.statement)}"
            table.add_row(f"[bold]{obligation.id}", f"{text}\n[dim]if broken: {escape(obligation.symptom)}[/]")
    Console().print(table)


@app.command()
def protocol(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of every message.")] = False,
) -> None:
    """Show the protocol that a cmd: target speaks over its standard input and output."""
    from kvaudit import protocol as wire

    if schema:
        print(msgspec.json.format(msgspec.json.encode(wire.schema()), indent=2).decode())
    else:
        print(wire.__doc__)


@contextlib.contextmanager
def _json_file(path: str | None) -> Iterator[io.BufferedIOBase | None]:
    """The file for the report, opened before the audit begins: a wrong path is to be told at once."""
    if path is None:
        yield None
    elif path == "-":
        yield sys.stdout.buffer  # type: ignore[misc]
    else:
        try:
            file = open(path, "wb")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise UsageError(f"--json {path}: {error.strerror}") from None
        with file:
            yield file


@contextlib.contextmanager
def _muffled() -> Iterator[Console]:
    """A console on standard output, from which the target's own prints are kept away."""
    console = _Console(file=sys.stdout)
    printed = _Printed()
    try:
        with contextlib.redirect_stdout(printed):
            yield console
    except KeyboardInterrupt:  # an audit that has begun ends with its report instead
        _say("error", "interrupted before the audit had begun")
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        if printed.lines:
            _say("note", f"the target printed {printed.lines:,} lines to standard output, first: {printed.first!r:.80}")


class _Console(Console):
    """A console whose reader may go away (`| head`): `main` ends the command then."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Printed(io.TextIOBase):
    """Counts what is printed, and keeps the beginning."""

    def __init__(self) -> None:
        self.lines = 0
        self.first = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.first = self.first or text.strip()
        self.lines += text.count("\n")
        return len(text)


def _say(kind: str, text: str) -> None:
    style = {"error": "bold red", "note": "bold yellow"}[kind]
    Console(stderr=True, soft_wrap=True).print(f"[{style}]{kind}:[/] {escape(text)}", highlight=False)


def main() -> None:
    """Run the command line. A mistake of the user's, or of the target's, is a message and exit code 2."""
    try:
        app()
    except (UsageError, TargetError) as error:
        _say("error", str(error))
        sys.exit(USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it flushes at exit
        sys.exit(USAGE)
    except OSError as error:
        _say("error", f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        sys.exit(USAGE)
    except Exception as error:
        if os.environ.get("KVAUDIT_DEBUG"):
            traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        _say("error", f"this is a bug of kvaudit, please report it ({said}). KVAUDIT_DEBUG=1 shows where it happened.")
        sys.exit(USAGE)
