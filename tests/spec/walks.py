"""Random legal walks over the specification, on tiny pools, as tests need them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from kvspec import operations
from kvspec.ledger import Ledger, SeqId, empty_ledger


@dataclass(frozen=True)
class Stride:
    """One operation of a walk. `result` is None for a free and for a refusal."""

    operation: str
    before: Ledger
    after: Ledger
    seq_id: SeqId
    tokens: tuple[int, ...]
    refused: bool
    result: tuple[int, ...] | int | None


def walk(rng: random.Random, steps: int) -> Iterator[Stride]:
    """A pool of 1-5 blocks of 1-3 tokens, two symbols, prompts that share prefixes."""
    size = rng.randint(1, 3)
    ledger = empty_ledger(rng.randint(1, 5), size, rng.random() < 0.85)
    for number in range(steps):
        live = list(ledger.sequences)
        operation = rng.choice(["allocate", "allocate", "append", "append", "free"]) if live else "allocate"
        seq_id: SeqId = f"s{number}" if operation == "allocate" else rng.choice(live)
        token = rng.choice([0, 1])
        tokens: tuple[int, ...] = ()
        if operation == "allocate":
            tokens = tuple(rng.choices([0, 1], [4, 1], k=rng.randint(1, ledger.num_blocks * size + 1)))
        elif operation == "append":
            tokens = (token,)
        try:
            if operation == "allocate":
                step = operations.allocate(ledger, seq_id, tokens)
            elif operation == "append":
                step = operations.append_slot(ledger, seq_id, token)
            else:
                step = operations.free(ledger, seq_id)
        except operations.OutOfBlocks:
            yield Stride(operation, ledger, ledger, seq_id, tokens, True, None)
        else:
            yield Stride(operation, ledger, step.after, seq_id, tokens, False, step.result)
            ledger = step.after
