"""`kvaudit.record`: what is called is what is written, and the server goes on whatever becomes of the file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kvaudit
from audit.miniatures import Good
from kvaudit.check import check_trace
from kvaudit.errors import TargetError, UsageError
from kvaudit.profiles import PROFILES
from kvaudit.report import CONFORMS
from kvaudit.trace import TraceReader, read_lines
from kvblocks import BlockManager, InvalidArgument, OutOfBlocks, SequenceExists, UnknownSequence

SIZES: dict[str, Any] = {"num_blocks": 3, "block_size": 2, "enable_prefix_cache": True}


class NoRoom(Exception):
    """A refusal under another name."""


class Plain(Good):
    """No attribute tells its sizes, and num_free_blocks is a method."""

    def allocate(self, seq_id: str, token_ids: Sequence[int]) -> Any:
        try:
            return super().allocate(seq_id, token_ids)
        except OutOfBlocks:
            raise NoRoom from None


def serve(manager: Any, refusal: type[Exception]) -> None:
    assert manager.allocate("a", iter([1, 2, 3])) == [0, 1]
    assert manager.append_slot("a", 4) == 3
    with pytest.raises(refusal):
        manager.allocate("b", [5, 6, 7])
    for method, args in (("free", ("b",)), ("allocate", ("a", [1])), ("append_slot", ("a", -1))):
        with pytest.raises((UnknownSequence, SequenceExists, InvalidArgument)):
            getattr(manager, method)(*args)
    manager.free("a")


@pytest.mark.parametrize("given", [NoRoom, "NoRoom"])
def test_a_manager_of_any_make_is_recorded(given: Any, tmp_path: Path) -> None:
    path = tmp_path / "in" / "trace.jsonl"
    with kvaudit.record(Plain(3, 2), path, refusals=[given], **SIZES) as manager:
        serve(manager, NoRoom)
        assert manager.block_table is not None  # its own
        assert len(path.read_text().splitlines()) == 5  # written at once: a server may die
    manager.allocate("c", [1])  # not recorded any more
    header, lines = read_lines(path)
    assert header.refusals == ("NoRoom",)
    outcomes = [line.came.outcome for line in lines if line.came]
    assert outcomes == ["completed", "completed", "refused", "completed"]  # a caller's mistake is no step


def test_what_is_recorded_of_a_right_manager_conforms(tmp_path: Path) -> None:
    with kvaudit.record(BlockManager(3, 2), tmp_path / "t", profile="strict") as manager:
        live: list[str] = []
        for i in range(200):
            try:
                manager.allocate(str(i), [i % 3, 1, i % 2])
                live.append(str(i))
                manager.append_slot(str(i), 5)
            except OutOfBlocks:
                manager.free(live.pop(0))
    with TraceReader(tmp_path / "t") as reader:
        result = check_trace(reader, PROFILES["strict"], lambda operations, done: None)
    assert result.exit_code == CONFORMS and result.met["refused"]


def test_mistakes_are_told(tmp_path: Path) -> None:
    used = BlockManager(3, 2)
    used.allocate("a", [1])
    tried: list[tuple[Any, str, dict[str, Any], str]] = [
        (used, "t", {}, "before its first operation, and here 2 of 3 blocks are free"),
        (Plain(3, 2), "t", {}, "Plain has no attribute num_blocks, block_size, enable_prefix_cache"),
        (BlockManager(3, 2), "t", {"profile": "mine"}, "no profile 'mine'"),
        (BlockManager(3, 2), ".", {}, "cannot be written: Is a directory"),
    ]
    for manager, path, options, says in tried:
        with pytest.raises(UsageError, match=says):
            kvaudit.record(manager, tmp_path / path, **options)
    with pytest.raises(TargetError, match="lacks allocate"):
        kvaudit.record(object(), tmp_path / "t", **SIZES)


def test_a_full_disk_ends_the_recording_and_not_the_server() -> None:
    with pytest.warns(RuntimeWarning, match="nothing is recorded any more: .*No space left"):
        manager = kvaudit.record(BlockManager(3, 2), "/dev/full")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serve(manager, OutOfBlocks)


def test_after_an_interrupt_nothing_is_recorded(tmp_path: Path) -> None:
    class Interrupted(BlockManager):
        def free(self, seq_id: Any) -> None:
            super().free(seq_id)
            raise KeyboardInterrupt

    manager = kvaudit.record(Interrupted(3, 2), tmp_path / "t")
    manager.allocate("a", [1])
    with pytest.raises(KeyboardInterrupt):
        manager.free("a")
    manager.allocate("a", [1])
    assert len(read_lines(tmp_path / "t")[1]) == 1


def test_appends_in_one_call_are_written_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with kvaudit.record(BlockManager(3, 2), path) as manager:
        manager.allocate("a", [1, 2, 3])
        manager.allocate("b", [4])
        assert manager.append_slots(iter(["a", "b"]), [5, 6]) == [3, 5]
        with pytest.raises(OutOfBlocks):
            manager.append_slots(["a", "b"], [7, 8])
        with pytest.raises(UnknownSequence):
            manager.extend("nobody", [7])
        manager.free("b")
        assert manager.extend("a", [7, 8]) == [4, 5]
    assert [getattr(line.operation, "seq", "") for line in read_lines(path)[1]] == ["a", "b", "a", "b", "b", "a", "a"]
    with TraceReader(path) as reader:
        result = check_trace(reader, PROFILES["strict"], lambda operations, done: None)
    assert result.exit_code == CONFORMS


class AnswersNothing(BlockManager):
    def extend(self, seq_id: Any, token_ids: Any) -> Any:
        super().extend(seq_id, token_ids)


def test_a_batch_without_answers_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with kvaudit.record(AnswersNothing(3, 2), path) as manager:
        manager.allocate("a", [1])
        with pytest.warns(RuntimeWarning, match="extend is to answer 2 slots, not None"):
            manager.extend("a", [2, 3])
    assert len(read_lines(path)[1]) == 1
