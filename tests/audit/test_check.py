"""A recorded trace is held to the specification without its system: what is right passes, what is wrong is placed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import kvaudit, target_of
from audit.big_trace import lines as of_a_server
from kvaudit.check import check_trace
from kvaudit.checked import Checked
from kvaudit.departure import FEW_BLOCKS
from kvaudit.errors import UsageError
from kvaudit.goals import GOALS
from kvaudit.levels import play
from kvaudit.outcomes import as_text
from kvaudit.pictures.grid import grid_of_departure
from kvaudit.pictures.terminal import drawn
from kvaudit.profiles import PROFILES, SEED, STRICT, VLLM
from kvaudit.protocol import MANAGER, Allocate, Append, Free, Pool, Program
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvaudit.saved_ledger import saved_ledger
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, Answer, TraceHeader, TraceLine, TraceReader, features_of, write_trace
from kvblocks import BlockManager
from second.manager import LifoManager, SecondManager

SERVED = Pool(600, 16)


def checked(folder: Path, header: TraceHeader, lines: list[TraceLine], profile: str = "strict") -> Checked:
    write_trace(folder / "trace.jsonl", header, lines)
    with TraceReader(folder / "trace.jsonl") as reader:
        return check_trace(reader, PROFILES[profile], lambda operations, done: None)


def recorded(pool: Pool, program: Program, cls: type = BlockManager) -> list[TraceLine]:
    """What a manager answers."""
    execution = play(target_of(cls, black_box=True), Scenario(pool, program), SEED)
    assert not execution.breaches
    return [msgspec.structs.replace(line, expected=None) for line in execution.transcript()]


def without(lines: list[TraceLine], *fields: str) -> list[TraceLine]:
    """The same, with less written down."""

    def less(answer: Answer | None) -> Answer | None:
        return msgspec.structs.replace(answer, **dict.fromkeys(fields)) if answer is not None else None

    return [msgspec.structs.replace(line, came=less(line.came)) for line in lines]


HEADER = TraceHeader(FORMAT, SERVED, "a server", "strict")


@pytest.fixture(scope="module")
def served() -> list[TraceLine]:
    return list(of_a_server(SERVED, 4_000))


def test_a_server_that_is_right(served: list[TraceLine], tmp_path: Path) -> None:
    result = checked(tmp_path, HEADER, served)
    assert (result.exit_code, result.operations) == (CONFORMS, 4_000)
    assert result.departure is None and not result.not_reached
    assert result.met["refused"] and result.met["evicted"] and result.met["hit"]
    assert {"K1", "K2", "O1", "O2", "O4", "O6", "O7", "O8", "I4", "I8"} <= set(result.checked)
    assert set(result.not_observable) == {"I2", "I3", "I6", "I7", "O3", "O10", "O11"}


@pytest.mark.parametrize("number", [0, 700, 2_500, 3_999])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda answer: {"num_free_blocks": answer.num_free_blocks + 1}, {"I8", "O1"}),
        (lambda answer: {"outcome": "raised", "table": None, "slot": None, "num_cached_tokens": None}, {"O2"}),
    ],
)
def test_one_wrong_answer_is_placed(
    number: int, change: Callable[[Answer], dict[str, Any]], names: set[str], served: list[TraceLine], tmp_path: Path
) -> None:
    came = served[number].came
    assert came is not None
    wrong = msgspec.structs.replace(served[number], came=msgspec.structs.replace(came, **change(came)))
    result = checked(tmp_path, HEADER, [*served[:number], wrong, *served[number + 1 :]])
    assert result.exit_code == VIOLATION
    assert result.departure is not None
    assert (result.departure.step, result.departure.line) == (number + 1, number + 2)
    assert result.departure.obligation in names


def test_the_kv_of_another(served: list[TraceLine], tmp_path: Path) -> None:
    """A hit on a block with other content: the caller who believes it reads another's KV."""
    number = next(i for i, line in enumerate(served) if line.came and (line.came.num_cached_tokens or 0) >= 64)
    came = served[number].came
    assert came is not None and came.table is not None
    table = (came.table[1], came.table[0], *came.table[2:])
    wrong = msgspec.structs.replace(served[number], came=msgspec.structs.replace(came, table=table))
    departure = checked(tmp_path, HEADER, [*served[:number], wrong]).departure
    assert departure is not None
    assert (departure.obligation, departure.also) == ("K1", ["O4"])
    assert "another's KV" in departure.symptom


