"""The page on sizes says what is so: its commands print what it shows, as does its Python (test_docs)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from audit.auditing import kvaudit
from house.harness_page import is_shown
from house.test_docs import DOCS, blocks_of


@pytest.fixture
def models(tmp_path: Path) -> Path:
    config = json.loads(blocks_of("size.md", "json")[0])
    draft = config | {"num_hidden_layers": 16, "hidden_size": 2048}
    for name, fields in (("llama", config), ("target", config), ("draft", draft)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return tmp_path


def test_the_commands_print_what_is_shown(models: Path) -> None:
    page = (DOCS / "size.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```\n\$ kvaudit (.*)\n((?s:.*?))^```", page, re.MULTILINE)
    assert len(examples) == 2
    for command, shown in examples:
        said = kvaudit(*command.split(), cwd=models)
        printed = "\n".join(line.rstrip() for line in said.out.splitlines())
        assert (said.code, is_shown(shown, printed)) == (0, True), printed
