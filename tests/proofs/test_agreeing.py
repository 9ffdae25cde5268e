"""kvspec's own view and the symbolic one give one verdict. `python -m proofs.agreeing` (in tests/) asks more."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import z3

from kvproofs import sources
from kvproofs.backend import StateView
from kvproofs.executor import Executor
from kvproofs.invariants import STRUCTURAL, invariants
from kvproofs.state import State, capture, symbolic_manager
from kvproofs.terms import SEQ, Int, number
from kvspec.ledger import Ledger
from kvspec.obligations import OBLIGATIONS
from proofs.agreeing import cells_of, none_as_a_key, spoiled_states, tally, verdicts
from proofs.calls import reached, shown
from proofs.constants import Names, state_of, verdict_of_z3
from proofs.evaluating import Model
from proofs.standard import NOWHERE, content_of, domains, ghosts, state_constants, structure
from proofs.verdicts import READINGS, readings, state_verdicts

POOL = (2, 1, True)


def test_both_evaluators_give_one_verdict() -> None:
    rows = tally(verdicts(seed=1, per_pool=1, pools=(POOL, (2, 2, True))))
    assert [name for name, row in rows.items() if row.differ] == []
    of_states = {f"{o.id} {clause.__name__}" for o in OBLIGATIONS.values() for clause in o.state}
    of_steps = {
        f"{name}: {o.id} {clause.__name__}"
        for o in OBLIGATIONS.values()
        for name, clauses in o.steps.items()
        for clause in clauses
    }
    assert of_states | of_steps | set(READINGS) == set(rows)
    assert sum(row.both_false > 0 for row in rows.values()) > len(rows) // 2


def test_a_clause_that_is_read_wrongly_is_seen() -> None:
    class Wrong(StateView):
        def ref(self, b: Any) -> Int:
            return Int(super().ref(b).term + z3.If(number(b) == 0, 1, 0))

    place = next(reached(*POOL))
    assert any(v.python != v.z3 for v in state_verdicts(place.ledger, cells_of(place), Wrong))


def test_none_as_a_key_breaks_n4() -> None:
    verdict = none_as_a_key()
    assert (verdict.python, verdict.z3) == (False, False)


@pytest.mark.parametrize("field", ["next_slot", "end"])
def test_a_stale_field_breaks_n6(field: str) -> None:
    place = next(place for place in reached(*POOL) if place.ledger.sequences)
    names = Names()
    state, facts = state_of(place.ledger, cells_of(place), names)
    facts += names.facts(place.ledger.block_size)
    assert verdict_of_z3(STRUCTURAL["N6"](state), facts)
    stale = replace(state, **{field: z3.K(SEQ, z3.IntVal(-7))})
    assert verdict_of_z3(STRUCTURAL["N6"](stale), facts) is False


def symbolic_state() -> State:
    executor = Executor([])
    (outcome,) = executor.paths(lambda: capture(symbolic_manager(sources.manager_class())))
    assert isinstance(outcome.value, State)
    return outcome.value


def test_the_standard_structure_gives_the_same_verdicts() -> None:
    """`evaluating` and `standard`, on which the following of paths rests, against kvspec's own view and N1 - N6."""
    claims = invariants(StateView(symbolic_state()))
    rng = random.Random(4)
    verdicts_seen: set[tuple[str, bool]] = set()
    for place in rng.sample(list(reached(2, 2, True)), 12):
        for ledger, cells in [(place.ledger, cells_of(place)), *spoiled_states(rng, place)]:
            due = {name.split()[0]: said for name, said, _ in readings(ledger, cells)}
            model = model_of(ledger, cells)
            for name, claim in claims.items():
                found = bool(model(claim))
                assert found == due[name.split()[0]], (name, ledger)
                verdicts_seen.add((name, found))
    assert len(verdicts_seen) >= 2 * len(claims) - 4, sorted(verdicts_seen)


def model_of(ledger: Ledger, cells: Any) -> Model:
    seen, size = shown(ledger), ledger.block_size
    prefixes = {(slot // size, slot % size): prefix.prefix() for slot, prefix in cells.items()}
    memory = {at: content_of(tokens, (), len(tokens) - 1, size) for at, tokens in prefixes.items()}
    constants = {"block_size": size, "no_key": (), "nothing_beside": (), "no_parts": ()}
    return Model(
        constants | state_constants(seen, ledger.num_blocks, size, ledger.enable_prefix_cache),
        structure(size) | ghosts(seen, memory),
        domains(seen, ledger.num_blocks, size, (), (), NOWHERE),
    )
