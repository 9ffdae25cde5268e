"""Errors that are the user's or the target's affair: shown as a message, never as a traceback of ours."""

from __future__ import annotations

from collections.abc import Sequence


class UsageError(Exception):
    """The command cannot be carried out as given. The message says what was wrong and what to do."""


class TargetError(Exception):
    """The target could not be started, or broke down in a way that is no verdict on its manager."""


class BrokenProtocol(TargetError):
    """A process that speaks the protocol ended, was silent, or said what is no answer.

    what: what it did. lines: what was said last. stderr: the end of what it wrote there.
    """

    def __init__(self, label: str, what: str, lines: Sequence[str], stderr: Sequence[str]) -> None:
        self.what, self.stderr = what, tuple(stderr)
        said = ["its stderr ends:", *(f"  {line}" for line in stderr)] if stderr else []
        super().__init__("\n  ".join([f"{label} {what}", *lines, *said]))
