"""Plays a saved trace again and says whether it still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from kvaudit import words
from kvaudit.breach import gravest
from kvaudit.execution import Execution
from kvaudit.levels import play, unseen
from kvaudit.profiles import Profile
from kvaudit.report import BY_DESIGN, CONFORMS, INCONCLUSIVE, VIOLATION
from kvaudit.scenario import Scenario
from kvaudit.targets import Target
from kvaudit.trace import TraceHeader, TraceLine
from kvaudit.transcript import said


def replay(
    target: Target,
    header: TraceHeader,
    lines: Sequence[TraceLine],
    profile: Profile,
    console: Console,
    on_failing: Callable[[Execution[Any, Any]], None] = lambda execution: None,
) -> int:
    """Show each step and the outcome; the exit code is that of `kvaudit run`. on_failing: called if it still fails."""
    execution = play(target, Scenario(header.pool, tuple(line.operation for line in lines)), profile)
    saved = {id(line.operation): line for line in lines}
    console.print(
        f"{target.name} {target.version}".rstrip() + f": {words.pool(header.pool)}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for number, (played, step) in enumerate(zip(execution.played, execution.shown(), strict=True), start=1):
        expected = f"   (expected: {step.expected})" if step.broken else ""
        then = _when_saved(saved[id(played.operation)], step.got)
        line = f"{number:3}  {words.clipped(step.call)} -> {step.got}{expected}{then}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if execution.excused:
        for place in execution.played[-1].judgement.excuses:
            console.print(f"     {profile.excuses[place]}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"[bold yellow]{BY_DESIGN}[/]: the profile {profile.name} excuses it", highlight=False)
        return CONFORMS
    left_out = _left_out(execution, lines) if not execution.breaches else ""
    if left_out:
        console.print(f"[bold yellow]cannot be told[/]: {escape(left_out)}", highlight=False, soft_wrap=True)
        return INCONCLUSIVE
    shows = any(line.differs for line in lines)  # then no observe() is needed to see it again
    missing = unseen(profile, header.obligation, target.capabilities) if not execution.breaches and not shows else []
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


def _left_out(execution: Execution[Any, Any], lines: Sequence[TraceLine]) -> str:
    """What is to be said where the last operation, at which the failure showed, could not be made; else nothing."""
    played = {id(one.operation) for one in execution.played}
    missing = [number for number, line in enumerate(lines, start=1) if id(line.operation) not in played]
    if not missing or missing[-1] < len(lines):
        return ""
    those = f"{words.count(len(missing), 'operation')} of {len(lines)}"
    return (
        f"{those} could not be made here, the last among them: no caller may begin a sequence whose id is live, or go "
        f"on with one that is not (the first is line {missing[0] + 1} of the trace)"
    )


def _when_saved(line: TraceLine, now: str) -> str:
    """What came when the trace was saved, if that was wrong and is otherwise now."""
    if line.came is None or not line.differs or said(line.came) == now:
        return ""
    return f"   (when it was saved: {said(line.came)})"
