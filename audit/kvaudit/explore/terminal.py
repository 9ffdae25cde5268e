"""Shows a search on the terminal: a progress bar, a line a pool, the counterexample, and what it all came to."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvaudit.explore.job import Job, Tick
from kvaudit.explore.report import EXHAUSTIVE, Explored, PoolSearched
from kvaudit.report import CONFORMS, VIOLATION, Finding
from kvaudit.terminal import finding_shown, progress_bar
from kvaudit.words import count

_EVERY_S = 0.1


class Terminal:
    """Use as a context manager: the progress bar is ended on leaving. It has no thread, so that processes can fork."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_at = 0.0
        self._bar = progress_bar(console, auto_refresh=False)
        self._task = self._bar.add_task("starting", total=None, done="")

    def __enter__(self) -> Terminal:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, job: Job, version: str) -> None:
        """Say what is searched."""
        self._console.print(f"[bold]kvaudit explore[/] {escape(job.spec.text)} {version}", highlight=False)
        self._console.print(f"[dim]profile[/]  {job.profile.name}: {job.profile.summary}", highlight=False)

    def tick(self, tick: Tick) -> None:
        """Say how far the search of a pool is: of the states that have been reached, those all done."""
        if tick.seconds - self._shown_at < _EVERY_S and tick.seconds > self._shown_at:
            return
        self._shown_at = tick.seconds
        rate = tick.transitions / tick.seconds if tick.seconds else 0
        self._bar.update(
            self._task,
            description=f"{pool_name(tick.pool)}, depth {tick.depth}",
            completed=tick.states - tick.waiting,
            total=tick.states,
            done=f"{count(tick.states, 'state')}, {count(tick.transitions, 'transition')}, {rate:,.0f}/s",
            refresh=True,
        )

    def pool(self, pool: PoolSearched) -> None:
        """A line about a pool, and what has to be said about it."""
        rate = f"{pool.transitions / pool.seconds:,.0f}/s" if pool.seconds else ""
        says = "[green]exhaustive[/]" if pool.kind == EXHAUSTIVE and not pool.ended else "[yellow]not exhaustive[/]"
        if pool.ended:
            says += f", {pool.ended}; {count(pool.waiting, 'state')} not expanded"
        self._console.print(
            f"{pool_name(pool):<32} {count(pool.states, 'state'):>14} {count(pool.transitions, 'transition'):>22} "
            f"({pool.refused:,} refused), depth {pool.depth}, {pool.seconds:.1f} s, {rate}  {says}",
            highlight=False,
            soft_wrap=True,
        )
        for note in [*pool.notes, *([f"bounded search: {pool.why}"] if pool.why else [])]:
            self._console.print(f"  [yellow]{escape(note)}[/]", highlight=False, soft_wrap=True)

    def finding(self, finding: Finding) -> None:
        """A counterexample: breadth first, so that no shorter one exists."""
        self._console.print(finding_shown(finding))

    def end(self, explored: Explored) -> None:
        """What it all came to."""
        self._bar.stop()
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row("assumed", escape("\n".join(explored.assumptions)))
        tried = sum(pool.misuses for pool in explored.pools)
        if tried or explored.misuse:
            says = f"trusting: {explored.misuse}" if explored.misuse else f"strict: {count(tried, 'call')}, all refused"
            grid.add_row("misuse", escape(says))
        self._console.print(grid)
        self._console.print(_last_line(explored), highlight=False, soft_wrap=True)


def pool_name(pool: PoolSearched | object) -> str:
    """The pool in words."""
    blocks, size, cache = (getattr(pool, name) for name in ("num_blocks", "block_size", "enable_prefix_cache"))
    return f"{count(blocks, 'block')} of {count(size, 'token')}, cache {'on' if cache else 'off'}"


def _last_line(explored: Explored) -> str:
    every = [pool for pool in explored.pools if pool.kind == EXHAUSTIVE and not pool.ended]
    kind = "exhaustive" if len(every) == len(explored.pools) else f"{len(every)} exhaustive"
    is_whole = explored.exit_code == CONFORMS and kind == "exhaustive"
    style = "bold red" if explored.exit_code == VIOLATION else "bold green" if is_whole else "bold yellow"
    line = f"[{style}]{escape(explored.target)}: {explored.verdict}"
    if explored.findings:
        line += f": {', '.join(finding.obligation for finding in explored.findings)}"
    elif explored.exit_code == VIOLATION:
        line += ": O10"
    elif explored.reasons:
        line += f": {escape('; '.join(explored.reasons))}"
    states, transitions = (sum(getattr(pool, name) for pool in explored.pools) for name in ("states", "transitions"))
    rate = f"{transitions / explored.seconds:,.0f}/s" if explored.seconds else ""
    return (
        f"{line}[/] [dim]({count(len(explored.pools), 'pool')}, {kind}; {count(states, 'state')}, "
        f"{count(transitions, 'transition')} in {explored.seconds:.1f} s, {rate})[/]"
    )
