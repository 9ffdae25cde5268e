"""A breach: one obligation broken at one step."""

from __future__ import annotations

from typing import NamedTuple

SEVERITY = (
    *("K1", "K2", "I8", "I4", "O1", "O2", "O9", "I5", "O5", "O4", "O3", "O11", "O6", "O7", "O8"),
    *("I1", "I2", "I3", "I6", "I7", "O10"),
)
"""Which of several obligations broken at one step gives the finding its name: what hurts a user most."""


class Breach(NamedTuple):
    """The obligation, and what was to be and what is, in words."""

    obligation: str
    detail: str


def gravest(breaches: tuple[Breach, ...]) -> Breach:
    """The breach that gives a finding its name."""
    return min(breaches, key=gravity)


def gravity(breach: Breach) -> int:
    """Sorts the gravest first."""
    return SEVERITY.index(breach.obligation)
