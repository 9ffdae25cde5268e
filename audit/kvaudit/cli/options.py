"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvaudit.profiles import PROFILES
from kvaudit.protocol import LevelName

FAILURES = Path(".kvaudit/failures")

RULES = f"The rules: {', '.join(PROFILES)} (docs/profiles.md)"
_TARGET_HELP = (
    "kvblocks, an engine (vllm, vllm==0.33.0), an adapter (path/to/file.py), pkg.module:Class, path/to/file.py:Class, "
    "or cmd:PROGRAM ARGS"
)
Target = Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET_HELP)]
Source = Annotated[
    str | None,
    typer.Option("--source", metavar="DIR", help="Take the engine from this checkout.", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help=f"{RULES}; the default follows from the target.", show_default=False
    ),
]
Refusal = Annotated[
    list[str],
    typer.Option(
        "--refusal",
        metavar="NAME",
        help="The name of an exception class that is a refusal, beside OutOfBlocks; may be repeated.",
    ),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the engine; docs/engines.md lists them."),
]
Level = Annotated[
    LevelName | None,
    typer.Option(help="How it is driven, where it offers both; else at the level that it offers.", show_default=False),
]
Isolate = Annotated[bool, typer.Option("--isolate", help="Run a Python class in a child process.")]
BlackBox = Annotated[bool, typer.Option("--black-box", help="Do not use observe().")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.01, max=86_400, metavar="SECONDS", help="What one step may take before it counts as a hang."
    ),
]
MaxTime = Annotated[
    float | None, typer.Option("--max-time", min=0.0, metavar="SECONDS", help="Stop after so long.", show_default=False)
]
Misuse = Annotated[bool, typer.Option("--misuse", help="Let O10, misuse, count for the exit code.")]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.", show_default=False),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="DIR", help="Write report.html there, with a picture of each failure.", show_default=False
    ),
]
JUnit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write JUnit XML, a test case an obligation.", show_default=False),
]
Summary = Annotated[
    Path | None,
    typer.Option(
        "--summary", metavar="FILE", help="Append Markdown, as $GITHUB_STEP_SUMMARY takes it.", show_default=False
    ),
]
Sarif = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0, for code scanning.", show_default=False),
]
Failures = Annotated[
    Path, typer.Option("--failures", metavar="DIR", help="Where failures are saved, and replayed from at the next run.")
]
