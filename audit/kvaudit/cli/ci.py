"""The files of `--junit`, `--summary` and `--sarif`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from kvaudit.cli.console import JsonFile, OutputFile
from kvaudit.report import Report


class CiFiles:
    """Opened before the work begins, and written at its end, those that were asked for."""

    def __init__(self, junit: Path | None, summary: Path | None, sarif: Path | None) -> None:
        self._junit = OutputFile("--junit", _text(junit))
        self._summary = OutputFile("--summary", _text(summary), appends=True)
        self._sarif = JsonFile(_text(sarif), "--sarif")
        self._files = (self._junit, self._summary, self._sarif)
        self._stack = ExitStack()

    @property
    def is_stdout(self) -> bool:
        """Then everything else goes to standard error."""
        return any(file.is_stdout for file in self._files)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for file in self._files:
                stack.enter_context(file)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, report: Report) -> None:
        """Write the report in each format that was asked for."""
        if not any(file.is_wanted for file in self._files):
            return
        from kvaudit.ci.junit import junit
        from kvaudit.ci.sarif import sarif
        from kvaudit.ci.summary import summary

        self._junit.write_bytes(lambda: junit(report))
        self._summary.write_bytes(lambda: summary(report).encode())
        self._sarif.write(sarif(report))


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None
