"""A request as the auditor follows it: its tokens, and how far it is computed, by what the scheduler reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvspec.identity import Identity
from kvspec.memory import prefixes_of


@dataclass
class Request:
    """A live request.

    tokens: the prompt and what was sampled; prefixes: for each of them the prefix that ends with it. end: the KV of so
    many positions is computed; None before the first work, and after a preemption. table: through which it was last
    read, or which was last shown; None where `end` is.
    """

    seq: str
    tokens: list[int]
    num_prompt_tokens: int
    max_new_tokens: int
    prefixes: list[Identity] = field(default_factory=list)
    end: int | None = None
    table: Sequence[int] | None = None
    was_preempted: bool = False

    def __post_init__(self) -> None:
        self.prefixes = prefixes_of(self.tokens)

    @property
    def num_sampled(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def is_done(self) -> bool:
        """It has all its tokens, and need not be computed further."""
        return self.num_sampled >= self.max_new_tokens

    def sample(self, token: int) -> None:
        self.tokens.append(token)
        self.prefixes += prefixes_of([token], self.prefixes[-1])

    def preempt(self) -> None:
        """Its blocks are given back; it waits, and is computed again."""
        self.end = self.table = None
        self.was_preempted = True
