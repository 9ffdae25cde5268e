"""The protocol: its schema describes what is really said, and it makes no difference to an audit."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest

from audit.auditing import MINIATURES, audited, kvaudit, row, same
from kvaudit.answers import Malformed, read_answer
from kvaudit.errors import TargetError
from kvaudit.misuse import BOOLEAN_POOLS
from kvaudit.process import ProcessTarget
from kvaudit.protocol import (
    VERSION,
    Allocate,
    Answer,
    Append,
    Call,
    CanAllocate,
    Free,
    Observe,
    Open,
    Pool,
    Question,
    Run,
    Scribble,
    Slot,
    Start,
    Stop,
    schema,
)
from kvaudit.report import CONFORMS, VIOLATION, Report
from kvaudit.targets import TargetSpec
from mutants import pool

SERVE = [sys.executable, "-m", "kvaudit.serve"]
QUESTIONS: list[Question] = [
    Start(),
    Open(Pool(3, 2)),
    Run([Allocate("a", (1, 2, 3)), Scribble(), Slot("a", 2), CanAllocate(5), Observe()]),
    Run([Append("a", 4), Allocate("b", (1,) * 9), Call("slot", ("a", -1)), Call("allocate", ("c", (1, 2)), fail_at=1)]),
    Run([Free("a"), Observe()]),
    Open(Pool(0, 2)),
    Open(Pool(3, 2, False)),
    Run([]),
]


def exchange(target: str) -> list[Any]:
    """Ask all QUESTIONS; the answers as they stand on the wire."""
    lines = b"".join(msgspec.json.encode(question) + b"\n" for question in [*QUESTIONS, Stop()])
    run = subprocess.run([*SERVE, target], input=lines, capture_output=True, timeout=60, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def validator(name: str) -> jsonschema.Draft202012Validator:
    whole = schema()
    return jsonschema.Draft202012Validator({**whole, "$ref": f"#/$defs/{name}"})


def test_the_schema_is_one(tmp_path: Path) -> None:
    said = kvaudit("protocol", "--schema", cwd=tmp_path)
    assert said.code == 0
    assert json.loads(said.out) == json.loads(json.dumps(schema()))  # a default list is no tuple in JSON
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_protocol_is_explained(tmp_path: Path) -> None:
    said = kvaudit("protocol", cwd=tmp_path)
    for word in ("start", "started", "open", "opened", "failed", "run", "ran", "stop"):
        assert word in said.out


@pytest.mark.parametrize("target", ["kvblocks", f"{MINIATURES}:Good", f"{MINIATURES}:Exits"])
def test_what_is_said_is_what_the_schema_says(target: str) -> None:
    answers = exchange(target)
    assert [answer["type"] for answer in answers] == [
        *("started", "opened", "ran", "ran", "ran", "failed", "opened", "ran")
    ]
    for question in QUESTIONS:
        validator("Question").validate(json.loads(msgspec.json.encode(question)))
    for answer in answers:
        validator("Answer").validate(answer)
        msgspec.convert(answer, Answer)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "sorry"},
        {"type": "opened", "outcomes": "none"} | {"type": "ran"},
        {"type": "started", "name": "x"},
        {"type": "ran", "outcomes": [{"outcome": "maybe"}]},
        {"type": "ran", "outcomes": [{"outcome": "raised"}]},
    ],
    ids=str,
)
def test_what_is_no_answer_is_refused_by_schema_and_decoder_alike(message: dict[str, Any]) -> None:
    assert not validator("Answer").is_valid(message)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message, Answer)


def test_a_mutated_answer_is_read_or_told_to_be_malformed() -> None:
    """Bytes of good answers are dropped, doubled and replaced. Whatever comes of it can be said."""
    random = Random(0)
    process = subprocess.run(
        [*SERVE, "kvblocks"],
        input=b"".join(msgspec.json.encode(question) + b"\n" for question in QUESTIONS[:4]),
        capture_output=True,
        timeout=60,
        check=True,
    )
    malformed = 0
    for question, line in zip(QUESTIONS, process.stdout.splitlines(), strict=False):
        read_answer(line, question)
        for _ in range(1_500):
            at, other = (random.randrange(len(line)) for _ in range(2))
            put = random.choice(
                [b"", line[at : at + 1] * 2, line[other : other + 1], b'"', b"5", b"null", b"[]", b"\xff"]
            )
            try:
                read_answer(line[:at] + put + line[at + 1 :], question)
            except Malformed as wrong:
                malformed += 1
                assert str(wrong)
    assert malformed > 2_000


def test_every_message_says_its_version() -> None:
    assert Start().protocol == VERSION == 1


TRIED = 57
"""Kinds of misuse, with everything that kvblocks offers."""


def both(text: str, **options: Any) -> tuple[Report, Report]:
    """The reports of one audit in this process and in a child, but for O10: a size that is a bool cannot be sent."""
    here, there = (same(audited(TargetSpec(text, isolate=isolate), **options)) for isolate in (False, True))
    tried = [row(report, "O10").form for report in (here, there)]
    assert tried == [f"strict: {n} kinds of misuse" for n in (TRIED, TRIED - len(BOOLEAN_POOLS))]
    first, second = (
        msgspec.structs.replace(report, rows=[r for r in report.rows if r.obligation != "O10"])
        for report in (here, there)
    )
    return first, second


def test_a_child_makes_no_difference_to_a_good_target() -> None:
    here, there = both("kvblocks", max_steps=800)
    assert here == there
    assert here.exit_code == CONFORMS


@pytest.mark.parametrize("name", [cls.__name__ for cls in (pool.EvictsNewest, pool.LeaksSharedBlock)])
def test_a_child_makes_no_difference_to_a_bad_target(name: str) -> None:
    here, there = both(f"{pool.__file__}:{name}", max_steps=400)
    assert here.exit_code == VIOLATION
    without_flags = [
        msgspec.structs.replace(
            report, findings=[msgspec.structs.replace(finding, reproduce="") for finding in report.findings]
        )
        for report in (here, there)
    ]
    assert without_flags[0] == without_flags[1]


def test_a_program_that_speaks_it_is_a_target(tmp_path: Path) -> None:
    command = shlex.join([*SERVE, "kvblocks"])
    said = kvaudit("run", f"cmd:{command}", "--max-steps", "800", cwd=tmp_path)
    assert said.code == CONFORMS, said
    assert "profile strict" in said.all  # the program said so


def test_noise_on_standard_output_does_not_disturb_it() -> None:
    report = audited(TargetSpec(f"{MINIATURES}:PrintsBelow", isolate=True), max_steps=300)
    assert not report.findings


def test_a_child_is_ended_with_its_own_children(tmp_path: Path) -> None:
    script = "import subprocess,sys; subprocess.Popen(['sleep','98.7654']); sys.stdin.read()"
    with pytest.raises(TargetError, match="no answer"):
        ProcessTarget([sys.executable, "-c", script], start_timeout=1.0)
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 98.7654" not in processes.splitlines()


def test_closing_twice_is_harmless() -> None:
    target = ProcessTarget([*SERVE, "kvblocks"])
    assert target.open(Pool(2, 2)) is None
    target.close()
    target.close()
