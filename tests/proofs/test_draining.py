"""The end of I4: it follows from what is proved of `free`, and from nothing less."""

from __future__ import annotations

import pytest

from kvproofs import draining, sources
from kvproofs.lemmas import lemma
from kvproofs.proving import prove
from kvproofs.state import unknown_state
from kvproofs.theorems import DECLARED
from proofs.controls import QUICK


def test_all_freed_all_back() -> None:
    found = prove("free all")
    assert {t.name for t in found} == DECLARED["free all"]
    assert [t for t in found if not t.proved] == []


def test_a_free_that_loses_a_block_leaves_it_open() -> None:
    losing = sources.variant(("self._free.append(block)", "pass"))
    assert any(not goal.proved for goal in draining.drained(losing, QUICK))


@pytest.mark.parametrize("left_out", draining.NEEDED)
def test_each_invariant_is_needed(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproofs.lemmas.RLIMIT", 300_000)
    last = unknown_state("last")
    others = tuple(name for name in draining.NEEDED if name != left_out)
    assert not lemma("I4", *draining.end(last, others)).proved
