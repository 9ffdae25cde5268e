"""Traces go out and come back the same; what is no trace is refused with the file, the line and the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.auditing import MINIATURES, kvaudit
from kvaudit.errors import UsageError
from kvaudit.execution import Scenario
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool, Program
from kvaudit.trace import FORMAT, TraceHeader, lines_of, read_trace, write_trace

POOL = Pool(3, 2)
HEADER = TraceHeader(FORMAT, POOL, "pkg.mod:Class", "seed", "I4")
PROGRAM: Program = (Allocate("a", (0, 2**32 - 1)), Append("a", 5), Free("a"))

_tokens = st.integers(0, 2**32 - 1)
_prompts = st.lists(_tokens, min_size=1, max_size=5).map(tuple)


def _rest(seq: str) -> st.SearchStrategy[list[Mutation]]:
    return st.lists(st.one_of(st.builds(Append, st.just(seq), _tokens), st.just(Free(seq))), max_size=5)


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), _prompts, st.data())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, seq: str, prompt: tuple[int, ...], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "new" / "folder" / "trace.jsonl"
    scenario = Scenario(POOL, (Allocate(seq, prompt), *data.draw(_rest(seq))))
    write_trace(path, HEADER, lines_of(scenario))
    assert read_trace(path) == (HEADER, scenario)
    assert len(path.read_bytes().split(b"\n")) == len(scenario.program) + 2


def lines(tmp_path: Path) -> list[str]:
    write_trace(tmp_path / "good", HEADER, lines_of(Scenario(POOL, PROGRAM)))
    return (tmp_path / "good").read_text(encoding="utf-8").splitlines()


MALFORMED = [
    (0, "", "is empty; a trace starts with a header"),
    (1, "not JSON", "line 1 is no header of a trace: JSON is malformed"),
    (1, "[]", "line 1 is no header of a trace: Expected `object`"),
    (1, '{"format":"kvaudit-trace/1"}', "line 1 is no header of a trace: Object missing required field"),
    (1, ('"format":"kvaudit-trace/1"', '"format":"kvaudit-trace/2"'), "has the format 'kvaudit-trace/2'; this version"),
    (1, ('"target"', '"features":["pins"],"target"'), "unknown field `features`"),
    (1, ('"num_blocks":3', '"num_blocks":0'), "a pool has at least one block of at least one token"),
    (1, ('"block_size":2', '"block_size":-1'), "a pool has at least one block of at least one token"),
    (1, ('"num_blocks":3', '"num_blocks":"3"'), "Expected `int`, got `str`"),
    (2, "half a li", "line 2 is no operation: JSON is malformed"),
    (2, ('"step":1', '"step":2'), "line 2: step 1 was due, this is step 2"),
    (2, ("4294967295", "4294967296"), "line 2: 4294967296 is no token id: they are integers in 0 .. 2^32-1"),
    (2, ("4294967295", "-1"), "line 2: -1 is no token id"),
    (2, ("4294967295", "1.5"), "line 2 is no operation: Expected `int`, got `float`"),
    (2, ("[0,4294967295]", "[]"), "line 2: a prompt has at least one token"),
    (2, ('"op":"allocate"', '"op":"fork"'), "line 2 is no operation: Invalid value 'fork'"),
    (2, ('"op":"allocate"', '"op":"observe"'), "line 2 is no operation: Invalid value 'observe'"),
    (3, ('"seq":"a"', '"seq":"b"'), "line 3: 'b' was never allocated"),
    (3, ('"token":5', '"token":-5'), "line 3: -5 is no token id"),
    (4, ('"step":3', '"step":3,"at":"noon"'), "line 4 is no operation: Object contains unknown field `at`"),
    (4, ('"seq":"a"', '"seq":"never"'), "line 4: 'never' was never allocated"),
]


@pytest.mark.parametrize(("number", "change", "fragment"), MALFORMED, ids=lambda value: str(value)[:60])
def test_malformed(number: int, change: str | tuple[str, str], fragment: str, tmp_path: Path) -> None:
    text = lines(tmp_path)
    if number == 0:
        text = []
    elif isinstance(change, str):
        text[number - 1] = change
    else:
        assert change[0] in text[number - 1]
        text[number - 1] = text[number - 1].replace(*change)
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(text), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_trace(path)
    assert str(path) in str(error.value)
    assert fragment in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="line 1 is no header"):
        read_trace(path)


def saved(tmp_path: Path) -> Path:
    """A trace that one run has saved of a target with a bug."""
    said = kvaudit("run", f"{MINIATURES}:RefusesFree", "-x", "--max-steps", "100", "--failures", "kept", cwd=tmp_path)
    assert said.code == 1
    [path] = tmp_path.glob("kept/*/trace.jsonl")
    return path


def test_replay_says_whether_it_still_fails(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert json.loads(path.read_text().splitlines()[0])["obligation"] == "O2"
    said = kvaudit("replay", str(path), cwd=tmp_path)
    assert said.code == 1
    assert "still failing: O2 is violated" in said.out
    assert "free('a') -> refused (OutOfBlocks) (expected: freed)" in said.all

    said = kvaudit("replay", str(path), "--target", "kvblocks", cwd=tmp_path)
    assert said.code == 0
    assert "fixed: O2 is no longer violated" in said.out


def test_replay_on_another_target_in_a_child(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert kvaudit("replay", str(path), "--isolate", cwd=tmp_path).code == 1
    assert kvaudit("replay", str(path), "--isolate", "--target", "kvblocks", cwd=tmp_path).code == 0


def test_replay_of_a_trace_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    said = kvaudit("replay", "bad.jsonl", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "bad.jsonl, line 1 is no header of a trace" in said.err
