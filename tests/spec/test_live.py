"""A ledger that is written in place goes through the very states of the immutable one."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from kvspec import operations
from kvspec.ledger import Ledger, empty_ledger
from kvspec.live import live
from kvspec.operations import OutOfBlocks, Step
from kvspec.policy import SEED, Policy, Seed
from spec.walks import Stride, walk


class Inherits(Seed):
    """Where every copy can be hit, the next copy is mapped in place of an evicted one."""

    def heir(self, carriers: Iterable[int]) -> int | None:
        return next(iter(carriers), None)


def frozen(ledger: Ledger) -> Ledger:
    """A live ledger as it is now."""
    return empty_ledger(ledger.num_blocks, ledger.block_size, ledger.enable_prefix_cache)._replace(
        free=tuple(ledger.free),
        evictable=tuple(ledger.evictable),
        ref=tuple(ledger.ref),
        block_hash=tuple(ledger.block_hash),
        hash_to_block=dict(ledger.hash_to_block),
        sequences=dict(ledger.sequences),
    )


def again(ledger: Ledger, stride: Stride, policy: Policy) -> Step | None:
    """The operation of a stride on another ledger; None if it is refused."""
    try:
        if stride.operation == "allocate":
            return operations.allocate(ledger, stride.seq_id, stride.tokens, policy)
        if stride.operation == "append":
            return operations.append_slot(ledger, stride.seq_id, stride.tokens[0], policy)
        return operations.free(ledger, stride.seq_id)
    except OutOfBlocks:
        return None


@pytest.mark.parametrize("policy", [SEED, Inherits()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("seed", range(100))
def test_step_by_step(seed: int, policy: Policy) -> None:
    ledger = written = None
    for stride in walk(random.Random(seed), 60):
        if ledger is None or written is None:
            ledger, written = stride.before, live(stride.before)
        if stride.operation != "allocate" and stride.seq_id not in ledger.sequences:
            continue  # another policy has refused it
        due, step = again(ledger, stride, policy), again(written, stride, policy)
        if due is not None and step is not None:
            assert step.after is written
            assert (step.result, step.change) == (due.result, due.change)
            ledger = due.after
        assert (due is None) == (step is None)
        assert frozen(written) == ledger
        assert written.num_free_blocks == ledger.num_free_blocks
        for h in ledger.hash_to_block:
            assert list(written.carriers(h)) == list(ledger.carriers(h))
