"""Policies: who chooses where the specification leaves a choice.

An operation has an *effect* that follows from a few choices: which of several copies is hit, which blocks are
taken, who is mapped where a copy is registered, and who inherits the mapping of an evicted block. The seed's manager
always makes the same choices: the policy `SEED`. An audited engine makes its own: an auditor gives a policy that reads
them off the engine's answers, and holds them to `kvspec.variants`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Protocol

from kvspec.identity import Identity
from kvspec.ledger import Ledger


class Policy(Protocol):
    """The choices of one operation."""

    def hits(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        """A block for each identity of the run of hits."""
        ...

    def blocks(self, ledger: Ledger, hits: tuple[int, ...], count: int) -> tuple[int, ...]:
        """`count` idle blocks for new content, none of them in `hits`, in the order in which they are taken."""
        ...

    def mapped(self, old: int, new: int) -> int:
        """Which of two blocks can be hit, when `new` is registered with the content of `old`."""
        ...

    def heir(self, carriers: Iterable[int]) -> int | None:
        """Which of the other blocks that carry an evicted identity is mapped in its place, if any."""


class Seed:
    """The seed's choices: first the free list from its head, then the oldest evictable; nobody is mapped in place of
    another."""

    def hits(self, ledger: Ledger, run: tuple[Identity, ...]) -> tuple[int, ...]:
        return tuple(ledger.hash_to_block[h] for h in run)

    def blocks(self, ledger: Ledger, hits: tuple[int, ...], count: int) -> tuple[int, ...]:
        hit = set(hits)
        evictable = (b for b in ledger.evictable if b not in hit)
        return tuple(islice(chain(ledger.free, evictable), count))

    def mapped(self, old: int, new: int) -> int:
        return old

    def heir(self, carriers: Iterable[int]) -> int | None:
        return None


SEED = Seed()
