"""Everything that is written meets the schema that ships, and the schema is no mere formality."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audit.auditing import MINIATURES, kvaudit
from audit.model_configs import LLAMA_8B
from audit.test_malformed_traces import MIDLIFE
from kvaudit.errors import UsageError
from kvaudit.schemas import NAMES, schema
from kvaudit.trace import TraceLine

NO_NUMBERS = {
    *("pool", "rows", "pools", "evidence", "cells", "entries", "found"),
    *("operation", "recorded", "exchanges", "origin"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """One run of each command that writes, on a target with a bug."""
    folder = tmp_path_factory.mktemp("written")
    target = f"{MINIATURES}:RefusesFree"
    kvaudit("run", target, "-x", "--max-steps", "100", "--failures", "kept", "--json", "report.json", cwd=folder)
    sizes = ("--blocks", "1", "--block-size", "1", "--failures", "kept2")
    kvaudit("explore", target, *sizes, "--json", "exploration.json", cwd=folder)
    kvaudit("matrix", "report.json", "--json", "matrix.json", cwd=folder)
    kvaudit("table", "report.json", "--json", "conformance.json", cwd=folder)
    kvaudit("diff", target, target, "--max-steps", "20", "--json", "diff.json", cwd=folder)
    kvaudit("smoke", target, "--json", "smoke.json", cwd=folder)
    [trace] = folder.glob("kept/*/trace.jsonl")
    kvaudit("check", str(trace), "--json", "check.json", cwd=folder)
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    kvaudit("size", ".", "--memory", "80GiB", "--weights", "16GB", "--json", "size.json", cwd=folder)
    (folder / "t.jsonl").write_text('{"tokens": [1]}')
    kvaudit("simulate", "t.jsonl", "--blocks", "1", "--json", "simulation.json", cwd=folder)
    one = {
        name: [json.loads((folder / f"{name}.json").read_text())]
        for name in (
            *("report", "exploration", "matrix", "conformance", "diff", "smoke", "check", "size", "simulation"),
        )
    }
    evidence = [{**one["matrix"][0]["evidence"][0], "format": "kvaudit-evidence/1"}]
    return {
        **one,
        "evidence": evidence,
        "trace": [json.loads(line) for line in [*trace.read_bytes().splitlines(), *MIDLIFE.splitlines()]],
    }


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"protocol", "vector"}))  # these have tests of their own
def test_what_is_written_meets_the_schema(name: str, written: dict[str, list[Any]]) -> None:
    validator = jsonschema.Draft202012Validator(schema(name))
    validator.check_schema(schema(name))
    assert written[name]
    for value in written[name]:
        validator.validate(value)
        for field in value:
            if field in NO_NUMBERS:
                assert not validator.is_valid({**value, field: 7})
    assert not validator.is_valid([])


def test_the_protocol_is_among_them(tmp_path: Path) -> None:
    said = kvaudit("schema", "protocol", cwd=tmp_path)
    assert said.out == kvaudit("protocol", "--schema", cwd=tmp_path).out
    assert json.loads(said.out) == json.loads(json.dumps(schema("protocol")))  # a default list is no tuple in JSON


def test_there_is_no_such_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no format 'traces': there are trace, vector, report"):
        schema("traces")
    said = kvaudit("schema", "traces", cwd=tmp_path)
    assert said.code == 2 and "there is no format" in said.err


def test_every_field_of_a_line_is_in_the_schema() -> None:
    assert set(schema("trace")["$defs"]["TraceLine"]["properties"]) == set(TraceLine.__struct_fields__)
