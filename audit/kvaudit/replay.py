"""Plays a saved trace again and says whether it still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.execution import Execution, Scenario, play
from kvaudit.findings import unseen
from kvaudit.profiles import Profile
from kvaudit.report import BY_DESIGN, CONFORMS, INCONCLUSIVE, VIOLATION
from kvaudit.targets import Target
from kvaudit.trace import TraceHeader, TraceLine
from kvaudit.transcript import said


def replay(
    target: Target,
    header: TraceHeader,
    lines: Sequence[TraceLine],
    profile: Profile,
    console: Console,
    on_failing: Callable[[Execution], None] = lambda execution: None,
) -> int:
    """Show each step and the outcome; the exit code is that of `kvaudit run`. on_failing: called if it still fails."""
    pool = header.pool
    execution = play(target, Scenario(pool, tuple(line.operation for line in lines)), profile)
    saved = {id(line.operation): line for line in lines}
    cache = "on" if pool.enable_prefix_cache else "off"
    size = f"{words.count(pool.num_blocks, 'block')} of {words.count(pool.block_size, 'token')}"
    console.print(
        f"{target.name} {target.version}".rstrip() + f": {size}, prefix cache {cache}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for number, played in enumerate(execution.played, start=1):
        operation, judgement = played.operation, played.judgement
        expected = f"   (expected: {words.expected(operation, judgement)})" if judgement.breaches else ""
        then = _when_saved(saved[id(operation)], words.came(judgement))
        line = f"{number:3}  {words.clipped(words.call(operation))} -> {words.came(judgement)}{expected}{then}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if execution.excused:
        for place in execution.played[-1].judgement.excuses:
            console.print(f"     {profile.excuses[place]}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"[bold yellow]{BY_DESIGN}[/]: the profile {profile.name} excuses it", highlight=False)
        return CONFORMS
    shows = any(line.differs for line in lines)  # then no observe() is needed to see it again
    missing = unseen(header.obligation, target.capabilities) if not execution.breaches and not shows else []
    if missing:
        told = f"cannot be told[/]: without {', '.join(missing)} a violation of {header.obligation} may not show"
        console.print(f"[bold yellow]{told}", highlight=False)
        return INCONCLUSIVE
    if not execution.breaches:
        told = f"fixed[/]: {header.obligation} is no longer violated" if header.obligation else "nothing[/] is violated"
        console.print(f"[bold green]{told}", highlight=False)
        return CONFORMS
    for breach in execution.breaches:
        console.print(f"     {breach.obligation}: {breach.detail}", markup=False, highlight=False, soft_wrap=True)
    on_failing(execution)
    now = gravest(execution.breaches).obligation
    before = f" (when it was saved: {header.obligation})" if header.obligation not in ("", now) else ""
    console.print(f"[bold red]still failing[/]: {now} is violated{before}", highlight=False)
    return VIOLATION


def _when_saved(line: TraceLine, now: str) -> str:
    """What came when the trace was saved, if that was wrong and is otherwise now."""
    if line.came is None or not line.differs or said(line.came) == now:
        return ""
    return f"   (when it was saved: {said(line.came)})"
