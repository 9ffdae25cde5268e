"""What the proof needs: each hypothesis is left out in turn, and the first goal that opens is named.

`python -m proofs.dropping [--json FILE] [HYPOTHESIS...]`, in tests/, goes through all of them, the cheapest goals
first. A hypothesis without which every goal of every operation closes is superfluous: the exit status is 1, but for
those in `SPARE`, of which it is said why they stay.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kvproofs import sources, theory
from kvproofs.executor import Executor, Goal
from kvproofs.invariants import STRUCTURAL
from kvproofs.operation import hypotheses
from kvproofs.operations import OPERATIONS
from kvproofs.state import capture, symbolic_manager
from kvproofs.terms import apart
from kvproofs.theorems import DECLARED, EXECUTION
from kvspec.obligations import OBLIGATIONS

STAGES = (
    ("can_allocate", False), ("block_table", False), ("num_cached_tokens", False), ("slot", False),
    ("free", True), ("append", True), ("free", False), ("append", False), ("allocate", True), ("allocate", False),
)  # fmt: skip
"""The cheapest first. True: only the goals of the theorem of that name - does an invariant go without itself?"""

INVARIANTS = (*(o.id for o in OBLIGATIONS.values() if o.state), *STRUCTURAL)
GHOSTS = ("place finds what a table holds", "two holders are two")
CONTAINERS = (
    "stamps lie between low and high",
    "no two stamps are equal",
    "no count is negative",
    "what has a member has a count",
    "what has a count has a member",
)
HYPOTHESES = (
    *INVARIANTS,
    *(f"ghost: {name}" for name in GHOSTS),
    *(f"pool: {name}" for name in CONTAINERS),
    *(f"identity: {name}" for name in theory.IDENTITY),
    *(f"arithmetic: {name}" for name in theory.ARITHMETIC),
)

SPARE = {
    "I1": "it follows from the others (I4, I8, and how the manager counts); it stays, as kvspec states it",
    "arithmetic: 1 * s == s": "it follows from the products of 0 and of k + 1; it stays, to spare Z3 the instances",
}
"""Hypotheses that no proof needs, and why they stay. That they follow from the others is proved: see `follows`."""


@dataclass
class Without(Executor):
    """An executor that does not know one of the hypotheses of the state before, or one of the axioms."""

    dropped: str = ""
    only: str = ""  # the one theorem whose goals are put to Z3, if not all

    def _begin(self, forced: list[bool], todo: list[list[bool]]) -> None:
        super()._begin(forced, todo)
        self.met: list[str] = []
        self.left_out: list[Any] = []

    def assume(self, claim: Any, label: str = "") -> None:
        name = self._name_of(claim, label)
        self.met.append(name)
        if name == self.dropped:
            self.left_out.append(claim)
        else:
            super().assume(claim, label)

    def assume_axioms(self, kind: str, axioms: Mapping[str, Any]) -> None:
        self.met.extend(f"{kind}: {name}" for name in axioms)
        self.left_out.extend(claim for name, claim in axioms.items() if f"{kind}: {name}" == self.dropped)
        super().assume_axioms(kind, {n: c for n, c in axioms.items() if f"{kind}: {n}" != self.dropped})

    def prove(self, theorem: str, label: str, claim: Any, using: tuple[str, ...] = ()) -> bool:
        return True if self.only and theorem != self.only else super().prove(theorem, label, claim, using)

    def _name_of(self, claim: Any, label: str) -> str:
        """Which hypothesis it is; "" for what the path itself adds."""
        if label == "ghost":
            return f"ghost: {GHOSTS[sum(name.startswith('ghost') for name in self.met)]}"
        if label:
            return label if label.startswith("identity") else label.split()[0]
        for name, axiom in theory.ARITHMETIC.items():
            if claim.eq(axiom):
                return f"arithmetic: {name}"
        return ""


@dataclass(frozen=True)
class Dropped:
    """The first goal that is open without the hypothesis; none if everything closes."""

    hypothesis: str
    operation: str = ""
    theorem: str = ""
    goal: str = ""
    seconds: float = 0.0


def first_open(hypothesis: str, operation: str, theorem: str = "") -> Goal | None:
    """The first goal of an operation (of one theorem, if given) that is open without the hypothesis.

    Costs up to the proof of the operation.
    """
    executor = partial(Without, dropped=hypothesis, only=theorem)
    goals = OPERATIONS[operation](sources.manager_class(), {"executor": executor, "stop_at_open": True})
    return next((goal for goal in goals if not goal.proved), None)


def drop(names: Iterable[str], stages: Iterable[tuple[str, bool]] = STAGES) -> Iterator[Dropped]:
    """Where each hypothesis is needed first: stage by stage, those that are still to be found."""
    waiting = list(names)
    for operation, is_own in stages:
        for hypothesis in tuple(waiting):
            own = hypothesis if is_own else ""
            if own and own not in DECLARED[operation]:
                continue
            started = time.perf_counter()
            goal = first_open(hypothesis, operation, own)
            if goal is not None:
                waiting.remove(hypothesis)
                seconds = time.perf_counter() - started
                yield Dropped(hypothesis, operation, goal.theorem or EXECUTION, goal.label, seconds)
    yield from map(Dropped, waiting)


def follows(hypothesis: str) -> bool:
    """Whether a hypothesis follows from all others."""
    executor = Without([], dropped=hypothesis)

    def program() -> None:
        state = capture(symbolic_manager(sources.manager_class()))
        with apart():
            for label, claim in hypotheses(state):
                executor.assume(claim, label)

    (proved,) = (
        bool(executor.left_out) and all(executor.prove("", hypothesis, claim) for claim in executor.left_out)
        for _ in executor.paths(program)
    )
    return proved


def main(arguments: list[str]) -> int:
    target = None
    if arguments[:1] == ["--json"]:
        target, arguments = Path(arguments[1]), arguments[2:]
    rows: list[Dropped] = []
    print(f"{'without':<58} {'operation':<13} {'theorem':<10} first goal that opens")
    for row in drop(arguments or HYPOTHESES):
        what = row.goal or f"nothing opens. {SPARE.get(row.hypothesis, '')}"
        print(f"{row.hypothesis:<58} {row.operation:<13} {row.theorem:<10} {what}", flush=True)
        rows.append(row)
        if target is not None:
            target.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    return 1 if any(not row.goal and row.hypothesis not in SPARE for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
