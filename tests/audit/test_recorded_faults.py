"""Recorded traces written by hand: of each fault a right twin, which differs in the last answer only.

The check tells them apart by what was answered, and kvblocks answers as the twin does.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from audit.auditing import target_of
from kvaudit.check import check_trace
from kvaudit.checked import Checked
from kvaudit.levels import play
from kvaudit.profiles import SEED
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, Answer, TraceHeader, TraceLine, TraceReader, write_trace
from kvblocks import BlockManager

Line = tuple[Mutation, Answer]


def got(seq: str, tokens: list[int], table: list[int], cached: int, free: int) -> Line:
    return Allocate(seq, tuple(tokens)), Answer("completed", tuple(table), None, cached, free)


def more(seq: str, token: int, slot: int, free: int) -> Line:
    return Append(seq, token), Answer("completed", slot=slot, num_free_blocks=free)


def gone(seq: str, free: int) -> Line:
    return Free(seq), Answer("completed", num_free_blocks=free)


def refused(operation: Mutation, free: int) -> Line:
    return operation, Answer("refused", num_free_blocks=free)


class Fault(NamedTuple):
    """before: what was right. right, wrong: what came then, and what should not have. name: what that breaks."""

    pool: Pool
    before: list[Line]
    right: Line
    wrong: Line
    name: str


TWO = Allocate("b", (0, 1))
FAULTS = {
    "a hit of what was evicted": Fault(
        Pool(2, 1),
        [got("a", [0], [0], 0, 1), gone("a", 2), got("a", [1, 0], [1, 0], 0, 0), gone("a", 2)],
        got("a", [0, 0], [0, 1], 0, 0),
        got("a", [0, 0], [0, 1], 1, 0),
        "K1",
    ),
    "a hit of the whole prompt": Fault(
        Pool(3, 1),
        [got("a", [5, 6], [0, 1], 0, 1)],
        got("b", [5, 6], [0, 2], 1, 0),
        got("b", [5, 6], [0, 1], 2, 1),
        "I5",
    ),
    "a partial block is shared": Fault(
        Pool(3, 2),
        [got("a", [1, 2, 3], [0, 1], 0, 1)],
        got("b", [1, 2, 3], [0, 2], 2, 0),
        got("b", [1, 2, 3], [0, 1], 2, 1),
        "I8",
    ),
    "a hit behind a miss": Fault(
        Pool(4, 1),
        [got("a", [1, 2, 3], [0, 1, 2], 0, 1), gone("a", 4), got("b", [9, 9], [3, 2], 0, 2), gone("b", 4)],
        got("c", [1, 2, 3, 4], [0, 1, 2, 3], 2, 0),
        got("c", [1, 2, 3, 4], [0, 1, 2, 3], 3, 0),
        "K1",
    ),
    "a miss of what is cached": Fault(
        Pool(3, 1),
        [got("a", [1], [0], 0, 2), gone("a", 3)],
        got("b", [1, 2], [0, 1], 1, 1),
        got("b", [1, 2], [1, 2], 0, 1),
        "O4",
    ),
    "a hit that is not counted": Fault(
        Pool(3, 1),
        [got("a", [1], [0], 0, 2), gone("a", 3)],
        got("b", [1, 2], [0, 1], 1, 1),
        got("b", [1, 2], [0, 1], 0, 1),
        "O4",
    ),
    "an idle hit is counted as room": Fault(
        Pool(1, 1), [got("a", [0], [0], 0, 0), gone("a", 1)], refused(TWO, 1), got("b", [0, 1], [0, 0], 1, 0), "O2"
    ),
    "a refusal of what fits": Fault(
        Pool(2, 1), [got("a", [0], [0], 0, 1), gone("a", 2)], got("b", [0, 1], [0, 1], 1, 0), refused(TWO, 2), "O2"
    ),
    "a refusal that keeps a block": Fault(
        Pool(2, 1), [got("a", [7], [0], 0, 1)], refused(TWO, 1), refused(TWO, 0), "O1"
    ),
    "the first block of a prefix is evicted first": Fault(
        Pool(2, 1),
        [got("a", [1, 2], [0, 1], 0, 0), gone("a", 2)],
        got("b", [7], [1], 0, 1),
        got("b", [7], [0], 0, 1),
        "O6",
    ),
    "a cached block is evicted before a free one": Fault(
        Pool(2, 1), [got("a", [1], [0], 0, 1), gone("a", 2)], got("b", [7], [1], 0, 1), got("b", [7], [0], 0, 1), "O6"
    ),
    "the newer of two copies is hit": Fault(
        Pool(4, 1),
        [got("a", [1], [0], 0, 3), got("b", [1], [1], 0, 2)],
        got("c", [1, 2], [0, 2], 1, 1),
        got("c", [1, 2], [1, 2], 1, 1),
        "O4",
    ),
    "an append takes a block in use": Fault(
        Pool(3, 1), [got("a", [1], [0], 0, 2), got("b", [2], [1], 0, 1)], more("a", 3, 2, 0), more("a", 3, 1, 0), "K2"
    ),
    "an append goes to another slot": Fault(
        Pool(2, 4), [got("a", [1, 2], [0], 0, 1)], more("a", 3, 2, 1), more("a", 3, 3, 1), "O5"
    ),
    "a block that was filled by append is not found again": Fault(
        Pool(3, 2),
        [got("a", [1], [0], 0, 2), more("a", 2, 1, 2), gone("a", 3)],
        got("b", [1, 2, 3], [0, 1], 2, 1),
        got("b", [1, 2, 3], [1, 2], 0, 1),
        "O4",
    ),
    "a block is shared with the prefix cache off": Fault(
        Pool(3, 1, False),
        [got("a", [1], [0], 0, 2)],
        got("b", [1, 2], [1, 2], 0, 0),
        got("b", [1, 2], [0, 1], 0, 1),
        "O9",
    ),
    "a block is not given back": Fault(Pool(2, 1), [got("a", [1, 2], [0, 1], 0, 0)], gone("a", 2), gone("a", 1), "I4"),
    "the count of an earlier life": Fault(
        Pool(3, 1),
        [got("x", [1], [0], 0, 2), got("a", [1, 2], [0, 1], 1, 1), gone("a", 2)],
        got("a", [9], [2], 0, 1),
        got("a", [9], [2], 1, 1),
        "I5",
    ),
}


def checked(fault: Fault, last: Line, folder: Path) -> Checked:
    lines = [TraceLine(step, op, came=came) for step, (op, came) in enumerate([*fault.before, last], start=1)]
    write_trace(folder / "t.jsonl", TraceHeader(FORMAT, fault.pool, "", "seed"), lines)
    with TraceReader(folder / "t.jsonl") as reader:
        return check_trace(reader, SEED, lambda operations, done: None)


@pytest.mark.parametrize("name", FAULTS)
def test_is_told_from_its_twin(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    assert checked(fault, fault.right, tmp_path).exit_code == CONFORMS
    result = checked(fault, fault.wrong, tmp_path)
    assert result.exit_code == VIOLATION
    assert result.departure is not None and result.departure.step == len(fault.before) + 1
    assert fault.name in (result.departure.obligation, *result.departure.also)


@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_is_what_a_right_manager_answers(name: str) -> None:
    fault = FAULTS[name]
    lines = [*fault.before, fault.right]
    execution = play(target_of(BlockManager), Scenario(fault.pool, tuple(op for op, _ in lines)), SEED)
    assert not execution.breaches
    for line, (_, came) in zip(execution.transcript(), lines, strict=True):
        assert line.came is not None and msgspec.structs.replace(line.came, error="") == came


def test_a_fault_that_was_not_written_down_is_no_pass(tmp_path: Path) -> None:
    """Where one allocate does not say what was cached, K1 cannot be told."""
    fault = FAULTS["a hit of what was evicted"]
    operation, came = fault.wrong
    result = checked(fault, (operation, msgspec.structs.replace(came, num_cached_tokens=None)), tmp_path)
    assert result.departure is None and result.exit_code == INCONCLUSIVE
    assert result.not_observable["K1"] == "only 2 of 3 allocates give num_cached_tokens"
