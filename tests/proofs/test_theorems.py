"""Every theorem is declared and comes out; the lemmas hold; what they need is really needed."""

from __future__ import annotations

import pytest
import z3

from kvproofs import sources, theory
from kvproofs.lemmas import lemmas
from kvproofs.operations import OPERATIONS
from kvproofs.terms import EXTRA, SIZE, div
from kvproofs.theorems import DECLARED, theorems

FAST = ("free", "slot", "can_allocate", "num_cached_tokens", "block_table")
"""`python -m kvproofs` proves the others as well, which takes minutes."""


@pytest.mark.parametrize("operation", FAST)
def test_theorems_are_proved(operation: str) -> None:
    found = theorems(operation, OPERATIONS[operation](sources.manager_class(), {}))
    assert {t.name for t in found} == DECLARED[operation]
    assert [(t.name, t.open) for t in found if not t.proved] == []


def test_the_lemmas_hold() -> None:
    found = theorems("lemmas", lemmas())
    assert {t.name for t in found} == DECLARED["lemmas"]
    assert all(t.proved for t in found)


def test_a_declared_theorem_without_goals_is_not_proved() -> None:
    assert not any(t.proved for t in theorems("slot", []))


def open_lemmas(monkeypatch: pytest.MonkeyPatch, axioms: str, name: str, wrong: object) -> set[str]:
    monkeypatch.setitem(getattr(theory, axioms), name, wrong)
    monkeypatch.setattr("kvproofs.lemmas.RLIMIT", 300_000)
    return {goal.label for goal in lemmas() if not goal.proved}


def test_a_wrong_axiom_on_arithmetic_has_no_lemma(monkeypatch: pytest.MonkeyPatch) -> None:
    n, name = z3.Int("n"), "rounding up"
    wrong = z3.ForAll([n], div(n) + 1 == div(n + SIZE - 1))
    assert name in open_lemmas(monkeypatch, "ARITHMETIC", name, wrong)


def test_a_wrong_axiom_on_prefixes_has_no_lemma(monkeypatch: pytest.MonkeyPatch) -> None:
    a, x, k = z3.Const("a", theory.TOKENS), z3.Const("x", EXTRA), z3.Int("k")
    wrong = z3.ForAll([a, x, k], z3.Implies(k >= 0, theory.depth(theory.prefix(a, x, k)) == k + 1))
    name = "the depth of a prefix is its number of blocks"
    assert "the depth of a prefix: no block" in open_lemmas(monkeypatch, "IDENTITY", name, wrong)


def test_the_ghosts_need_what_is_proved_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproofs.lemmas.counted", lambda count, *_: count >= 0)
    monkeypatch.setattr("kvproofs.lemmas.RLIMIT", 300_000)
    assert "holders" in {goal.theorem for goal in lemmas() if not goal.proved}


def test_a_hash_that_collides_has_no_lemma() -> None:
    """Without "a key determines its parent and tokens" two chains of other tokens end in one key."""
    solver = z3.Solver()
    key, block = z3.DeclareSort("K"), z3.DeclareSort("B")
    hashed = z3.Function("hashed", key, block, key)
    none, t, u = z3.Const("none", key), z3.Const("t", block), z3.Const("u", block)
    solver.add(t != u, hashed(none, t) == hashed(none, u))
    assert solver.check() == z3.sat
