"""The check of allocate: needed as it stands, and wrong where it counts idle hits as room."""

from __future__ import annotations

import itertools

import pytest

from kvblocks import BlockManager
from kvproofs import capacity, sources
from kvproofs.proving import prove
from kvproofs.removal import excludes_idle_hits, text_without
from kvproofs.theorems import DECLARED
from proofs.controls import QUICK


def test_the_naive_check_is_refuted() -> None:
    (theorem,) = prove("naive allocate")
    assert {theorem.name} == DECLARED["naive allocate"]
    assert theorem.verdict == "refuted"


def test_the_shipped_check_is_not() -> None:
    (goal,) = capacity.naive_check_is_refuted(BlockManager)
    assert not goal.proved


def test_the_counterexample_is_the_smallest() -> None:
    """Every smaller workload of that kind, run with the naive check, does not fail half-way."""
    smallest, naive = capacity.smallest_between(), capacity.naive()
    assert smallest == capacity.Workload(num_blocks=1, block_size=1, num_hits=1, num_tokens=2)
    for pool, size, tokens in itertools.product(range(1, 4), range(1, 4), range(1, 8)):
        for hits in range(1, min(pool, (tokens - 1) // size) + 1):
            fails = capacity.Workload(pool, size, hits, tokens).fails_half_way(naive)
            needed = -(-tokens // size) - hits
            assert fails == (pool - hits < needed <= pool)


def test_without_the_refusal_of_a_block_completing_implies_nothing() -> None:
    text, refusal = capacity.unchecked(), "raise OutOfBlocks('no block is free or evictable')"
    assert text.count(refusal) == 1
    cls = sources.class_of(text.replace(refusal, "return 0"))
    goals = list(capacity.necessity(cls, {**QUICK, "rlimit": 300_000}))
    assert not goals[-1].proved


def test_a_statement_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="0 such"):
        text_without(lambda statement: False)
    assert "available -= 1" not in text_without(excludes_idle_hits)
