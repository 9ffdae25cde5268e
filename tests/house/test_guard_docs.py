"""The page on guards says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kvaudit
from audit.auditing import kvaudit as command
from house.test_docs import DOCS, blocks_of
from kvaudit.guarding import wrapper
from kvaudit.report import CONFORMS, VIOLATION
from mutants import pool


def test_the_example_runs() -> None:
    example, without_attributes = blocks_of("guard.md", "python")
    names: dict[str, object] = {"NoRoom": type("NoRoom", (Exception,), {})}
    exec(example, names)
    assert repr(names["manager"]).startswith("guard(<kvblocks")
    exec(blocks_of("quickstart.md", "python")[0], names)
    exec(without_attributes, names)
    assert "Blocks object" in repr(names["manager"])


def test_the_warning_and_the_dump_are_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manager = kvaudit.guard(pool.KeepsMappingOnEviction(2, 1), level="warn")
    with pytest.warns(kvaudit.ContractWarning) as caught:
        for seq, prompt in (("a", [0]), ("b", [1, 0]), ("c", [0, 0])):
            manager.allocate(seq, prompt)
            manager.free(seq)
    page = (DOCS / "guard.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```\n(ContractWarning.*?)```", page, re.DOTALL)
    said = re.sub(r"K1-\d+T\d+-\d+", "K1-20260314T092653-4711", f"ContractWarning: {caught[0].message}\n")
    assert said == shown
    [dump] = (tmp_path / ".kvaudit" / "guard").iterdir()
    for arguments in (["check", str(dump)], ["replay", str(dump)]):  # replay finds the target by itself
        done = command(*arguments, cwd=Path(pool.__file__).parents[1])
        assert done.code == VIOLATION, done.all
    assert command("replay", str(dump), "--target", "kvblocks", cwd=tmp_path).code == CONFORMS


def test_the_table_is_that_of_the_code() -> None:
    page = (DOCS / "guard.md").read_text(encoding="utf-8")
    [table] = re.findall(r"called by these names:\n\n(.*?)\n\n", wrapper.__doc__ or "", re.DOTALL)
    for line in table.splitlines():
        names = re.findall(r"\b[IOK]\d+", line)
        assert f"| {' '.join(names)} |" in page or f"| {' '.join(names[:-1])}, {names[-1]} of a refusal |" in page, line
