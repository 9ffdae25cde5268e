"""One part of the proof, as a process of its own runs it."""

from __future__ import annotations

from kvproofs import sources
from kvproofs.lemmas import lemmas
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import Theorem, theorems

PARTS = (*OPERATIONS, "lemmas")


def prove(part: str) -> list[Theorem]:
    """The theorems of one operation, or the lemmas."""
    goals = lemmas() if part == "lemmas" else OPERATIONS[part](sources.manager_class(), {})
    return theorems(part, goals)
