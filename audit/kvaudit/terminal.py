"""The terminal's front end: shows the events of an audit as they come."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from kvaudit.pictures.terminal import picture
from kvaudit.profiles import PROFILES
from kvaudit.protocol import MANAGER, Setting
from kvaudit.report import (
    CONFORMS,
    FIXED,
    HOLDS,
    NOT_REACHED,
    UNTOLD,
    VIOLATED,
    VIOLATION,
    Begun,
    Ended,
    Event,
    Finding,
    Found,
    Header,
    KnownFailure,
    Progress,
    Report,
)
from kvaudit.words import count
from kvaudit.words import pool as pool_in_words

_STYLES = {HOLDS: "green", VIOLATED: "bold red"}
_SIGNS = {HOLDS: "✓", VIOLATED: "✗"}


class Terminal:
    """Consumes events and shows them on `console`. Use as a context manager: the progress bar is ended on leaving."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = progress_bar(console)
        self._task = self._bar.add_task("starting", total=None, done="")

    def __enter__(self) -> Terminal:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Progress):
            advance(self._bar, self._task, event, event.phase)
        elif isinstance(event, Begun):
            self._console.print(_header(event.header))
        elif isinstance(event, Found):
            self._console.print(finding_shown(event.finding))
        elif isinstance(event, Ended):
            self._bar.stop()
            self._console.print(_report(event.report))
            self._console.print(last_line(event.report), soft_wrap=True)


