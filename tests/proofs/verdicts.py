"""What the two evaluators say of each clause: kvspec's own on ledgers, and Z3 on the constants of the same ledgers.

N1 - N6 are not said in kvspec, so that they are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import z3

from kvaudit.protocol import Allocate, Append, Free, Mutation
from kvproofs import theory
from kvproofs.backend import StateView, Step, Symbolic
from kvproofs.invariants import STRUCTURAL
from kvproofs.state import State
from kvproofs.terms import Int, SeqTerm, lift
from kvspec.extra import Extra
from kvspec.identity import Identity, chain_from
from kvspec.ledger import Ledger
from kvspec.ledger import Sequence as Record
from kvspec.logic import Finite, LedgerView, Transition
from kvspec.obligations import OBLIGATIONS, StateClause
from proofs.constants import Cells, Names, cell_of, constant, read_off, state_of, tokens_array, verdict_of_z3


def _n1(ledger: Ledger, cells: Cells) -> bool:
    return all(record.tokens for record in ledger.sequences.values())


def _n2(ledger: Ledger, cells: Cells) -> bool:
    listed = [*ledger.free, *ledger.evictable, *(b for r in ledger.sequences.values() for b in r.table)]
    return all(0 <= b < ledger.num_blocks for b in listed)


def _n3(ledger: Ledger, cells: Cells) -> bool:
    def due(record: Record) -> tuple[Identity, ...]:
        chain = chain_from(None, record.tokens, ledger.block_size, record.extra)
        return tuple(chain) if ledger.enable_prefix_cache else ()

    return all(record.chain == due(record) for record in ledger.sequences.values())


def _n4(ledger: Ledger, cells: Cells) -> bool:
    return None not in set[Any](ledger.hash_to_block)


def _n5(ledger: Ledger, cells: Cells) -> bool:
    size = ledger.block_size
    return all(
        cells.get(b * size + offset) is cell_of(h, offset, size)
        for b, h in enumerate(ledger.block_hash)
        if h is not None
        for offset in range(size)
    )


def _n6(ledger: Ledger, cells: Cells) -> bool:
    """A ledger has no field that follows from others, and `constants` makes them as a record does."""
    return True


READINGS: dict[str, Callable[[Ledger, Cells], bool]] = {
    "N1": _n1, "N2": _n2, "N3": _n3, "N4": _n4, "N5": _n5, "N6": _n6,
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What the two evaluators say of one clause."""

    clause: str
    python: bool
    z3: bool | None


def state_verdicts(ledger: Ledger, cells: Cells, symbolic: Callable[[State], Any] = StateView) -> Iterator[Verdict]:
    """Of every clause over one state. `symbolic`: the view that is compared."""
    names = Names()
    state, facts = state_of(ledger, cells, names)
    view, logic = symbolic(state), Symbolic(state.num_blocks)
    b = z3.Int("b")
    facts += [*names.facts(ledger.block_size), z3.ForAll([b], theory.about(b), patterns=[theory.about(b)])]
    claims = {clause: lift(clause(logic, view)) for o in OBLIGATIONS.values() for clause in o.state}
    for name, said, claim in readings(ledger, cells):
        yield Verdict(name, said, verdict_of_z3(claims[claim] if claim else STRUCTURAL[name](state), facts))


def readings(ledger: Ledger, cells: Cells) -> Iterator[tuple[str, bool, StateClause | None]]:
    """What holds of a state as kvspec reads it, and N1 - N6 as they are read here."""
    real, finite = LedgerView(ledger, memory=cells.get), Finite(ledger)
    for obligation in OBLIGATIONS.values():
        for clause in obligation.state:
            yield f"{obligation.id} {clause.__name__}", clause(finite, real), clause
    for name, reading in READINGS.items():
        yield name, reading(ledger, cells), None


@dataclass(frozen=True)
class Stride:
    """One operation: what there was, what came out, and what was answered."""

    op: Mutation
    before: Ledger
    after: Ledger
    refused: bool
    result: tuple[int, ...] | int | None

    @property
    def operation(self) -> str:
        return {Allocate: "allocate", Append: "append", Free: "free"}[type(self.op)]

    @property
    def extra(self) -> Extra:
        """What was given beside the prompt."""
        return self.op.extra.items if isinstance(self.op, Allocate) else ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """What was given: the prompt, or the one token."""
        if isinstance(self.op, Free):
            return ()
        return self.op.tokens if isinstance(self.op, Allocate) else (self.op.token,)


def step_verdicts(stride: Stride) -> Iterator[Verdict]:
    """Of every clause over an operation; of a refused one, of O1 and O2."""
    names = Names()
    before, facts = state_of(stride.before, {}, names)
    after, more = state_of(stride.after, {}, names)
    seq, tokens, size = names.sequence(stride.op.seq), stride.tokens, stride.before.block_size
    prompt = tokens_array(tokens)
    facts += [*more, *read_off(tokens, prompt, names, size, stride.extra)]
    result = stride.result
    real = Transition(
        LedgerView(stride.before), LedgerView(stride.after), stride.op.seq, tokens,
        extra=stride.extra, refused=stride.refused, result=result,
    )  # fmt: skip
    listed = result if isinstance(result, tuple) else ()
    symbolic: Any = Step(
        StateView(before), StateView(after), SeqTerm(seq), (prompt, constant(len(tokens))),
        extra=names.extra(stride.extra),
        refused=stride.refused,
        slot=Int(constant(result)) if isinstance(result, int) else None,
        result=(tokens_array(listed), constant(len(listed))),
        run=constant(real.run_of_hits), idle=constant(real.idle_in_run),
    )  # fmt: skip
    finite, logic = Finite(stride.before, stride.after), Symbolic(before.num_blocks)
    facts += names.facts(size)
    for obligation in OBLIGATIONS.values():
        if stride.refused and obligation.id not in ("O1", "O2"):
            continue
        for clause in obligation.steps[stride.operation]:
            name = f"{stride.operation}: {obligation.id} {clause.__name__}"
            yield Verdict(name, clause(finite, real), verdict_of_z3(lift(clause(logic, symbolic)), facts))
