"""What a guard says of a broken contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvaudit.breach import SEVERITY, Breach, gravest
from kvspec.obligations import OBLIGATIONS

_MOST_BLOCKS = 8


class ContractViolation(Exception):
    """The manager broke the specification.

    obligation, detail, symptom: what is broken, how it shows, and what a user sees. also: what else is broken at the
    same step. breaches: all of it.
    blocks: those that it is about. owners: the live sequences that hold them. call: the operation or read at which it
    was seen. dump: the trace of the last operations; None if it was not written, and dump_error then says why.
    """

    def __init__(
        self,
        breaches: Sequence[Breach],
        call: str,
        owners: Sequence[object],
        dump: Path | None,
        dump_error: str = "",
    ) -> None:
        self.breaches = tuple(breaches)
        main = gravest(self.breaches)
        self.obligation = main.obligation
        self.symptom = OBLIGATIONS[main.obligation].symptom
        self.detail = main.detail
        self.also = sorted({breach.obligation for breach in breaches} - {main.obligation}, key=SEVERITY.index)
        self.blocks = main.blocks
        self.owners = tuple(owners)
        self.call = call
        self.dump = dump
        self.dump_error = dump_error
        super().__init__("\n  ".join(self._lines()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are copied from one process to another by what they were made of.
        return type(self), (self.breaches, self.call, self.owners, self.dump, self.dump_error)

    def _lines(self) -> list[str]:
        also = f" (at the same step: {', '.join(self.also)})" if self.also else ""
        lines = [f"{self.obligation} is violated{also} at {self.call}: {self.detail}"]
        if self.blocks:
            shown = ", ".join(map(str, self.blocks[:_MOST_BLOCKS])) + (", ..." if self.blocks[_MOST_BLOCKS:] else "")
            held = f"held by {', '.join(map(repr, self.owners))}" if self.owners else "held by nobody"
            lines.append(f"block{'s' if len(self.blocks) > 1 else ''} {shown}, {held}")
        lines.append(f"in production: {self.symptom}")
        if self.dump is not None:
            lines.append(f"the last operations: {self.dump} (kvaudit check reads it; it holds prompts)")
        elif self.dump_error:
            lines.append(f"the last operations could not be written: {self.dump_error}")
        return lines


class ContractWarning(UserWarning):
    """A contract is broken, and the guard goes on as a bystander. `violation` is what it would have raised."""

    def __init__(self, message: str, violation: ContractViolation | None = None) -> None:
        super().__init__(message, violation)
        self.violation = violation

    def __str__(self) -> str:
        return str(self.args[0])
