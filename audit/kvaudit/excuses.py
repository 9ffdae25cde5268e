"""Excuses: differences that no variant expresses, and that are by design."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kvaudit.breach import Breach
from kvaudit.errors import UsageError
from kvaudit.protocol import Mutation
from kvspec.obligations import OBLIGATIONS

_NEVER = {
    "K1": "no design serves a request the KV of another",
    "I4": "a reference too many or too few is a leak, or a block that is given away while it is read",
    "I8": "a block in two places, or in none, is lost or given away while it is read",
    "O10": "misuse has a verdict of its own, `trusting`",
}
"""What is never excused, and why."""


@dataclass(frozen=True)
class Excuse:
    """One difference, as narrow as it can be said: what the auditor says of one obligation after one kind of operation.

    seen: a regular expression for the whole of what is said. reason: why it is by design. source: the line of the
    engine's documentation or source that says so. A step is excused only if each thing that it breaks is.

    Raises UsageError for what cannot be excused, and for an excuse that is not narrow or gives no ground.
    """

    obligation: str
    on: Literal["allocate", "append", "free"]
    seen: str
    reason: str
    source: str

    def __post_init__(self) -> None:
        name = self.obligation
        if name not in OBLIGATIONS:
            raise UsageError(f"an excuse of {name!r}: there is no such obligation; kvaudit obligations lists them")
        if name in _NEVER:
            raise UsageError(f"{name} cannot be excused: {_NEVER[name]}. Take the excuse away, it is a violation")
        if self.on not in ("allocate", "append", "free"):
            raise UsageError(f"an excuse of {name} on {self.on!r}: it is to be allocate, append or free")
        if not (self.reason.strip() and self.source.strip()):
            raise UsageError(f"an excuse of {name} gives no {'reason' if self.source.strip() else 'source'}: say it")
        try:
            is_wide = re.fullmatch(self.seen, "") is not None
        except re.error as error:
            raise UsageError(f"an excuse of {name}: {self.seen!r} is no regular expression: {error}") from None
        if is_wide:
            raise UsageError(f"an excuse of {name}: {self.seen!r} matches anything; say what the auditor says")

    def covers(self, operation: Mutation, breach: Breach) -> bool:
        """Whether the breach is the difference of which it speaks."""
        return (
            breach.obligation == self.obligation
            and type(operation).__name__.lower() == self.on
            and re.fullmatch(self.seen, breach.detail) is not None
        )

    def __str__(self) -> str:
        return f"{self.obligation} differs: {self.reason} ({self.source})"


def excused_by(excuses: Sequence[Excuse], operation: Mutation, breaches: Iterable[Breach]) -> tuple[int, ...]:
    """Which excuses cover the breaches of one step, by their place; none if one of the breaches is left over."""
    found: list[int] = []
    for breach in breaches:
        covering = next((i for i, excuse in enumerate(excuses) if excuse.covers(operation, breach)), None)
        if covering is None:
            return ()
        found.append(covering)
    return tuple(dict.fromkeys(found))