def test_the_pool_around_the_line_is_pictured(served: list[TraceLine], tmp_path: Path) -> None:
    """As far as the line is about it: the server has hundreds of blocks."""
    number = next(i for i, line in enumerate(served) if line.came and (line.came.num_cached_tokens or 0) >= 64)
    came = served[number].came
    assert came is not None and came.table is not None
    wrong_block = next(b for b in range(SERVED.num_blocks) if b not in came.table)
    table = (wrong_block, *came.table[1:])
    wrong = msgspec.structs.replace(served[number], came=msgspec.structs.replace(came, table=table))
    departure = checked(tmp_path, HEADER, [*served[:number], wrong]).departure
    assert departure is not None
    grid = grid_of_departure(departure)
    assert [column.label for column in grid.columns] == [str(number), f"{number + 1} due", f"{number + 1} came"]
    assert {wrong_block, came.table[0]} <= set(grid.blocks) and len(grid.blocks) <= FEW_BLOCKS
    seq = served[number].mutation.seq
    due, after = (column.cells for column in grid.columns[1:])
    assert [seq in cell.owners for cell in due if cell.block in (wrong_block, came.table[0])].count(True) == 1
    assert [cell.block for cell in after if seq in cell.owners and cell.violated] == [wrong_block]
    text = as_text(drawn(grid), width=100)
    assert f"block {wrong_block}" in text and "other blocks have no row" in text


def test_where_a_count_was_wrong_the_pool_is_that_after_the_line(served: list[TraceLine], tmp_path: Path) -> None:
    came = served[0].came
    assert came is not None and came.num_free_blocks is not None
    more = msgspec.structs.replace(came, num_free_blocks=came.num_free_blocks + 1)
    departure = checked(tmp_path, HEADER, [msgspec.structs.replace(served[0], came=more)]).departure
    assert departure is not None and departure.pools.before is None
    assert [column.label for column in grid_of_departure(departure).columns] == ["1 due", "1 came"]
    assert departure.pools.due.tables == departure.pools.came.tables


def test_in_mid_life_it_goes_on_as_if_from_the_start(tmp_path: Path) -> None:
    for goal in GOALS:
        pool, program = goal.witness.pool, goal.witness.program
        execution = play(target_of(BlockManager, black_box=True), goal.witness, STRICT)
        lines = execution.transcript()
        for at in range(len(program)):
            header = TraceHeader(
                FORMAT,
                pool,
                "",
                "strict",
                features=features_of(MANAGER, program),
                ledger=saved_ledger(execution.played[at].judgement.before),
            )
            rest = [msgspec.structs.replace(line, step=line.step - at) for line in lines[at:]]
            result = checked(tmp_path, header, rest)
            assert result.departure is None, (goal.id, at)


@pytest.mark.parametrize("fields", [("table", "slot"), ("num_cached_tokens",), ("num_free_blocks",), ("slot",)])
def test_what_was_not_written_down_is_not_checked(
    fields: tuple[str, ...], served: list[TraceLine], tmp_path: Path
) -> None:
    lines = without(served, *fields)
    if fields == ("slot",):
        with pytest.raises(UsageError, match="record them always or never"):
            checked(tmp_path, HEADER, lines)
        return
    result = checked(tmp_path, HEADER, lines)
    assert result.departure is None
    assert result.exit_code == INCONCLUSIVE  # K1, O1 or I4 cannot be seen
    assert any(fields[0] in why for why in result.not_observable.values())
    assert not any(result.recorded.get(field) for field in fields)


def test_a_trace_of_nothing_tells_nothing(tmp_path: Path) -> None:
    result = checked(tmp_path, HEADER, [])
    assert (result.exit_code, result.reasons, result.checked) == (
        INCONCLUSIVE,
        ["the trace holds no operation"],
        [],
    )


