"""What is killed, and what became of it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from kvblocks import BlockManager

KILLED, SURVIVED = "killed", "survived"
UNSUPPORTED, UNFINISHED = "unsupported", "unfinished"
"""The killer has no model of what the mutant does; or it did not come to an end. Neither is a kill."""


class Mutant(Protocol):
    """A manager with one thing wrong. `functions`: where."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def functions(self) -> tuple[str, ...]: ...

    @property
    def diff(self) -> str: ...

    def build(self) -> type[BlockManager]:
        """The class, to be run."""
        ...

    def symbolic(self) -> Any:
        """The class, to be executed on symbolic values."""


class Verdict(msgspec.Struct, frozen=True):
    """What became of a mutant, and how. `seconds` are of processor time."""

    outcome: str
    how: str
    seconds: float
