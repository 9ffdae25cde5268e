"""What commands share: the console, the file of `--json`, and a target from its start to its end."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from kvaudit.errors import UsageError
from kvaudit.levels import rules_for
from kvaudit.plain_console import PlainConsole
from kvaudit.printable import plain
from kvaudit.profiles import Profile
from kvaudit.targets import Target, TargetSpec, profile_named

if TYPE_CHECKING:
    from kvaudit.explore.report import Explored
    from kvaudit.report import Finding, Report

INTERRUPTED = 130
"""Exit code of a shell's command that Ctrl-C has ended."""


def say(kind: str, text: str) -> None:
    """A line on standard error; kind: `error` or `note`."""
    style = {"error": "bold red", "note": "bold yellow"}[kind]
    console = PlainConsole(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[{style}]{kind}:[/] {escape(plain(text))}")


@contextlib.contextmanager
def interruptible(told: str) -> Iterator[None]:
    """Ctrl-C ends the command with a line that says `told`, and with a status of its own."""
    try:
        yield
    except KeyboardInterrupt:
        say("error", told)
        raise typer.Exit(INTERRUPTED) from None


class OutputFile:
    """The file of an option, opened before the work begins: a wrong path is to be told at once.

    appends: the file is somebody's who expects more than one text in it. Only one option at a time may be `-`, which
    is standard output.
    """

    _on_stdout: ClassVar[str | None] = None

    def __init__(self, option: str, path: str | None, *, appends: bool = False) -> None:
        self._option = option
        self._path = path
        self._mode = "ab" if appends else "wb"
        self._file: IO[bytes] | None = None

    @property
    def is_stdout(self) -> bool:
        """Then everything else goes to standard error."""
        return self._path == "-"

    @property
    def is_wanted(self) -> bool:
        """Whether the option was given."""
        return self._path is not None

    def __enter__(self) -> Self:
        if self.is_stdout:
            if OutputFile._on_stdout is not None:
                raise UsageError(
                    f"{OutputFile._on_stdout} and {self._option} cannot both be standard output: name a file for one"
                )
            OutputFile._on_stdout = self._option
            self._file = sys.stdout.buffer
        elif self._path is not None:
            try:
                self._file = open(self._path, self._mode)  # closed on leaving
            except OSError as error:
                raise UsageError(f"{self._option} {self._path}: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_stdout:
            OutputFile._on_stdout = None
        elif self._file is not None:
            self._file.close()

    def write_bytes(self, make: Callable[[], bytes]) -> None:
        """Write what `make` returns, if a file was asked for; else it is not called."""
        if self._file is not None:
            self._file.write(make())


class JsonFile(OutputFile):
    """A file for JSON, that of `--json` unless said otherwise."""

    def __init__(self, path: str | None, option: str = "--json") -> None:
        super().__init__(option, path)

    def write(self, value: Any) -> None:
        """Write the value, if a file was asked for."""
        self.write_bytes(lambda: msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


class ReportFolder:
    """The folder of `--report`, made before the work begins: a wrong path is to be told at once."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._is_written = False
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--report {folder}: {error.strerror}; name a folder, it is made if need be") from None

    def write(self, result: Report | Explored | Finding, console: Console) -> None:
        """Write the page, if one was asked for, and say where it is."""
        if self._folder is None:
            return
        from kvaudit.pictures.page import FILE, page  # a template engine, which most runs do without

        path = self._folder / FILE
        try:
            path.write_text(page(result), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--report {self._folder}: {FILE} cannot be written: {error.strerror}") from None
        self._is_written = True
        console.print(f"the report is in {path}", markup=False, highlight=False, soft_wrap=True)

    def close(self, console: Console) -> None:
        """Say so if a page was asked for, and there was nothing to write."""
        if self._folder is not None and not self._is_written:
            console.print("no report is written: there is no failure to picture", markup=False, highlight=False)


@contextlib.contextmanager
def started(
    spec: TargetSpec, profile: str | None, *, stderr: bool = False
) -> Iterator[tuple[Target, Profile, Console]]:
    """A target from its start to its end, its profile, and a console from which its own prints are kept away."""
    if profile is not None:
        profile_named(profile)  # a wrong name is to be told before anything is started
    with _muffled() as console:
        target = spec.start()
        try:
            yield target, rules_for(target, profile), PlainConsole(stderr=True) if stderr else console
        finally:
            target.close()


@contextlib.contextmanager
def started_both(
    first: TargetSpec, second: TargetSpec, *, stderr: bool = False
) -> Iterator[tuple[Target, Target, Console]]:
    """As `started`, two targets at a time."""
    with _muffled() as console, contextlib.ExitStack() as stack:
        targets = []
        for spec in (first, second):
            targets.append(spec.start())
            stack.callback(targets[-1].close)
        yield targets[0], targets[1], PlainConsole(stderr=True) if stderr else console


@contextlib.contextmanager
def _muffled() -> Iterator[Console]:
    """A console on standard output, from which the target's own prints are kept away."""
    console = PlainConsole(file=sys.stdout)
    printed = _Printed()
    try:
        with contextlib.redirect_stdout(printed):
            yield console
    except KeyboardInterrupt:  # an audit that has begun ends with its report instead
        say("error", "interrupted before the audit had begun")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if printed.lines:
            say("note", f"the target printed {printed.lines:,} lines to standard output, first: {printed.first!r:.80}")


class _Printed(io.TextIOBase):
    """Counts what is printed, and keeps the beginning."""

    def __init__(self) -> None:
        self.lines = 0
        self.first = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.first = self.first or text.strip()
        self.lines += text.count("\n")
        return len(text)
