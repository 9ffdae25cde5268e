"""The page on simulation shows what the command prints, times aside; where the traces are at hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from audit.auditing import kvaudit
from audit.test_simulate import REAL, TRACES
from house.test_docs import DOCS


@REAL
def test_the_table_is_what_comes_out(tmp_path: Path) -> None:
    page = (DOCS / "simulate.md").read_text(encoding="utf-8")
    found = re.search(r"^```\n\$ kvaudit (.*?)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    words, shown = found[1].split(), found[2].splitlines()
    shutil.copy(Path(str(TRACES)) / words[1], tmp_path)
    said = kvaudit(*words, cwd=tmp_path, timeout=600)
    assert [untimed(line) for line in said.out.splitlines()] == [untimed(line) for line in shown]


def untimed(line: str) -> list[str]:
    """The line without what differs from run to run."""
    words = line.split()
    return words[:-2] if line.endswith("blocks/s") else words[:-1] if words[0][0].isdigit() else words
