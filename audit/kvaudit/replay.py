"""Plays a saved trace again and says whether it still fails."""

from __future__ import annotations

from rich.console import Console

from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.execution import Scenario, play
from kvaudit.profiles import Profile
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.targets import Target
from kvaudit.trace import TraceHeader


def replay(target: Target, header: TraceHeader, scenario: Scenario, profile: Profile, console: Console) -> int:
    """Show each step and the outcome; the exit code is that of `kvaudit run`."""
    execution = play(target, scenario, profile)
    pool = scenario.pool
    cache = "on" if pool.enable_prefix_cache else "off"
    size = f"{words.count(pool.num_blocks, 'block')} of {words.count(pool.block_size, 'token')}"
    console.print(f"{target.name}: {size}, prefix cache {cache}", markup=False, highlight=False, soft_wrap=True)
    for number, (operation, judgement) in enumerate(execution.played, start=1):
        expected = f"   (expected: {words.expected(operation, judgement)})" if judgement.breaches else ""
        line = f"{number:3}  {words.call(operation)} -> {words.came(judgement)}{expected}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not execution.breaches:
        console.print(f"[bold green]fixed[/]: {header.obligation or 'nothing'} is no longer violated", highlight=False)
        return CONFORMS
    for breach in execution.breaches:
        console.print(f"     {breach.obligation}: {breach.detail}", markup=False, highlight=False, soft_wrap=True)
    now = gravest(execution.breaches).obligation
    before = f" (when it was saved: {header.obligation})" if header.obligation not in ("", now) else ""
    console.print(f"[bold red]still failing[/]: {now} is violated{before}", highlight=False)
    return VIOLATION
