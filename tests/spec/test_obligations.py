"""The obligations describe the specification: they hold on it, and they leave it no other way to behave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kvspec.ledger import Ledger
from kvspec.logic import Finite, LedgerView, Transition
from kvspec.obligations import OBLIGATIONS, broken_by_state, broken_by_step
from spec.corruptions import corruptions
from spec.walks import Stride, walk

WITHOUT_LEDGER_CLAUSES = {"O3", "O10", "O11"}  # answers of reads, and misuse: tests/spec/test_reads.py, tests/audit
MEMORY = {"K1"}  # speaks of the memory beside the ledger


def broken(stride: Stride, after: Ledger, *, result: tuple[int, ...] | int | None = None) -> set[str]:
    logic = Finite(stride.before, after)
    x = Transition(
        LedgerView(stride.before),
        LedgerView(after),
        stride.seq_id,
        stride.tokens,
        refused=stride.refused,
        result=stride.result if result is None else result,
    )
    found = set(broken_by_step(stride.operation, logic, x)) | set(broken_by_state(logic, x.after))
    return found - MEMORY


def strides(seed: int, walks: int, steps: int) -> Iterator[Stride]:
    rng = random.Random(seed)
    for _ in range(walks):
        yield from walk(rng, steps)


def test_every_transition_of_the_specification_meets_every_obligation() -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for stride in strides(seed=1, walks=150, steps=30):
        assert broken(stride, stride.after) == set(), stride
        seen[stride.operation, stride.refused] += 1
    assert min(seen[kind] for kind in [("allocate", False), ("allocate", True), ("append", True)]) > 50, seen


def test_the_postconditions_leave_no_freedom() -> None:
    """Frames included: any one wrong entry in the state after an operation breaks some obligation."""
    rng = random.Random(2)
    named: Counter[str] = Counter()
    tried = 0
    for stride in strides(seed=3, walks=60, steps=14):
        for what, after in corruptions(rng, stride.after):
            if after == stride.after:
                continue
            tried += 1
            found = broken(stride, after)
            assert found, (what, stride, after)
            named.update(found)
    assert tried > 5_000
    can_fail = set(OBLIGATIONS) - WITHOUT_LEDGER_CLAUSES - MEMORY - {"O2", "O9"}
    assert can_fail <= set(named), can_fail - set(named)


def test_a_wrong_answer_breaks_the_table_rule() -> None:
    for stride in strides(seed=4, walks=20, steps=10):
        if isinstance(stride.result, tuple):
            assert "O5" in broken(stride, stride.after, result=(*stride.result, 0))
        elif stride.result is not None:
            assert "O5" in broken(stride, stride.after, result=stride.result + 1)


def test_refusing_what_fits_and_completing_what_does_not() -> None:
    checked = 0
    for stride in strides(seed=5, walks=60, steps=14):
        if stride.refused or stride.operation == "free":
            continue
        refused = replace(stride, refused=True, after=stride.before)
        assert broken(refused, stride.before) == {"O2"}
        checked += 1
    assert checked > 100
