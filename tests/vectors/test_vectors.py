"""The conformance vectors: right managers pass them, and every planted bug fails one. Played from the files alone."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audit.auditing import kvaudit
from kvaudit.errors import UsageError
from kvaudit.vectors.export import export
from kvblocks import BlockManager
from mutants import MUTANTS, Mutant
from second.manager import LifoManager, SecondManager
from vectors.player import first_difference

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse and not mutant.by_extra]  # no vector has an extra


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "vectors"
    export(path)
    return path


@cache
def read(folder: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in folder.glob("*.json") if path.name != "schema.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


@pytest.mark.parametrize(
    ("manager", "renamed"), [(BlockManager, False), (SecondManager, False), (BlockManager, True), (LifoManager, True)]
)
def test_right_managers_pass(manager: type, renamed: bool, folder: Path) -> None:
    assert [first_difference(manager, vector, renamed=renamed) for vector in read(folder)] == [""] * len(read(folder))


def test_block_numbers_count_unless_they_are_renamed(folder: Path) -> None:
    assert any(first_difference(LifoManager, vector) for vector in read(folder))


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("mutant", LEGAL, ids=lambda mutant: mutant.cls.__name__)
def test_every_planted_bug_fails_one(mutant: Mutant, renamed: bool, folder: Path) -> None:
    assert any(first_difference(mutant.cls, vector, renamed=renamed) for vector in read(folder))


def test_each_vector_is_there_for_something(folder: Path) -> None:
    """The seed's examples for their own sake; of the others, none can be left out without a bug getting through."""
    killed = {
        vector["name"]: {
            (mutant.cls, renamed)
            for mutant in LEGAL
            for renamed in (False, True)
            if first_difference(mutant.cls, vector, renamed=renamed)
        }
        for vector in read(folder)
    }
    for name, bugs in killed.items():
        others = set().union(*(found for other, found in killed.items() if other != name))
        assert name.startswith("seed-") or bugs - others, name


def test_they_meet_their_schema(folder: Path) -> None:
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    for vector in read(folder):
        jsonschema.validate(vector, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**read(folder)[0], "steps": 3}, schema)


def test_the_readme_shows_a_real_one(folder: Path) -> None:
    [shown] = re.findall(r"```json\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    example = json.loads(shown)
    [real] = [vector for vector in read(folder) if vector["name"] == example["name"]]
    assert {**real, "steps": real["steps"][:1]} == example


def test_the_seed_comes_first() -> None:
    from kvaudit.vectors.programs import PROGRAMS, SEED_EXAMPLES

    assert PROGRAMS[: len(SEED_EXAMPLES)] == SEED_EXAMPLES
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_the_command(tmp_path: Path) -> None:
    said = kvaudit("export", "vectors", "out/here", cwd=tmp_path)
    assert said.code == 0
    assert "vectors are in out/here" in said.out
    again = kvaudit("export", "vectors", "out/here", cwd=tmp_path)
    assert again.code == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "package.json").write_text("{}")
    with pytest.raises(UsageError, match="holds other files"):
        export(tmp_path / "other")
    (tmp_path / "file").write_text("")
    said = kvaudit("export", "vectors", "file", cwd=tmp_path)
    assert said.code == 2 and "file cannot be written" in said.err
