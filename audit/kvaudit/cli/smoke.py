"""The command for those who write a harness: smoke."""

from __future__ import annotations

import contextlib

import typer
from rich.console import Console
from rich.text import Text

from kvaudit.cli.console import INTERRUPTED, JsonFile, say
from kvaudit.cli.options import BlackBox, Json, Profile, Refusal, Source, Target, Timeout
from kvaudit.plain_console import PlainConsole
from kvaudit.smoke import BROKEN, FINE, WRONG, Exchange, Smoke
from kvaudit.targets import DEFAULT_TIMEOUT_S, TargetSpec

_SHOWN = 2_000
"""Characters of a line that are shown; --json has all."""


def smoke(
    target: Target,
    source: Source = None,
    profile: Profile = None,
    json: Json = None,
    refusal: Refusal = [],  # noqa: B006 (typer copies it)
    black_box: BlackBox = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Tell a broken harness from a wrong implementation: a short conversation, shown line by line.

    Exit codes: 0 the harness is fine, 1 the implementation is wrong, 2 the harness is broken.
    """
    from kvaudit.smoke import smoke as hold

    spec = TargetSpec(target, source, tuple(refusal), isolate=True, black_box=black_box, timeout=timeout)
    with JsonFile(json) as file:
        console = PlainConsole(stderr=file.is_stdout, soft_wrap=True, highlight=False)
        waiting = PlainConsole(stderr=True)
        try:
            with waiting.status("waiting for an answer") if waiting.is_terminal else contextlib.nullcontext():
                result = hold(spec, profile, lambda exchange: _show(console, exchange))
        except KeyboardInterrupt:
            say("error", "interrupted")
            raise typer.Exit(INTERRUPTED) from None
        _conclude(console, spec, result)
        file.write(result)
    raise typer.Exit(result.exit_code)


def _show(console: Console, exchange: Exchange) -> None:
    mark, style = ("✗", "bold red") if exchange.wrong else ("✓", "green")
    console.print(Text.assemble((mark, style), " ", (exchange.step, "bold")))
    for arrow, line in ((">", exchange.question), ("<", exchange.answer)):
        if line:
            cut = f"... ({len(line):,} characters)" if len(line) > _SHOWN else ""
            console.print(Text(f"{arrow} {line[:_SHOWN]}{cut}", style="dim"))
    if exchange.wrong:
        console.print(Text(f"  {exchange.wrong}", style="red"))
    for note in exchange.notes:
        console.print(Text(f"  note: {note}", style="yellow"))


def _conclude(console: Console, spec: TargetSpec, result: Smoke) -> None:
    whose = "the harness" if spec.is_program else "the target"
    last = {
        FINE: f"{whose} is fine, and the implementation is right as far as this goes: kvaudit run goes further",
        WRONG: f"the implementation is wrong: {whose} speaks the protocol, and the answer is not what is due",
        BROKEN: f"{whose} is broken: nothing can be said of the implementation",
    }[result.verdict]
    if result.stderr:
        console.print(Text("\n".join(["  its stderr ends:", *(f"    {line}" for line in result.stderr)])))
    if result.verdict != FINE and result.paste:
        console.print(Text(f"\nask it the same again:\n  {result.paste}"))
    console.print(Text(f"\n{result.target}: {last}", style="bold"))
