"""The page on traces says what is so: its recorder records, its examples are read, its ledger is one."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from audit.auditing import kvaudit
from house.test_docs import DOCS, blocks_of
from kvaudit import record as kvaudit_record
from kvaudit.protocol import Pool
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.saved_ledger import SavedLedger, ledger_of
from kvaudit.trace import read_lines
from kvblocks import BlockManager, OutOfBlocks
from mutants import pool


def shown(command: str) -> list[str]:
    """The lines of the page below that command, which comes first."""
    page = (DOCS / "traces.md").read_text(encoding="utf-8")
    [block] = [text for text in page.split("```") if text.startswith(f"\n$ {command} ")]
    return block.strip().splitlines()


def record(manager: BlockManager, path: Path) -> None:
    """The calls of the page and some more, one of them refused, through its recorder."""
    with kvaudit_record(manager, path) as recorder:
        assert recorder.allocate("a", [1, 2, 3, 4, 5]) == [0, 1, 2]
        with pytest.raises(OutOfBlocks):
            recorder.allocate("b", [9, 9])
        assert recorder.append_slot("a", 6) == 5
        recorder.free("a")
        for prompt in ([7] * 6, [1, 2, 3]):
            recorder.allocate("c", prompt)
            recorder.free("c")


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = blocks_of("traces.md", "python")
    exec(code, {})
    assert len(read_lines(tmp_path / "trace.jsonl")[1]) == 1


def test_the_recorder_records(tmp_path: Path) -> None:
    record(BlockManager(3, 2), tmp_path / "trace.jsonl")
    said = kvaudit("check", "trace.jsonl", cwd=tmp_path)
    assert said.code == CONFORMS, said.all
    assert "conforms (8 operations, 1 refused" in said.out
    assert kvaudit("replay", "trace.jsonl", "--target", "kvblocks", cwd=tmp_path).code == CONFORMS

    record(pool.KeepsMappingOnEviction(3, 2), tmp_path / "trace.jsonl")
    said = kvaudit("check", "trace.jsonl", cwd=tmp_path)
    assert said.code == VIOLATION, said.all
    named = said.out.replace("mutants.pool:KeepsMappingOnEviction", "blocks.py:Blocks")
    assert [line.rstrip() for line in named.splitlines()[:-1]] == shown("kvaudit check")[1:-1]
    source = Path(pool.__file__).read_text().replace("KeepsMappingOnEviction", "Blocks")
    (tmp_path / "blocks.py").write_text(source)
    for command in ("kvaudit shrink", "kvaudit anonymise"):
        asked, *told = shown(command)
        said = kvaudit(*asked.split()[2:], cwd=tmp_path)
        assert (said.code, said.out.splitlines()) == (0, told), said.all


def test_the_trace_of_the_page_is_one(tmp_path: Path) -> None:
    trace, ledger = blocks_of("traces.md", "json")
    (tmp_path / "trace.jsonl").write_text(trace)
    header, lines = read_lines(tmp_path / "trace.jsonl")
    assert (header.steps, [line.differs for line in lines]) == (2, [False, False])
    ledger_of(Pool(3, 2), msgspec.convert(json.loads(ledger), SavedLedger))
