"""The page on volume says what is so: what is known lets a run pass, and what is fixed gets a word."""

from __future__ import annotations

import re
from pathlib import Path

from audit.auditing import Said, kvaudit
from house.harness_page import is_shown
from house.test_docs import DOCS, blocks_of
from kvaudit.report import CONFORMS, VIOLATION


def test_a_known_failure_lets_a_run_pass(tmp_path: Path) -> None:
    code, _, fix, *_ = blocks_of("quickstart.md", "python")
    (tmp_path / "blocks.py").write_text(code, encoding="utf-8")
    *_, commands = blocks_of("volume.md", "sh")
    first, move, second = (line.partition("#")[0].split() for line in commands.splitlines())
    assert run(first, tmp_path).code == VIOLATION
    assert move[0] == "mv"
    (tmp_path / move[1]).rename(tmp_path / move[2])
    said = run(second, tmp_path)
    assert said.code == CONFORMS, said.all
    page = (DOCS / "volume.md").read_text(encoding="utf-8")
    verdict, fixed = (block.strip() for block in page.split("```") if block.startswith(("\nblocks.py", "\nno longer")))
    assert is_shown("[...]\n" + verdict, said.out), said.out

    fixed_code = re.sub(r"    def _take.*?\n(?=\n    def )", lambda _: fix, code, flags=re.DOTALL)
    (tmp_path / "blocks.py").write_text(fixed_code, encoding="utf-8")
    said = run(second, tmp_path)
    assert fixed in said.all, said.all


def run(words: list[str], folder: Path) -> Said:
    """The command of the page, with a smaller budget."""
    assert words[0] == "kvaudit"
    return kvaudit(*words[1:], "--max-steps", "4000", cwd=folder)