def progress_bar(console: Console, *, auto_refresh: bool = True) -> Bar:
    """A bar that is gone when it ends; its tasks have a field `done`. Without `auto_refresh` it has no thread."""
    return Bar(
        TextColumn("[dim]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=auto_refresh,
        disable=not console.is_terminal,
    )


def advance(bar: Bar, task: TaskID, event: Progress, what: str) -> None:
    """Show on a bar how far an audit is."""
    rate = event.steps / event.seconds if event.seconds else 0
    found = f", [bold red]{event.found} found[/]" if event.found else ""
    done = f"{event.steps:,} steps, {rate:,.0f}/s{found}"
    bar.update(task, description=escape(what), completed=event.fraction * 100, total=100, done=done)


def _header(header: Header) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")

    def row(name: str, value: str) -> None:
        if value:
            grid.add_row(name, escape(value))

    row("target", f"{header.target} {header.version}" if header.version not in header.target else header.target)
    row("level", header.level if header.level != MANAGER else "")
    row("profile", f"{header.profile} ({PROFILES[header.profile].summary})")
    budget = f"{header.max_steps:,} steps" if header.max_steps is not None else "no limit of steps"
    row("budget", budget + (f", {header.max_time_s:g} s" if header.max_time_s is not None else ""))
    row("seed", str(header.seed))
    row("engine", header.engine if header.engine != "both" else "")
    row("played by", header.workers)
    row("offers", ", ".join(header.capabilities))
    row("drawn", "\n".join(_values(name, values) for name, values in header.drawn.items()))
    row("assumed", "\n".join(header.assumptions))
    row("by design", "\n".join(header.notes))
    row("stubbed", _stubs(header.stubs))
    title = Text.assemble(("kvaudit ", "bold"), header.kvaudit, (f", specification {header.spec}", "dim"))
    return Group(title, Padding(grid, (0, 0, 1, 2)))


def _values(name: str, values: Sequence[Setting]) -> str:
    """A setting and the values among which it is drawn."""
    return f"{name}: {', '.join(map(str, values))}"


def _stubs(stubs: list[str]) -> str:
    """Packages with the number of their modules that were replaced; the JSON report has every name."""
    packages = collections.Counter(stub.partition(".")[0] for stub in stubs)
    return ", ".join(name if times == 1 else f"{name} ({times} modules)" for name, times in packages.items())


def finding_shown(finding: Finding) -> RenderableType:
    """A finding: its symptom, its steps, the pool over time, and the line to reproduce it."""
    style = "bold yellow" if finding.known else "bold red"
    title = Text.assemble((f"✗ {finding.obligation} is violated{', as is known' if finding.known else ''}", style))
    if finding.also:
        title.append(f" (at the same step: {', '.join(finding.also)})")
    pool = f"A pool of {pool_in_words(finding.pool)}:"
    steps = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    steps.add_column("", style="dim", justify="right", no_wrap=True)
    steps.add_column("operation", overflow="fold")
    steps.add_column("expected", overflow="fold")
    steps.add_column("came", overflow="fold")
    for number, step in enumerate(finding.steps, start=1):
        came = Text(step.got)
        if step.broken:
            came.append(f"  ✗ {' '.join(dict.fromkeys(step.broken))}", style="bold red")
        steps.add_row(str(number), Text(step.call), Text(step.expected), came)
    details = Text("\n".join(finding.details))
    drawn = picture(finding)
    return Group(
        title,
        Padding(Text.assemble(("In production: ", "bold"), finding.symptom + "."), (0, 0, 1, 2)),
        Padding(Text(pool), (0, 0, 0, 2)),
        Padding(steps, (0, 0, 1, 2)),
        *([Padding(drawn, (0, 0, 1, 2))] if drawn is not None else []),
        Padding(details, (0, 0, 1, 2)),
        Padding(Text.assemble(("reproduce: ", "dim"), finding.reproduce), (0, 0, 1, 2)),
    )


def _report(report: Report) -> RenderableType:
    rows = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    rows.add_column(no_wrap=True, style="bold")
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for row in report.rows:
        if row.verdict == NOT_REACHED and report.cut_short:
            continue
        style = "yellow" if row.known else _STYLES.get(row.verdict, "yellow")
        says = Text(row.title)
        if row.form:
            says.append(f" ({row.form})", style="dim")
        if row.detail:
            says.append(f"\n{row.detail}", style=style)
        verdict = f"{row.verdict}, known" if row.known else row.verdict
        rows.add_row(row.obligation, Text(f"{_SIGNS.get(row.verdict, '-')} {verdict}", style), says)
    parts: list[RenderableType] = [rows, "", _goals(report), ""]
    counts = [
        f"{finding.id} was met {count(finding.count, 'time')}" for finding in report.findings if finding.count > 1
    ]
    counts += [f"{name} failed {count(times, 'more time')}, not made small" for name, times in report.more.items()]
    if counts:
        parts += [Text("; ".join(counts) + ".", style="dim")]
    parts += [Text(told, style="yellow") for known in report.known if (told := _told_of(known))]
    return Group(*parts)


def _told_of(known: KnownFailure) -> str:
    """What is to be said of a known failure that was not seen."""
    if known.state == FIXED:
        return f"no longer fails, take it away: {known.trace} ({known.obligation})"
    if known.state == UNTOLD:
        return f"cannot be told whether it still fails, as the target does not show it: {known.trace}"
    return ""


def _goals(report: Report) -> RenderableType:
    met = ", ".join(f"{goal.id} {goal.count:,}" for goal in report.goals if goal.count)
    text = Text(f"reach goals and how often each was met: {met or 'none'}", style="dim")
    for goal in report.goals:
        if not goal.count and not report.cut_short:
            text.append(f"\nnever met: {goal.id}: {goal.statement}", style="yellow")
    return text


def last_line(report: Report) -> Text:
    """The verdict, and what it rests on."""
    held = sum(row.verdict == HOLDS for row in report.rows)
    rate = f"{report.steps / report.seconds:,.0f}/s" if report.seconds else ""
    ran = f"{count(report.steps, 'step')} in {count(report.executions, 'execution')}, {report.seconds:.1f} s, {rate}"
    style = {CONFORMS: "bold green", VIOLATION: "bold red"}.get(report.exit_code, "bold yellow")
    line = Text.assemble((f"{report.header.target}: {report.verdict}", style))
    broken = [row for row in report.rows if row.verdict == VIOLATED]
    if report.exit_code == VIOLATION:
        line.append(f": {', '.join(row.obligation for row in broken if not row.known)}", style)
        if report.cut_short:
            line.append(f"; {report.cut_short}")
    elif report.reasons:
        line.append(f": {'; '.join(report.reasons)}")
    known = ", ".join(row.obligation for row in broken if row.known)
    if known:
        line.append(f"; violated as is known: {known}")
    others = collections.Counter(row.verdict for row in report.rows if row.verdict not in (HOLDS, VIOLATED))
    rest = "".join(f", {times} {verdict}" for verdict, times in others.items())  # what is violated has been named
    line.append(f" ({held} of {len(report.rows)} obligations hold{rest}; {ran})", "dim")
    return line