def test_without_tables_the_counts_still_tell(served: list[TraceLine], tmp_path: Path) -> None:
    lines = without(served, "table", "slot")
    number = next(i for i, line in enumerate(lines) if line.came and (line.came.num_cached_tokens or 0) >= 64)
    came = lines[number].came
    assert came is not None
    lines[number] = msgspec.structs.replace(lines[number], came=msgspec.structs.replace(came, num_cached_tokens=16))
    departure = checked(tmp_path, HEADER, lines).departure
    assert departure is not None
    assert (departure.step, departure.obligation) == (number + 1, "O4")


PROGRAM: Program = (
    Allocate("a", (1, 2, 3, 4, 5)),
    Append("a", 6),
    Allocate("b", (1, 2, 3, 4, 7)),
    Free("a"),
    Allocate("c", (8, 8, 8)),
    Free("b"),
    Allocate("d", (9,) * 9),
)


def test_each_profile_has_its_own_rules(tmp_path: Path) -> None:
    """A manager that takes free blocks in another order is right under `seed`, and departs under `strict`."""
    pool = Pool(6, 2)
    for cls, strict in ((BlockManager, CONFORMS), (SecondManager, CONFORMS), (LifoManager, VIOLATION)):
        lines = recorded(pool, PROGRAM, cls)
        header = TraceHeader(FORMAT, pool, "", "seed")
        assert checked(tmp_path, header, lines, "strict").exit_code == strict
        assert checked(tmp_path, header, lines, "seed").exit_code == CONFORMS


def test_what_a_recorder_got_wrong_is_no_verdict(tmp_path: Path) -> None:
    header, lines = TraceHeader(FORMAT, Pool(6, 2), "", "seed"), recorded(Pool(6, 2), PROGRAM)

    def renumbered(*kept: TraceLine) -> list[TraceLine]:
        return [msgspec.structs.replace(line, step=number) for number, line in enumerate(kept, start=1)]

    for wrong, message in (
        (renumbered(lines[0], lines[0]), "line 3: 'a' is live already. Was its free not recorded?"),
        (renumbered(lines[1]), "line 2: 'a' is not live. Was its allocate refused, or not recorded?"),
        ([msgspec.structs.replace(lines[0], came=None)], "line 2 does not say what came"),
        ([lines[0], *without(lines[1:], "table", "slot")], "line 4 gives no block numbers, though earlier lines do"),
        ([*without(lines[:2], "table", "slot"), *lines[2:]], "line 4 gives block numbers and earlier lines do not"),
    ):
        with pytest.raises(UsageError, match=message.replace("?", r"\?")):
            checked(tmp_path, header, wrong, "seed")
    with pytest.raises(UsageError, match="nobody can tell which one was"):
        checked(tmp_path, header, without(lines, "table", "slot"), VLLM.name)


def test_the_command(tmp_path: Path) -> None:
    lines = recorded(Pool(6, 2), PROGRAM)
    header = TraceHeader(FORMAT, Pool(6, 2), "a server", "seed")
    write_trace(tmp_path / "trace.jsonl", header, lines)
    said = kvaudit("check", "trace.jsonl", "--json", "result.json", cwd=tmp_path)
    assert said.code == CONFORMS, said.all
    assert "trace.jsonl: conforms (7 operations" in said.out
    assert json.loads((tmp_path / "result.json").read_text())["format"] == "kvaudit-check/1"

    came = lines[4].came
    assert came is not None
    wrong = msgspec.structs.replace(lines[4], came=msgspec.structs.replace(came, table=(0, 1)))
    write_trace(tmp_path / "trace.jsonl", header, [*lines[:4], wrong])
    said = kvaudit("check", "trace.jsonl", cwd=tmp_path)
    assert said.code == VIOLATION
    assert "line 6 departs: K1 is violated (at the same step: K2 I8)".replace("K2 I8", "K2, I8") in said.out
    assert "new block 0 is in use by 'b'" in said.out
    assert "trace.jsonl: violated: K1, at line 6" in said.out
    said = kvaudit("check", "trace.jsonl", "--profile", "sead", cwd=tmp_path)
    assert said.code == 2 and "sead" in said.err
