"""The end of I4: whoever frees all live sequences, in any order, has all blocks back.

Induction over the number of live sequences. It rests on what is proved of `free`: a live sequence can be freed, and
the state after it keeps every invariant. Here, of kvspec's very clauses:
- step: a free leaves the live sequences but one, so that each of the others can still be freed;
- end: a state that keeps the invariants and has no live sequence has every block back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import z3

from kvproofs.backend import StateView, Step, Symbolic
from kvproofs.executor import Goal
from kvproofs.free import free
from kvproofs.invariants import invariants
from kvproofs.lemmas import lemma
from kvproofs.operation import SEQ_ID
from kvproofs.state import State, unknown_state
from kvproofs.terms import INT, SEQ, SeqTerm, lift
from kvspec.obligations import OBLIGATIONS

NEEDED = ("I4", "I8")
"""The invariants from which the end follows."""


def drained(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """Every goal of `free`, then the step and the end."""
    for goal in free(cls, options):
        yield replace(goal, theorem="")
    yield lemma("I4", *_step(unknown_state("before"), unknown_state("after")))
    yield lemma("I4", *end(unknown_state("last"), NEEDED))


def _step(before: State, after: State) -> tuple[str, list[Any], Any]:
    prompt = (z3.K(INT, z3.IntVal(-1)), z3.IntVal(0))
    step: Any = Step(StateView(before), StateView(after), SeqTerm(SEQ_ID), prompt)
    known = [lift(clause(Symbolic(before.num_blocks), step)) for clause in OBLIGATIONS["O7"].steps["free"]]
    q = z3.Const("q", SEQ)
    claim = z3.ForAll([q], after.live(q) == z3.And(before.live(q), q != SEQ_ID))
    return "a free leaves the live sequences but one", known, claim


def end(last: State, needed: tuple[str, ...]) -> tuple[str, list[Any], Any]:
    """needed: the invariants to use."""
    q, b = z3.Const("q", SEQ), z3.Int("b")
    keeps = [claim for name, claim in invariants(StateView(last)).items() if name.split()[0] in needed]
    none_live = z3.ForAll([q], z3.Not(last.live(q)))
    counting = [
        z3.Implies(none_live, z3.ForAll([b], last.held(b) == 0)),
        z3.Implies(
            z3.ForAll([b], z3.Implies(z3.And(0 <= b, b < last.num_blocks), last.ref[b] <= 0)), last.ref_positive == 0
        ),
    ]
    return (
        "no live sequence: all blocks are back",
        [*keeps, *counting, none_live],
        last.num_free_blocks == last.num_blocks,
    )
