"""Traces go out and come back the same, and replay says whether what they show still happens."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.auditing import MINIATURES, kvaudit
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, TraceHeader, lines_of, read_trace, write_trace

POOL = Pool(3, 2)
HEADER = TraceHeader(FORMAT, POOL, "pkg.mod:Class", "seed", "I4")

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


def test_what_another_target_has_left_stays(tmp_path: Path) -> None:
    """Two managers of a project may have the same bug, and each is to be played its own failure again."""
    (tmp_path / "blocks.py").write_text(
        "from kvblocks import BlockManager\n\nclass A(BlockManager):\n    def free(self, seq_id):\n"
        "        raise RuntimeError('A')\n\nclass B(A): ...\n",
        encoding="utf-8",
    )
    (tmp_path / "kept" / "pipe").mkdir(parents=True)
    os.mkfifo(tmp_path / "kept" / "pipe" / "trace.jsonl")  # what is no file is not waited for
    for _ in range(2):
        for name in "AB":
            said = kvaudit("run", f"blocks.py:{name}", "-x", "--max-steps", "50", "--failures", "kept", cwd=tmp_path)
            assert said.code == 1
    tests = sorted(tmp_path.glob("kept/*/test_repro.py"))
    assert len(tests) == 2 and tests[1].parent.name == f"{tests[0].parent.name}-2"
    for test, name in zip(tests, "AB", strict=True):
        assert f'TARGET = "blocks.py:{name}"' in test.read_text(encoding="utf-8")
        assert read_trace(test.with_name("trace.jsonl"))[0].target == f"blocks.py:{name}"


def test_what_no_caller_may_do_is_not_called_fixed(tmp_path: Path) -> None:
    """A trace made by hand: its last operation begins a sequence that is live, so nothing was tried."""
    again = Scenario(POOL, (Allocate("a", (1,)), Allocate("a", (1,))))
    write_trace(tmp_path / "t.jsonl", HEADER, lines_of(again))
    said = kvaudit("replay", "t.jsonl", "--target", "kvblocks", cwd=tmp_path)
    assert said.code == 3
    assert "cannot be told: 1 operation of 2 could not be made here, the last among them" in said.all
    assert "the first is line 3 of the trace" in said.all


def test_replay_on_another_target_in_a_child(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert kvaudit("replay", str(path), "--isolate", cwd=tmp_path).code == 1
    assert kvaudit("replay", str(path), "--isolate", "--target", "kvblocks", cwd=tmp_path).code == 0
