"""The application: puts the commands together, and turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Annotated

import typer

from kvaudit import __version__
from kvaudit.cli import audit, diff, reference, simulate, size, smoke, table, traces
from kvaudit.cli.console import say
from kvaudit.errors import BrokenProtocol, TargetError, UsageError
from kvaudit.report import USAGE

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Holds any paged KV-cache block manager to an executable specification. Begin with: "
    "kvaudit run path/to/file.py:Class",
    epilog="Exit codes: 0 conforms, 1 violated, 2 usage or the target could not start, 3 inconclusive, 4 not fetched.",
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"kvaudit {__version__}")
        raise typer.Exit


for _command in (
    audit.run,
    audit.explore,
    audit.fetch,
    smoke.smoke,
    traces.replay,
    traces.check,
    traces.shrink,
    traces.anonymise,
    diff.diff,
    size.size,
    table.table,
    simulate.simulate,
    reference.matrix,
    reference.obligations,
    reference.protocol,
    reference.schema,
):
    app.command()(_command)
app.add_typer(traces.export, name="export")


def main() -> None:
    """Run the command line. A mistake of the user's, or of the target's, is a message and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # where a tick cannot be encoded, a verdict is shown all the same
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (UsageError, TargetError) as error:
        say("error", str(error))
        if isinstance(error, BrokenProtocol):
            say("note", "kvaudit smoke TARGET shows every line that is said, and which step it is that goes wrong")
        sys.exit(USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it flushes at exit
        sys.exit(USAGE)
    except OSError as error:
        say("error", f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        sys.exit(USAGE)
    except Exception as error:
        if os.environ.get("KVAUDIT_DEBUG"):
            traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        say("error", f"this is a bug of kvaudit, please report it ({said}). KVAUDIT_DEBUG=1 shows where it happened.")
        sys.exit(USAGE)
