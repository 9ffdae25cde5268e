"""The console of every front end: text is shown as it is."""

from __future__ import annotations

from typing import Any

from rich.console import Console


class PlainConsole(Console):
    """A console that makes no picture of `cmd:cat:`, and whose reader may go away (`| head`): BrokenPipeError then."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
