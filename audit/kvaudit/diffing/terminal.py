"""Shows a comparison on the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvaudit.diffing.compared import KINDS
from kvaudit.diffing.report import DIFFERENT, SAME, Diff, Found, Side
from kvaudit.words import count


def found_shown(found: Found, a: Side, b: Side) -> RenderableType:
    """A difference: its kind, its program side by side, and how to play it on either."""
    title = Text.assemble((f"≠ {found.kind}", "bold red"), f": {KINDS[found.kind]}")
    cache = "on" if found.enable_prefix_cache else "off"
    size = f"{count(found.num_blocks, 'block')} of {count(found.block_size, 'token')}"
    steps = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    steps.add_column("", style="dim", justify="right", no_wrap=True)
    for head in ("operation", f"A: {a.name}", f"B: {b.name}"):
        steps.add_column(Text(head), overflow="fold")
    for number, step in enumerate(found.steps, start=1):
        style = "bold red" if number == len(found.steps) else ""
        steps.add_row(str(number), Text(step.call), Text(step.a, style), Text(step.b, style))
    parts: list[RenderableType] = [
        title,
        Padding(Text(f"A pool of {size}, prefix cache {cache}:"), (0, 0, 0, 2)),
        Padding(steps, (0, 0, 1, 2)),
        Padding(Text(found.detail), (0, 0, 0, 2)),
    ]
    if not found.repeats:
        told = Text("the same program on fresh pools goes otherwise: there is chance", "yellow")
        parts.append(Padding(told, (0, 0, 0, 2)))
    replay = Text("\n".join(found.replay), "dim")
    return Group(*parts, Padding(replay, (0, 0, 1, 2)))


def concluded(diff: Diff) -> RenderableType:
    """What was compared, and the verdict."""
    lines = [Text(f"compared: {', '.join(diff.compared)}" + ("; block numbers count" if diff.strict else ""), "dim")]
    lines += [Text(f"not compared: {kind}: {why}", "dim") for kind, why in diff.not_compared.items()]
    often = [found for found in diff.found if found.count > 1]
    lines += [Text(f"{found.id} was met {count(found.count, 'time')}", "dim") for found in often]
    if diff.muted:
        lines.append(Text(f"met so often that it was no longer looked for: {', '.join(diff.muted)}", "dim"))
    kinds = ", ".join(dict.fromkeys(found.kind for found in diff.found))
    told = f": {kinds or '; '.join(diff.reasons)}" if kinds or diff.reasons else ""
    if diff.cut_short and kinds:
        told += f"; {diff.cut_short}"
    style = {SAME: "bold green", DIFFERENT: "bold red"}.get(diff.exit_code, "bold yellow")
    rate = f", {diff.steps / diff.seconds:,.0f}/s" if diff.seconds else ""
    ran = f"{count(diff.steps, 'step')} in {count(diff.executions, 'execution')}, {diff.seconds:.1f} s{rate}"
    last = Text.assemble((f"{diff.a.name} and {diff.b.name}: {diff.verdict}{told}", style), (f" ({ran})", "dim"))
    return Group(*lines, last)
