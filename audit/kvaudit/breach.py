"""A breach: one obligation broken at one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SEVERITY = (
    *("K1", "K2", "O1", "O9", "O11", "I8", "I4", "I3", "I7", "I6", "I2", "I1"),
    *("O2", "I5", "O5", "O4", "O3", "O6", "O7", "O8", "O10"),
)
"""Which of several obligations broken at one step gives the finding its name.

First wrong KV, then what changes when nothing should, then states that no operation may leave behind (and that hurt
later), then wrong answers, then wrong choices.
"""


class Breach(NamedTuple):
    """The obligation, what was to be and what is in words, and the blocks that this is about.

    blocks: those that the words name; where only a count was seen, those that the operation had to do with.
    """

    obligation: str
    detail: str
    blocks: tuple[int, ...] = ()


def gravest(breaches: tuple[Breach, ...]) -> Breach:
    """The breach that gives a finding its name."""
    return min(breaches, key=gravity)


def gravity(breach: Breach) -> int:
    """Sorts the gravest first."""
    return SEVERITY.index(breach.obligation)


def concerned_by(breaches: Sequence[Breach]) -> list[int]:
    """Of breaches, the gravest first: the blocks that the gravest are about, or else those that others are about."""
    main = [b for breach in breaches if breach.obligation == breaches[0].obligation for b in breach.blocks]
    return list(dict.fromkeys(main or [b for breach in breaches for b in breach.blocks]))
