"""The commands that show what there is: obligations, the protocol, and the assurance matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from kvaudit.cli.console import JsonFile
from kvaudit.cli.options import Json
from kvaudit.errors import UsageError
from kvaudit.plain_console import PlainConsole


def matrix(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="What --json of run, explore or kvproofs wrote.", show_default=False),
    ],
    json: Json = None,
) -> None:
    """Show what supports each obligation: fuzz, exhaustive search, proof, CrossHair, planted bugs."""
    from kvaudit.evidence import read_matrix
    from kvaudit.matrix import exit_code, show

    read = read_matrix(results)
    with JsonFile(json) as file:
        show(read, PlainConsole(stderr=file.is_stdout))
        file.write(read)
    raise typer.Exit(exit_code(read))


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
    PlainConsole().print(table)


def protocol(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of every message.")] = False,
) -> None:
    """Show the protocol that a cmd: target speaks over its standard input and output."""
    from kvaudit import protocol as wire

    if schema:
        print(msgspec.json.format(msgspec.json.encode(wire.schema()), indent=2).decode())
    else:
        print(wire.__doc__)


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="trace, vector, report, exploration, smoke, check, evidence, matrix, conformance, diff, or protocol.",
            show_default=False,
        ),
    ],
) -> None:
    """Show the JSON Schema of a format."""
    from kvaudit.schemas import schema as schema_of

    print(msgspec.json.format(msgspec.json.encode(schema_of(name)), indent=2).decode())
