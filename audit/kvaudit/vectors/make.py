"""Makes vectors: the specification plays each program, with its own choices."""

from __future__ import annotations

from kvaudit.programs import of_manager
from kvaudit.protocol import Allocate, Free, Mutation
from kvaudit.rulings import own_step
from kvaudit.scenario import Scenario
from kvaudit.transcript import due
from kvaudit.vectors.format import Reads, Vector, VectorStep
from kvspec.ledger import Ledger, empty_ledger
from kvspec.operations import OutOfBlocks, slot


def vector_of(name: str, about: str, scenario: Scenario) -> Vector:
    """The vector of a program. At its end everything is freed, and the whole pool is taken once."""
    pool = scenario.pool
    ledger = empty_ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
    steps: list[VectorStep] = []
    for operation in of_manager(scenario.program):
        ledger = _play(ledger, operation, steps)
    whole = (3,) * (pool.num_blocks * pool.block_size)
    ending: list[Mutation] = [Free(str(seq)) for seq in ledger.sequences]
    for operation in [*ending, Allocate("all", whole), Free("all")]:
        ledger = _play(ledger, operation, steps)
    return Vector(name, about, pool, tuple(steps))


def _play(ledger: Ledger, operation: Mutation, steps: list[VectorStep]) -> Ledger:
    answer = due(ledger, operation)
    try:
        ledger = own_step(ledger, operation).after
    except OutOfBlocks:
        assert answer.outcome == "refused"
    steps.append(VectorStep(operation, answer, _reads(ledger)))
    return ledger


def _reads(ledger: Ledger) -> Reads:
    return Reads(
        num_free_blocks=ledger.num_free_blocks,
        can_allocate=ledger.num_free_blocks * ledger.block_size,
        tables={str(seq): record.table for seq, record in ledger.sequences.items()},
        slots={
            str(seq): tuple(slot(ledger, seq, pos) for pos in range(len(record.tokens)))
            for seq, record in ledger.sequences.items()
        },
        num_cached_tokens={str(seq): record.num_cached_tokens for seq, record in ledger.sequences.items()},
    )
