"""The theorems by name, and their verdicts: operation x obligation, and the lemmas.

A theorem is proved if every goal that bears its name is, and every goal that the execution of its operation
raised: indices in range, divisors positive, loop invariants, facts on the way. `DECLARED` is the list that must
come out; a theorem that has no goal, or one that nobody declared, is an error like one that is not proved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvproofs.executor import Goal

_INVARIANTS = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "O5", "O9", "K1", "N1", "N2", "N3", "N4", "N5", "N6")

EXECUTION = "execution"
REFUTED = "refuted"  # the theorem is that something wrong is wrong

DECLARED: dict[str, frozenset[str]] = {
    "init": frozenset({*_INVARIANTS, "O10", "empty", "state"}),
    "check_tokens": frozenset({"O2", "O5", "O10", EXECUTION}),
    "allocate": frozenset({*_INVARIANTS, "O1", "O2", "O3", "O4", "O6", "O8", "O10", "O11", "K2", EXECUTION}),
    "append": frozenset({*_INVARIANTS, "O1", "O2", "O4", "O6", "O8", "O10", "K2", EXECUTION}),
    "append_slots": frozenset({"O1", "O2", "O10", EXECUTION}),
    "extend": frozenset({"O1", "O2", "O10", EXECUTION}),
    "free": frozenset({*_INVARIANTS, "O1", "O2", "O7", "O10", EXECUTION}),
    "slot": frozenset({"O5", "O10", "O11", EXECUTION}),
    "can_allocate": frozenset({"O3", "O10", "O11", EXECUTION}),
    "num_cached_tokens": frozenset({"O4", "O10", "O11", EXECUTION}),
    "block_table": frozenset({"O10", "O11", EXECUTION}),
    "unchecked allocate": frozenset({"O2", EXECUTION}),
    "naive allocate": frozenset({REFUTED}),
    "free all": frozenset({"I4", EXECUTION}),
    "encode": frozenset({"E", EXECUTION}),
    "sizing": frozenset({"fits", "full", "shares", "refused", "sums", EXECUTION}),
    "lemmas": frozenset({"arithmetic", "prefixes", "identities", "counting", "holders", "extras"}),
}


@dataclass(frozen=True)
class Theorem:
    """One row of the result."""

    operation: str
    name: str
    goals: int
    proved: bool
    seconds: float
    open: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """How it came out: what is to be refuted, is; what is to be proved, is; else it is open."""
        return "OPEN" if not self.proved else REFUTED if self.name == REFUTED else "proved"


def theorems(operation: str, goals: Iterable[Goal]) -> list[Theorem]:
    """The theorems of one operation, in order of their names; declared ones without a goal are not proved."""
    found: dict[str, list[Goal]] = {name: [] for name in sorted(DECLARED.get(operation, ()))}
    for goal in goals:
        found.setdefault(goal.theorem or EXECUTION, []).append(goal)
    sound = all(goal.proved for goal in found.get(EXECUTION, ()))
    declared = DECLARED.get(operation, frozenset())
    return [
        Theorem(
            operation,
            name,
            len(raised),
            sound and bool(raised) and name in declared and all(goal.proved for goal in raised),
            sum(goal.seconds for goal in raised),
            tuple(sorted({f"{goal.label}: {goal.reason}" for goal in raised if not goal.proved})),
        )
        for name, raised in found.items()
    ]
