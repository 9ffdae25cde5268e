"""`kvaudit shrink` and `kvaudit anonymise`: what they write, and what they say where they cannot."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Hashable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.auditing import kvaudit, target_of
from audit.test_malformed_traces import MIDLIFE
from kvaudit.anonymise import Names
from kvaudit.errors import UsageError
from kvaudit.levels import play
from kvaudit.minimise import minimise
from kvaudit.profiles import SEED
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, Answer, TraceHeader, TraceLine, lines_of, read_lines, write_trace
from kvblocks import BlockManager
from mutants import pool

POOL = Pool(3, 2)
LONG = (
    Allocate("first", (1, 2, 3, 4, 5)),
    Allocate("second", (9, 9)),
    Append("first", 6),
    Free("first"),
    Allocate("third", (7,) * 6),
    Free("third"),
    Allocate("third", (1, 2, 3)),
    Free("third"),
)


def save(folder: Path, obligation: str = "", target: str = "kvblocks") -> None:
    write_trace(
        folder / "t.jsonl", TraceHeader(FORMAT, POOL, target, "seed", obligation), lines_of(Scenario(POOL, LONG))
    )


def test_shrink_writes_a_trace_that_still_fails(tmp_path: Path) -> None:
    target = f"{inspect.getfile(pool)}:KeepsMappingOnEviction"
    save(tmp_path, "K1", target)
    said = kvaudit("shrink", "t.jsonl", "--black-box", cwd=tmp_path)
    assert (said.code, said.out) == (0, "t.small.jsonl: K1 in 5 operations instead of 8\n")
    header, lines = read_lines(tmp_path / "t.small.jsonl")
    assert (header.target, header.obligation, header.steps) == (target, "K1", 5)
    assert [line.differs for line in lines] == [False] * 4 + [True]
    assert kvaudit("replay", "t.small.jsonl", "--black-box", cwd=tmp_path).code == 1
    assert kvaudit("replay", "t.small.jsonl", "--target", "kvblocks", cwd=tmp_path).code == 0

    said = kvaudit("shrink", "t.jsonl", "-o", "in/a/folder.jsonl", cwd=tmp_path)
    assert said.code == 0
    assert "when it was saved it violated K1; on" in said.out and "see --black-box" in said.out
    assert "folder.jsonl: I3 in 3 operations instead of 8" in said.out
    assert read_lines(tmp_path / "in" / "a" / "folder.jsonl")[0].obligation == "I3"


def test_there_is_nothing_to_shrink(tmp_path: Path) -> None:
    save(tmp_path)
    said = kvaudit("shrink", "t.jsonl", cwd=tmp_path)
    assert said.code == 2
    assert "the trace violates nothing on kvblocks: there is nothing to shrink" in said.all
    assert not (tmp_path / "t.small.jsonl").exists()


def test_a_trace_of_no_target(tmp_path: Path) -> None:
    save(tmp_path, target="")
    for command in ("replay", "shrink"):
        said = kvaudit(command, "t.jsonl", cwd=tmp_path)
        assert said.code == 2 and "the trace names no target to play it on: give one with --target" in said.all
        assert kvaudit(command, "t.jsonl", "--target", "kvblocks", cwd=tmp_path).code != 1


def test_a_trace_of_a_target_that_is_not_there(tmp_path: Path) -> None:
    for command in ("replay", "shrink"):
        for target in ("my server", "no.such.module:Manager"):
            save(tmp_path, target=target)
            said = kvaudit(command, "t.jsonl", cwd=tmp_path)
            assert said.code == 2 and "the target that the trace names: give another with --target" in said.all
            said = kvaudit(command, "t.jsonl", "--target", "nobody", cwd=tmp_path)
            assert said.code == 2 and "that the trace names" not in said.all


def test_a_trace_knows_what_its_target_calls_a_refusal(tmp_path: Path) -> None:
    """Else the first refusal on the way would be taken for the failure."""
    text = "from kvblocks import BlockManager\n\nclass NoRoom(Exception): ...\n\nclass Refuses(BlockManager):\n"
    text += "    def allocate(self, seq_id, token_ids):\n        raise NoRoom\n"
    (tmp_path / "refuses.py").write_text(text)
    ran = kvaudit("run", "refuses.py:Refuses", "--refusal", "NoRoom", "-x", "--max-steps", "100", cwd=tmp_path)
    assert ran.code == 1
    [trace] = tmp_path.glob(".kvaudit/failures/*/trace.jsonl")
    assert read_lines(trace)[0].refusals == ("NoRoom",)
    for command in ("replay", "shrink"):
        assert "raised" not in kvaudit(command, str(trace), cwd=tmp_path).all
    assert read_lines(trace.with_name("trace.small.jsonl"))[0].refusals == ("NoRoom",)
    test = trace.with_name("test_repro.py").read_text()
    assert 'refusals=["NoRoom"],' in test


def test_a_recorded_trace_of_a_large_pool_becomes_as_small_as_any(tmp_path: Path) -> None:
    before = [Allocate(f"noise-{i}", tuple(range(20 * i, 20 * i + 20))) for i in range(40)]
    shared = tuple(range(900, 950))
    program: list[Mutation] = [
        *before,
        Allocate("x", (*shared, 1)),
        Append("noise-3", 9),
        Allocate("y", (*shared, 2, 2)),
        Free("x"),
    ]
    scenario = Scenario(Pool(512, 16), tuple(program))
    target = f"{inspect.getfile(pool)}:SharesWithoutReference"
    write_trace(tmp_path / "t.jsonl", TraceHeader(FORMAT, scenario.pool, target, "seed"), lines_of(scenario))
    said = kvaudit("shrink", "t.jsonl", cwd=tmp_path)
    assert said.code == 0, said
    header, lines = read_lines(tmp_path / "t.small.jsonl")
    assert header.pool == Pool(2, 1)
    assert sum(len(line.operation.tokens) for line in lines if isinstance(line.operation, Allocate)) <= 4


def test_a_failure_that_comes_and_goes() -> None:
    made = []

    class Once(BlockManager):
        """Only the first manager of the process is wrong."""

        def free(self, seq_id: Hashable) -> None:
            made.append(self) if self not in made else None
            if made[0] is self:
                raise RuntimeError("once")
            super().free(seq_id)

    header, target = TraceHeader(FORMAT, POOL, "x:y", "seed"), target_of(Once)
    with pytest.raises(UsageError, match="the same program on a fresh pool goes otherwise on Once"):
        minimise(target, SEED, header, Scenario(POOL, LONG), lambda plays, operations: None)


_tokens = st.integers(0, 2**32 - 1)
_operations: st.SearchStrategy[Mutation] = st.one_of(
    st.builds(Allocate, st.text(min_size=1), st.lists(_tokens, min_size=1).map(tuple)),
    st.builds(Append, st.text(min_size=1), _tokens),
    st.builds(Free, st.text(min_size=1)),
)


def tokens_of(operation: Mutation) -> tuple[int, ...]:
    if isinstance(operation, Allocate):
        return operation.tokens
    return (operation.token,) if isinstance(operation, Append) else ()


@given(st.lists(_operations))
def test_names_are_injective_and_say_nothing_else(program: list[Mutation]) -> None:
    names = Names()
    renamed = [names.line(line).mutation for line in lines_of(Scenario(POOL, tuple(program)))]
    for before, after in (
        ([op.seq for op in program], [op.seq for op in renamed]),
        ([t for op in program for t in tokens_of(op)], [t for op in renamed for t in tokens_of(op)]),
    ):
        assert len(before) == len(after)
        assert len(set(zip(before, after, strict=True))) == len(set(before)) == len(set(after))
    again = Names()
    assert [
        again.line(TraceLine(1, op)).operation for op in renamed
    ] == renamed  # a fixed point: only the shape is left


def test_no_text_of_the_users_is_left(tmp_path: Path) -> None:
    secret = 123_456_789
    lines = [
        TraceLine(1, Allocate("mrs. smith", (secret, 2)), came=Answer("completed", table=(0,), num_free_blocks=3)),
        TraceLine(2, Append("mrs. smith", 3), came=Answer("raised", error="ValueError", other="smith said 123456789")),
    ]
    write_trace(tmp_path / "t.jsonl", TraceHeader(FORMAT, POOL, "a server", "seed"), lines)
    said = kvaudit("anonymise", "t.jsonl", cwd=tmp_path)
    assert (said.code, said.out) == (0, "t.anonymous.jsonl: 3 tokens and 1 sequence renamed\n")
    text = (tmp_path / "t.anonymous.jsonl").read_text()
    assert "smith" not in text and str(secret) not in text
    assert [json.loads(line)["came"].get("error", "") for line in text.splitlines()[1:]] == ["", "ValueError"]
    said = kvaudit("anonymise", "t.jsonl", "-o", "t.jsonl", cwd=tmp_path)
    assert said.code == 2 and "t.jsonl is the trace itself: give another file" in said.err


def test_a_pipe_and_a_link_stay_what_they_are(tmp_path: Path) -> None:
    """The result may go to a pipe or a device, which is not to be replaced by a file."""
    save(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "kvaudit", "anonymise", "t.jsonl", "-o", "pipe"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        lines = (tmp_path / "pipe").read_text().splitlines()
    assert process.returncode == 0 and len(lines) == 1 + len(LONG)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        assert kvaudit("anonymise", "t.jsonl", "-o", "link", cwd=tmp_path).code == 0
        assert (tmp_path / "link").is_symlink() and len((tmp_path / "real").read_text().splitlines()) == 1 + len(LONG)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "real", "t.jsonl"]


def test_beside_what_is_no_file_nothing_is_written(tmp_path: Path) -> None:
    save(tmp_path)
    command = [sys.executable, "-m", "kvaudit", "anonymise", "/dev/stdin"]
    run = subprocess.run(command, input=(tmp_path / "t.jsonl").read_bytes(), capture_output=True)
    assert (run.returncode, run.stderr) == (
        2,
        b"error: beside /dev/stdin nothing is to be written: name a file with -o\n",
    )
    assert kvaudit("anonymise", "", cwd=tmp_path).err == "error: . cannot be read: Is a directory\n"


EVIL = "\x1b[31m\x07[bold]"


def test_what_a_terminal_would_obey_is_not_shown_to_it(tmp_path: Path) -> None:
    lines = [TraceLine(1, Allocate(EVIL, (1,)), came=Answer("raised", error=EVIL, other=f"said\n{EVIL}"))]
    for header in (
        TraceHeader(FORMAT, POOL, EVIL, "seed"),
        TraceHeader(FORMAT, POOL, "kvblocks", EVIL),
        TraceHeader(FORMAT, POOL, "kvblocks", "seed", features=(EVIL,)),
        TraceHeader(FORMAT, POOL, "kvblocks", "seed", obligation=EVIL),
    ):
        write_trace(tmp_path / "t.jsonl", header, lines)
        for command in ("check", "replay"):
            said = kvaudit(command, "t.jsonl", cwd=tmp_path)
            assert r"\x1b[31m" in said.all and r"\x07" in said.all and "[bold]" in said.all
            assert "\x1b" not in said.all and "\x07" not in said.all


def test_long_prompts_and_numbers_are_cut(tmp_path: Path) -> None:
    came = Answer("completed", table=(0,), num_cached_tokens=0, num_free_blocks=10**300)
    for tokens in ((1,), (1,) * 5_000):
        write_trace(
            tmp_path / "t.jsonl",
            TraceHeader(FORMAT, POOL, "kvblocks", "seed"),
            [TraceLine(1, Allocate("a", tokens), came=came)],
        )
        for command in ("check", "replay"):
            said = kvaudit(command, "t.jsonl", cwd=tmp_path)
            assert said.code == (1 if command == "check" else 0)
            assert len(said.all) < 2_000


def test_a_verdict_is_shown_where_a_tick_cannot_be(tmp_path: Path) -> None:
    came = Answer("completed", table=(), num_cached_tokens=0)
    lines = [TraceLine(1, Allocate("a", (1,)), came=came)]
    write_trace(tmp_path / "t.jsonl", TraceHeader(FORMAT, POOL, "", "seed"), lines)
    command = [sys.executable, "-m", "kvaudit", "check", "t.jsonl"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, cwd=tmp_path, env=ascii_only, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (1, "")
    assert r"\u2717 line 2 departs: O5 is violated" in run.stdout


def test_what_is_not_known_is_no_difference() -> None:
    due = Answer("completed", slot=3, num_free_blocks=2)
    for came, differs in (
        (Answer("completed", slot=3), False),
        (Answer("completed"), False),
        (Answer("completed", slot=4), True),
        (Answer("completed", other="'x'"), True),
        (Answer("completed", num_free_blocks=1), True),
        (Answer("refused"), True),
    ):
        assert TraceLine(1, Append("a", 1), due, came).differs is differs


def test_what_a_free_returns_is_nobodys_business() -> None:
    class Talks(BlockManager):
        def free(self, seq_id: Hashable) -> str:  # type: ignore[override]
            super().free(seq_id)
            return "done"

    lines = play(target_of(Talks), Scenario(POOL, LONG), SEED).transcript()
    assert not any(line.differs for line in lines)


def test_a_ledger_in_mid_life_is_renamed_with_its_operations(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(MIDLIFE)
    assert kvaudit("anonymise", "t.jsonl", cwd=tmp_path).code == 0
    before, after = (kvaudit("check", name, cwd=tmp_path) for name in ("t.jsonl", "t.anonymous.jsonl"))
    assert before.code == after.code == 3  # it holds no allocate that completed
    assert "inconclusive: K1 is not observable" in before.out and "inconclusive: K1 is not observable" in after.out
    assert "4294967295" in MIDLIFE.decode() and "4294967295" not in (tmp_path / "t.anonymous.jsonl").read_text()


@pytest.mark.parametrize("command", ["check", "shrink", "anonymise", "replay"])
def test_help_names_the_trace(command: str, tmp_path: Path) -> None:
    said = kvaudit(command, "--help", cwd=tmp_path)
    assert said.code == 0 and "TRACE" in said.out
