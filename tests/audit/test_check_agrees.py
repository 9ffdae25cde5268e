"""A check of what was written down says what the oracle says who was there: at the same step, the same names."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import pytest

from audit.auditing import target_of
from kvaudit.check import check_trace
from kvaudit.levels import play
from kvaudit.profiles import SEED
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, TraceHeader, TraceReader, write_trace
from kvblocks import BlockManager, OutOfBlocks
from spec.walks import walk


def liar(kind: str, at: int) -> type[BlockManager]:
    """A right manager, one of whose answers is not true."""

    class Liar(BlockManager):
        calls = 0

        def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
            self.calls += 1
            lies = self.calls >= at
            if kind == "refusal" and lies:
                raise OutOfBlocks
            table = super().allocate(seq_id, token_ids, **extra)
            if kind == "cached" and lies:
                self._sequences[seq_id].cached += self.block_size  # from the start: a trace does not say it again
            if kind == "order" and lies:
                return table[::-1]
            if kind == "block" and lies:
                return [*table[:-1], (table[-1] + 1) % self.num_blocks]
            return [*table, 0] if kind == "length" and lies else table

        def append_slot(self, seq_id: Hashable, token_id: int) -> int:
            slot = super().append_slot(seq_id, token_id)
            self.calls += 1
            if kind == "other block" and self.calls >= at:
                return (slot + self.block_size) % (self.num_blocks * self.block_size)
            return slot + 1 if kind == "slot" and self.calls >= at else slot

        @property
        def num_free_blocks(self) -> int:
            return super().num_free_blocks + (kind == "free count" and self.calls >= at)

    return Liar


def program(seed: int) -> Scenario:
    strides = list(walk(random.Random(seed), 40))
    first, operations = strides[0].before, list[Mutation]()
    for stride in strides:
        seq = str(stride.seq_id)
        if stride.operation == "allocate":
            operations.append(Allocate(seq, stride.tokens))
        else:
            operations.append(Append(seq, stride.tokens[0]) if stride.operation == "append" else Free(seq))
    return Scenario(Pool(first.num_blocks, first.block_size, first.enable_prefix_cache), tuple(operations))


KINDS = ("refusal", "order", "block", "length", "other block", "slot", "cached", "free count", "nothing")


@pytest.mark.parametrize("kind", KINDS)
def test_they_agree(kind: str, tmp_path: Path) -> None:
    seen = 0
    for seed in range(60):
        scenario, cls = program(seed), liar(kind, at=1 + seed % 9)
        target = target_of(cls, black_box=True)
        target.capabilities -= {"block_table", "slot", "can_allocate"}  # a trace has no reads
        execution = play(target, scenario, SEED)
        write_trace(tmp_path / "t", TraceHeader(FORMAT, scenario.pool, "", "seed"), execution.transcript())
        with TraceReader(tmp_path / "t") as reader:
            departure = check_trace(reader, SEED, lambda operations, done: None).departure
        names: Any = {breach.obligation for breach in execution.breaches}
        assert names == ({departure.obligation, *departure.also} if departure is not None else set()), (seed, departure)
        assert departure is None or departure.step == len(execution.played)
        seen += departure is not None
    assert (seen == 0) is (kind == "nothing")
