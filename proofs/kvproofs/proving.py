"""One part of the proof, as a process of its own runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvproofs import capacity, sources
from kvproofs.executor import Goal
from kvproofs.lemmas import lemmas
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import Theorem, theorems

_OTHERS: dict[str, Callable[[], Iterator[Goal]]] = {
    "unchecked allocate": lambda: capacity.necessity(sources.class_of(capacity.unchecked()), {}),
    "naive allocate": lambda: capacity.naive_check_is_refuted(capacity.naive()),
    "lemmas": lemmas,
}

PARTS = (*OPERATIONS, *_OTHERS)


def prove(part: str) -> list[Theorem]:
    """The theorems of one operation, or those about what is no operation of kvblocks."""
    goals = OPERATIONS[part](sources.manager_class(), {}) if part in OPERATIONS else _OTHERS[part]()
    return theorems(part, goals)
