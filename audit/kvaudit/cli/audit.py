"""The commands that hold a target to the specification: run, explore; and fetch, which brings one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvaudit.cli.ci import CiFiles
from kvaudit.cli.console import JsonFile, ReportFolder, say, started
from kvaudit.cli.options import (
    FAILURES,
    BlackBox,
    Failures,
    Isolate,
    Json,
    JUnit,
    Level,
    MaxTime,
    Misuse,
    Profile,
    Refusal,
    Report,
    Sarif,
    Settings,
    Source,
    Summary,
    Target,
    Timeout,
)
from kvaudit.errors import UsageError
from kvaudit.plain_console import PlainConsole
from kvaudit.protocol import SCHEDULER
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec
from kvaudit.workload import Engine

NOT_FETCHED = 4
"""Exit code of `kvaudit fetch` where the engine could not be had: no network, no such version, ..."""


def run(
    target: Target,
    source: Source = None,
    settings: Settings = [],  # noqa: B006
    profile: Profile = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The budget in steps: 20,000 unless --max-time is given.", show_default=False
        ),
    ] = None,
    max_time: MaxTime = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, other examples.")] = 0,
    engine: Annotated[
        Engine,
        typer.Option(help="Who makes the examples: Hypothesis, the faster swarm driver, or both in turns."),
    ] = "both",
    processes: Annotated[
        int | None,
        typer.Option(
            "-j",
            min=1,
            metavar="N",
            help="Play the examples in N processes; what is found does not depend on N.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Play them on a Dask cluster, as with -j.", show_default=False),
    ] = None,
    stop_at_first: Annotated[
        bool, typer.Option("-x", "--exitfirst", help="Stop at the first finding that is not known.")
    ] = False,
    known: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A folder of saved failures: they are known, and only others set the exit code.",
            show_default=False,
        ),
    ] = None,
    misuse: Misuse = False,
    json: Json = None,
    report: Report = None,
    junit: JUnit = None,
    summary: Summary = None,
    sarif: Sarif = None,
    failures: Failures = FAILURES,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    isolate: Isolate = False,
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    level: Level = None,
) -> None:
    """Audit a block manager, or a scheduler, against the specification."""
    from kvaudit.runner import DEFAULT_MAX_STEPS, Audit, Options
    from kvaudit.terminal import Terminal

    spec = TargetSpec(target, source, tuple(refusal), isolate, black_box, timeout, tuple(settings), level)
    if processes is not None and cluster is not None:
        raise UsageError("-j is for processes of this machine, --cluster for others: give one of them")
    if max_steps is None and max_time is None:
        max_steps = DEFAULT_MAX_STEPS
    options = Options(seed, max_steps, max_time, stop_at_first, misuse, failures, engine, known, processes, cluster)
    folder = ReportFolder(report)
    with (
        JsonFile(json) as file,
        CiFiles(junit, summary, sarif) as ci,
        started(spec, profile, stderr=file.is_stdout or ci.is_stdout) as (manager, rules, console),
        Terminal(console) as terminal,
    ):
        result = Audit(manager, spec, rules, options, terminal).run()
        file.write(result)
        ci.write(result)
        folder.write(result, console)
    raise typer.Exit(result.exit_code)


def explore(
    target: Target,
    blocks: Annotated[int, typer.Option("--blocks", min=1, metavar="N", help="The blocks of the pool.")],
    block_size: Annotated[int, typer.Option("--block-size", min=1, metavar="B", help="The tokens of a block.")],
    smaller: Annotated[bool, typer.Option("--smaller", help="Search every smaller pool first.")] = False,
    depth: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="No more than N operations in a row.", show_default=False),
    ] = None,
    max_time: MaxTime = None,
    processes: Annotated[int, typer.Option("-j", min=1, metavar="N", help="Search in N processes.")] = 1,
    without: Annotated[
        list[str],
        typer.Option(
            "--without",
            metavar="NAMES",
            help="Tell states apart that differ in these names only: blocks, sequences, or tokens (of a few).",
        ),
    ] = [],  # noqa: B006
    misuse: Misuse = False,
    json: Json = None,
    report: Report = None,
    failures: Failures = FAILURES,
    source: Source = None,
    settings: Settings = [],  # noqa: B006
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
    spec = TargetSpec(target, source, tuple(refusal), isolate, black_box, timeout, tuple(settings))
    options = Options(depth, frozenset(without), processes, max_time, misuse, failures)
    folder = ReportFolder(report)
    with (
        JsonFile(json) as file,
        started(spec, profile, stderr=file.is_stdout) as (manager, rules, console),
        Terminal(console) as terminal,
    ):
        if manager.level == SCHEDULER:
            raise UsageError(f"{target} is a scheduler, and there is no search of schedulers: kvaudit run audits it")
        job = Job(manager, spec, rules, options, terminal.tick)
        possible = [pool for pool in pools(blocks, block_size, smaller=smaller) if rules.limits.allow(pool)]
        if not possible:
            raise UsageError(f"{target} makes blocks of {rules.limits.sizes}: see --block-size")
        terminal.begin(job, manager.version)
        explored = explore_pools(job, possible, terminal.pool, terminal.finding)
        terminal.end(explored)
        file.write(explored)
        folder.write(explored, console)
    raise typer.Exit(explored.exit_code)


def fetch(
    requirement: Annotated[
        str, typer.Argument(metavar="ENGINE==VERSION", help="For example vllm==0.33.0.", show_default=False)
    ],
) -> None:
    """Download the few files of an engine that its block manager needs, into the user's cache, or $KVAUDIT_CACHE."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from kvaudit.engines.fetch import fetch as fetch_engine
    from kvaudit.engines.pip import FetchError

    name, equals, version = requirement.partition("==")
    if not (name and equals and version):
        raise UsageError(f"{requirement!r} names no version: for example kvaudit fetch vllm==0.33.0")
    console = PlainConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(requirement, total=None)
            folder = fetch_engine(
                name, version, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
    except FetchError as error:
        say("error", str(error))
        raise typer.Exit(NOT_FETCHED) from None
    print(f"{requirement} is in {folder}")
