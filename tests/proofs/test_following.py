"""Concrete calls follow the symbolic paths, and a proof that says something wrong of them is seen.

`python -m proofs.witnesses` (in tests/) does this for every operation, which takes minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import z3

from kvproofs import containers, free, operation
from kvproofs.state import State
from proofs.calls import Call, Place, reached
from proofs.replaying import follow
from proofs.witnesses import witnesses

POOL = (2, 1, True)


@pytest.mark.parametrize("name", ["free", "slot", "can_allocate", "num_cached_tokens", "block_table"])
def test_each_path_is_followed_by_a_call(name: str) -> None:
    found = witnesses(name, (POOL, (2, 2, True)))
    assert found.unmet == [] and found.wrong == []
    assert found.facts >= 80 and found.goals >= 5


@pytest.fixture
def shared() -> Place:
    """Two live sequences, of which each call of `free` meets both pools."""
    return next(p for p in reached(*POOL) if len(p.ledger.sequences) == 2 and p.ledger.hash_to_block)


def test_a_call_is_followed(shared: Place) -> None:
    assert follow(shared, Call("free", "a")).wrong == []


def test_an_unsatisfiable_hypothesis_is_seen(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypothesis under which anything can be proved: it is true of no state."""
    hypotheses = operation.hypotheses

    def contradictory(state: State) -> Iterator[tuple[str, Any]]:
        yield from hypotheses(state)
        yield "planted", z3.And(state.num_blocks >= 1, state.num_free_blocks == -1)

    monkeypatch.setattr(operation, "hypotheses", contradictory)
    assert any("fact planted" in text for text in follow(shared, Call("free", "a")).wrong)


def test_a_wrong_model_of_a_container_is_seen(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put into an ordered dict goes to its begin: the state after `free` is then another one."""
    monkeypatch.setattr(containers.OrderedKeys, "_insert_last", containers.Ordered._insert_first)
    free_twice = next(p for p in reached(*POOL) if p.ledger.evictable and p.ledger.sequences)
    wrong = follow(free_twice, Call("free", str(*free_twice.ledger.sequences))).wrong
    assert any("the state after it" in text for text in wrong)


def test_a_wrong_loop_invariant_is_seen(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = free.release_loop

    def too_strong(before: State, manager: Any, loop: Any, local: dict[str, Any]) -> dict[str, Any]:
        return {**rule(before, manager, loop, local), "planted": loop.i == 0}

    monkeypatch.setattr(free, "release_loop", too_strong)
    assert any("planted is kept" in text for text in follow(shared, Call("free", "a")).wrong)
