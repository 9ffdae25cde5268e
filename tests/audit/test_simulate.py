"""`kvaudit simulate`: against a second simulation and plain counting, on all formats; and what it says if it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.auditing import environment_with_mark, kvaudit, target_of
from audit.reference_lru import Counts, Line
from audit.reference_lru import simulate as reference
from kvaudit.api import ApiTarget
from kvaudit.errors import TargetError, UsageError
from kvaudit.simulate.ceiling import ceiling
from kvaudit.simulate.report import PoolResult, Simulated
from kvaudit.simulate.simulation import Model, Simulation, pool_sizes
from kvaudit.simulate.traces import MOONCAKE_BLOCK_SIZE, read_workload
from kvaudit.simulate.workload import Workload
from kvblocks import BlockManager
from mutants import seed

SIZE = MOONCAKE_BLOCK_SIZE


def mooncake(lines: Sequence[Line]) -> str:
    """Lines as Mooncake writes them: an id stands for a prefix, and says whether its last block is full."""
    ids: dict[tuple[Any, ...], int] = {}

    def id_of(line: Line, i: int) -> int:
        rest = line.input_length - i * SIZE
        return ids.setdefault((line.path[: i + 1], min(rest, SIZE)), len(ids))

    return "".join(
        json.dumps(
            {
                "timestamp": line.timestamp,
                "input_length": line.input_length,
                "output_length": line.output_length,
                "hash_ids": [id_of(line, i) for i in range(-(-line.input_length // SIZE))],
            }
        )
        + "\n"
        for line in lines
    )


def tokens(lines: Sequence[Line]) -> str:
    """The same requests with tokens: each block is full of one that says what it holds; outputs are like no other."""
    return "".join(
        json.dumps(
            {
                "timestamp": line.timestamp,
                "tokens": [line.path[i // SIZE] for i in range(line.input_length)],
                "output_tokens": [1000 + number] * line.output_length,
            }
        )
        + "\n"
        for number, line in enumerate(lines)
    )


@st.composite
def traces(draw: st.DrawFn) -> list[Line]:
    """Prompts that share prefixes, some of whole blocks and some not; outputs that may fill a block or several."""
    at = 0.0
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        path = tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)))
        last = draw(st.sampled_from([1, SIZE - 1, SIZE]))
        output = draw(st.sampled_from([0, 1, SIZE - last, SIZE, 2 * SIZE + 1]))
        at += draw(st.sampled_from([0.0, 10.0, 1000.0, 20_000.0]))
        lines.append(Line(path, (len(path) - 1) * SIZE + last, output, at))
    return lines


def workload_of(text: str, folder: Path, block_size: int | None = None) -> Workload:
    (folder / "trace.jsonl").write_text(text, encoding="utf-8")
    return read_workload(folder / "trace.jsonl", block_size)


def played(workload: Workload, num_blocks: int, model: Model, target: ApiTarget | None = None) -> PoolResult:
    simulation = Simulation("trace", workload, target or target_of(BlockManager), model)
    simulation.run([num_blocks], lambda part, what: None)
    return simulation.pools[0]


def counts(pool: PoolResult) -> Counts:
    return Counts(*(getattr(pool, name) for name in Counts._fields))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


# --- the counts -----------------------------------------------------------------------------------------------


@given(lines=traces(), num_blocks=st.integers(1, 12), live=st.integers(1, 4))
def test_a_second_simulation_agrees(lines: list[Line], num_blocks: int, live: int, folder: Path) -> None:
    pool = played(workload_of(mooncake(lines), folder), num_blocks, Model(live, None))
    assert counts(pool) == reference(lines, num_blocks, SIZE, live=live)


@given(lines=traces(), num_blocks=st.integers(1, 12), rate=st.sampled_from([50.0, 1000.0]))
def test_it_agrees_by_the_clock(lines: list[Line], num_blocks: int, rate: float, folder: Path) -> None:
    pool = played(workload_of(mooncake(lines), folder), num_blocks, Model(1, rate))
    assert counts(pool) == reference(lines, num_blocks, SIZE, rate=rate)


def test_a_wrong_manager_shows(folder: Path) -> None:
    """Of the planted bugs, those that change what is hit or evicted; the second simulation is not to be deaf."""
    lines = [Line((0, 1), 2 * SIZE, 0), Line((5, 6), 2 * SIZE, 0), Line((0, 9), 2 * SIZE, 0)]
    workload = workload_of(mooncake(lines), folder)
    due = reference(lines, 3, SIZE, live=1)
    assert counts(played(workload, 3, Model(1, None))) == due
    wrong = target_of(seed.FreesInForwardOrder)
    assert counts(played(workload, 3, Model(1, None), wrong)) != due


def test_blocks_of_ids_count_as_blocks_of_tokens(folder: Path) -> None:
    """The same requests, once as ids and once as tokens: a block that is not full, and one that output fills."""
    lines = [
        Line((0, 1), 2 * SIZE, 1),
        Line((0, 1, 1), 3 * SIZE - 1, 1),
        Line((0, 1, 1), 3 * SIZE, SIZE),
        Line((0, 0), SIZE + 1, 2 * SIZE),
    ]
    for num_blocks in (4, 6, 9, 40):
        by_ids = played(workload_of(mooncake(lines), folder), num_blocks, Model(2, None))
        by_tokens = played(workload_of(tokens(lines), folder, SIZE), num_blocks, Model(2, None))
        assert counts(by_ids) == counts(by_tokens) == reference(lines, num_blocks, SIZE, live=2)


@given(lines=traces())
def test_with_room_for_everything_the_hits_are_the_best_possible(lines: list[Line], folder: Path) -> None:
    known: set[tuple[Any, ...]] = set()
    seen = reusable = 0
    for line in lines:
        run = True
        for i in range(-(-line.input_length // SIZE)):
            block = (line.path[: i + 1], min(line.input_length - i * SIZE, SIZE))
            seen += block in known
            run = run and block in known and (i + 1) * SIZE < line.input_length
            reusable += run
            known.add(block)
    workload = workload_of(mooncake(lines), folder)
    assert ceiling(workload) == (seen, reusable)
    assert played(workload, workload.total_blocks, Model(3, None)).hit_blocks == reusable


def test_what_was_generated_can_be_hit_where_its_tokens_are_known(folder: Path) -> None:
    turns = [{"tokens": [1, 2, 3], "output_tokens": [4, 5]}, {"tokens": [1, 2, 3, 4, 5, 6], "output_length": 1}]
    workload = workload_of("".join(json.dumps(turn) + "\n" for turn in turns), folder, 2)
    assert ceiling(workload) == (2, 2)
    assert played(workload, 8, Model(1, None)).hit_blocks == 2


def test_hits_that_cannot_be_are_an_error(folder: Path) -> None:
    workload = workload_of(mooncake([Line((0,), SIZE, 0)] * 2), folder)
    with pytest.raises(TargetError, match=r"says that 1 blocks were hits, and only 0 had come before"):
        played(workload, 4, Model(1, None), target_of(seed.MatchesWholePrompt))


def test_blocks_are_joined_to_larger_ones(folder: Path) -> None:
    lines = [Line((0, 1, 2), 3 * SIZE, 0), Line((0, 1, 2, 3, 4), 4 * SIZE + 7, 0), Line((0, 0, 0, 0, 0), 5 * SIZE, 0)]
    workload = workload_of(mooncake(lines), folder, 2 * SIZE)
    assert (workload.prompt_blocks, workload.block_size) == (2 + 3 + 3, 2 * SIZE)
    assert ceiling(workload).reusable == 1
    by_tokens = workload_of(tokens(lines), folder, 2 * SIZE)
    for num_blocks in (3, 5, 9):
        assert counts(played(workload, num_blocks, Model(1, None))) == counts(
            played(by_tokens, num_blocks, Model(1, None))
        )


# --- conversations --------------------------------------------------------------------------------------------


def conversation(*ids: Sequence[int], scope: str = "local", size: int = 4) -> str:
    requests = [{"t": float(i), "in": size * len(of), "out": 2, "hash_ids": of} for i, of in enumerate(ids)]
    return json.dumps({"id": "x", "block_size": size, "hash_id_scope": scope, "requests": requests}, indent=1)


@pytest.mark.parametrize(("scope", "reusable"), [("local", 1), ("global", 2)])
def test_ids_of_one_conversation_mean_nothing_in_another(scope: str, reusable: int, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(conversation([1, 2], [1, 3], scope=scope), encoding="utf-8")
    (tmp_path / "b.json").write_text(conversation([1, 2], scope=scope).replace("0.0", "0.5"), encoding="utf-8")
    workload = read_workload(tmp_path, None)
    assert [request.arrival_s for request in workload.requests] == [0.0, 0.5, 1.0]
    assert ceiling(workload).reusable == reusable
    assert read_workload(tmp_path / "a.json", None).kind == "1 conversations"


def test_ids_of_full_blocks_only(tmp_path: Path) -> None:
    """An agentic trace leaves out the last block where it is not full; it is played all the same."""
    text = json.dumps({"block_size": 4, "requests": [{"in": 10, "out": 3, "hash_ids": [1, 2]}] * 2})
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    workload = read_workload(tmp_path / "a.json", None)
    assert (workload.prompt_blocks, workload.total_blocks, ceiling(workload)) == (6, 8, (2, 2))


# --- the command ----------------------------------------------------------------------------------------------


def test_a_table_a_file_and_a_plot(tmp_path: Path) -> None:
    lines = [Line((i % 3, i % 2), SIZE + 9, SIZE, 1000.0 * i) for i in range(20)]
    (tmp_path / "t.jsonl").write_text(mooncake(lines), encoding="utf-8")
    said = kvaudit(
        *("simulate", "t.jsonl", "--blocks", "3..8,unbounded", "--concurrency", "2"),
        *("--json", "out.json", "--plot", "curve.svg"),
        cwd=tmp_path,
    )
    assert said.code == 0, said.all
    result = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=Simulated)
    assert [pool.num_blocks for pool in result.pools] == [3, 6, 8, result.total_blocks]
    assert [counts(pool) for pool in result.pools] == [
        reference(lines, pool.num_blocks, SIZE, live=2) for pool in result.pools
    ]
    assert result.complete and result.pools[-1].hit_blocks == result.reusable_blocks
    assert f"{result.pools[0].hit_rate:.1%}" in said.out
    assert "<svg" in (tmp_path / "curve.svg").read_text(encoding="utf-8")


def test_another_manager_can_be_played(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(mooncake([Line((0,), 5, 0)] * 3), encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        "from kvblocks import BlockManager\n"
        "class Mine(BlockManager):\n"
        "    def free(self, seq_id): raise RuntimeError('no')\n",
        encoding="utf-8",
    )
    said = kvaudit(
        "simulate", "t.jsonl", "--blocks", "4", "--target", "mine.py:Mine", "--concurrency", "1", cwd=tmp_path
    )
    assert said.code == 2 and "mine.py:Mine raised RuntimeError: no, which is no refusal" in said.all


GOOD = '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [0]}\n'
NOT_A_TRACE = {
    "empty": ("", "t.jsonl is empty; known are lines with hash_ids"),
    "blank": ("\n\n", "t.jsonl is empty"),
    "no JSON": ("nonsense", "t.jsonl, line 1: JSON is malformed"),
    "a number": ("1\n", "t.jsonl, line 1: Expected `object`, got `int`; known are"),
    "another format": ('{"a": 1}\n', "t.jsonl, line 1 has neither hash_ids nor tokens"),
    "a line that breaks off": (GOOD + "\n" + GOOD[:30], "t.jsonl, line 3: Input data was truncated"),
    "a text for a number": (
        GOOD + GOOD.replace("5", '"5"'),
        "line 2: Expected `int`, got `str` - at `$.input_length`",
    ),
    "no input": (GOOD.replace("5", "0"), "line 1: Expected `int` >= 1 - at `$.input_length`"),
    "too few ids": (GOOD.replace("5", "1025"), "line 1: 1025 tokens are 3 blocks of 512, and there are 1 hash ids"),
    "a token too large": ('{"tokens": [4294967296]}', "line 1: Expected `int` <= 4294967295 - at `$.tokens[0]`"),
    "no tokens": ('{"tokens": []}', "line 1: Expected `array` of length >= 1 - at `$.tokens`"),
    "two lengths": ('{"tokens": [1], "output_tokens": [1], "output_length": 2}', "output_length is 2, and there are 1"),
    "no requests": ('{"block_size": 4, "requests": []}', "t.jsonl has no requests"),
    "no block size": ('{"requests": []}', "t.jsonl: Object missing required field `block_size`"),
    "an endless output": (
        GOOD + GOOD.replace("1,", f"{10**15},"),
        "line 2: Expected `int` <= 16777216 - at `$.output_length`",
    ),
    "an endless output of tokens": ('{"tokens": [1], "output_length": 16777217}', "line 1: Expected `int` <= 16777216"),
    "an endless turn": (
        '{"block_size": 4, "requests": [{"in": 4, "out": 1000000000000000, "hash_ids": [1]}]}',
        "t.jsonl: Expected `int` <= 16777216 - at `$.requests[0].out`",
    ),
    "a deep file": ('{"requests": ' + "[" * 100_000, "t.jsonl, line 1: maximum recursion depth exceeded"),
    "a deep line": (GOOD + '{"tokens": ' + "[" * 100_000, "t.jsonl, line 2: maximum recursion depth exceeded"),
    "no UTF-8": ("\udcff", "t.jsonl, line 1: JSON is malformed"),
}


@pytest.mark.parametrize("name", NOT_A_TRACE)
def test_what_is_no_trace_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    text, message = NOT_A_TRACE[name]
    (tmp_path / "t.jsonl").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError) as told:
        read_workload(tmp_path / "t.jsonl", None)
    assert message in str(told.value)


def test_a_folder_has_conversations_of_one_block_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no \*\.json file"):
        read_workload(tmp_path, None)
    (tmp_path / "a.json").write_text(conversation([1]), encoding="utf-8")
    (tmp_path / "b.json").write_text(conversation([1], size=8), encoding="utf-8")
    with pytest.raises(UsageError, match=r"a\.json has blocks of 4 tokens, b\.json of 8"):
        read_workload(tmp_path, None)
    (tmp_path / "b.json").write_text(GOOD, encoding="utf-8")
    with pytest.raises(UsageError, match=r"b\.json: Object missing required field `block_size`"):
        read_workload(tmp_path, None)


@pytest.mark.parametrize(
    ("text", "sizes"), [("4", [4]), ("2k,1k,2k", [1000, 2000]), ("3..10", [3, 6, 10]), ("unbounded,1", [1, 7])]
)
def test_sizes_of_pools(text: str, sizes: list[int], folder: Path) -> None:
    assert pool_sizes(text, workload_of(mooncake([Line((0,), 1, 0)] * 7), folder)) == sizes


MISTAKES = [
    (("--blocks", "0"), "--blocks 0: a pool has one block at least"),
    (("--blocks", "8..4"), "--blocks 8..4: a range goes up"),
    (("--blocks", ""), "--blocks '': a size is empty; say it as 8k,16k, as 1k..64k, or as unbounded"),
    (("--blocks", "8,,9"), "--blocks '8,,9': a size is empty"),
    (("--blocks", "4,8.."), "--blocks '4,8..': a range 8.. lacks an end"),
    (("--blocks", "..8"), "--blocks '..8': a range ..8 lacks an end"),
    (("--blocks", "4,999999999999999k"), "--blocks 999999999999999k: a pool of more than 16,777,216 slots cannot be"),
    (("--blocks", "1..1000000000000"), "with 2 slots a block, that is 8,388,608 blocks at most"),
    (("--blocks", "4", "--target", "cmd:cat"), "--target cmd:cat: a Python class is played"),
    (("--blocks", "many"), "--blocks many: say it as 8192, 64k"),
    (("--blocks", "4", "--block-size", "700"), "in blocks of 512 tokens: --block-size 700 is no multiple of that"),
    (("--blocks", "4", "--concurrency", "2", "--tokens-per-second", "9"), "give one of them"),
    (("--blocks", "4", "--target", "vllm"), "--target vllm: a Python class is played"),
    (("--blocks", "4", "--target", "nobody"), "no target 'nobody'"),
    (("--blocks", "4", "--plot", "a.gif"), "--plot a.gif: the name is to end in .png, .svg, .pdf"),
    (("--blocks", "4", "--plot", "no/a.png"), "--plot no/a.png: there is no such folder"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=lambda value: str(value)[-24:])
def test_mistakes_are_told(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(GOOD, encoding="utf-8")
    said = kvaudit("simulate", "t.jsonl", *options, cwd=tmp_path)
    assert (said.code, message in said.all) == (2, True), said.all


def test_a_clock_needs_times(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"tokens": [1]}\n', encoding="utf-8")
    said = kvaudit("simulate", "t.jsonl", "--blocks", "4", "--tokens-per-second", "9", cwd=tmp_path)
    assert said.code == 2 and "does not say when requests arrive: simulate it with --concurrency" in said.all


def test_interrupted_it_shows_what_is_done(tmp_path: Path) -> None:
    lines = [Line((i,), SIZE, 0) for i in range(2000)]
    (tmp_path / "t.jsonl").write_text(mooncake(lines), encoding="utf-8")
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\nfrom kvblocks import BlockManager\n"
        "class Slow(BlockManager):\n"
        "    def allocate(self, seq_id, token_ids):\n"
        "        if self.num_blocks == 9:\n"
        "            pathlib.Path('begun').touch()\n"
        "            time.sleep(0.01)\n"
        "        return super().allocate(seq_id, token_ids)\n",
        encoding="utf-8",
    )
    words = ["simulate", "t.jsonl", "--blocks", "8,9", "--concurrency", "1", "--target", "slow.py:Slow"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kvaudit", *words],
        cwd=tmp_path, env=environment_with_mark(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "interrupted: 1 pool played" in out


# --- real traces ----------------------------------------------------------------------------------------------

TRACES = os.environ.get("KVAUDIT_TRACES")
REAL = pytest.mark.skipif(TRACES is None, reason="KVAUDIT_TRACES names no folder with Mooncake's and agentic traces")


@REAL
@pytest.mark.parametrize(
    ("name", "requests", "seen"),
    [("mooncake_conversation_trace.jsonl", 12_031, 0.366), ("mooncake_synthetic_trace.jsonl", 3_993, 0.640)],
)
def test_mooncake(name: str, requests: int, seen: float) -> None:
    workload = read_workload(Path(str(TRACES)) / name, None)
    best = ceiling(workload)
    assert (len(workload.requests), round(best.seen / workload.prompt_blocks, 3)) == (requests, seen)
    assert played(workload, workload.total_blocks, Model(64, None)).hit_blocks == best.reusable


@REAL
def test_agentic() -> None:
    workload = read_workload(Path(str(TRACES)) / "agentic", None)
    assert (len(workload.requests), workload.block_size) == (449, 64)
    assert played(workload, workload.total_blocks, Model(64, None)).hit_blocks == ceiling(workload).reusable
