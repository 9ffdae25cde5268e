"""What a sequence depends on beside its tokens, on its way through the auditor: asked, sent, written, read, renamed."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import audit, audited, kvaudit, row, target_of
from kvaudit import guard, record, words
from kvaudit.anonymise import Names
from kvaudit.errors import UsageError
from kvaudit.guarding import ContractViolation
from kvaudit.levels import play
from kvaudit.manager_execution import ManagerExecution
from kvaudit.misuse import try_misuse
from kvaudit.profiles import SEED, STRICT
from kvaudit.protocol import EXTRAS, MANAGER, Allocate, Append, Extras, Operation, Pool
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.scenario import Scenario
from kvaudit.targets import TargetSpec
from kvaudit.trace import EXTRA, FORMAT, TraceHeader, TraceReader, features_of, lines_of, read_trace, write_trace
from kvblocks import BlockManager, InvalidArgument
from kvspec.extra import Image, Lora
from mutants.extra import FilledBlockForgetsExtra, SaltIsNoKey
from second.manager import SecondManager

PICTURE = Image(b"\xaa\xbb", 2, 1)
ALL = Extras("x", Lora("sql", "2"), (PICTURE,))
PROMPT = Allocate("a", (0, 1, 2), ALL)
FORGETS = Scenario(
    Pool(8, 2),
    (
        Allocate("a", (0, 1, 1), Extras(images=(PICTURE,))),
        Append("a", 0),
        Allocate("b", (0, 1, 1, 0, 0)),
    ),
)


class OnlySalt(BlockManager):
    """A manager that knows no adapters and no images."""

    def allocate(
        self, seq_id: Hashable, token_ids: Iterable[int], *, salt: str | None = None, **others: Any
    ) -> list[int]:
        assert not others
        return super().allocate(seq_id, token_ids, salt=salt)


# --- who is asked ------------------------------------------------------------------------------------------


def test_a_class_offers_what_its_allocate_has_arguments_for() -> None:
    assert target_of(BlockManager).capabilities >= set(EXTRAS)
    assert target_of(OnlySalt).capabilities & set(EXTRAS) == {"salt"}
    assert not target_of(SecondManager).capabilities & set(EXTRAS)


def test_one_that_takes_salts_alone_is_given_no_others() -> None:
    report = audit(target_of(OnlySalt), max_steps=1_500)
    assert report.exit_code == CONFORMS
    goals = {goal.id for goal in report.goals}
    assert "another salt" in goals and not {"another LoRA", "another image", "LoRA named like a salt"} & goals


def test_what_cannot_be_told_to_a_target_is_said() -> None:
    execution = ManagerExecution(target_of(SecondManager), Pool(4, 2), SEED)
    with pytest.raises(UsageError, match="cannot be given the salt and lora and images of 'a'"):
        execution.apply(PROMPT)


def test_an_extra_that_no_prompt_can_have_is_not_played() -> None:
    execution = ManagerExecution(target_of(BlockManager), Pool(4, 2), SEED)
    for images in (
        (Image(b"x", 2, 2),),
        (Image(b"x", 0, 2), Image(b"y", 1, 1)),
        (Image(b"x", -1, 1),),
        (Image(b"", 0, 1),),
    ):
        assert not execution.is_legal(Allocate("a", (0, 1, 2), Extras(images=images)))
    for extra in (Extras(salt=""), Extras(lora=Lora("", "1")), Extras(lora=Lora("x", ""))):
        assert not execution.is_legal(Allocate("a", (0, 1, 2), extra))
    assert execution.is_legal(PROMPT)


def test_misuse_is_tried_of_what_is_offered() -> None:
    assert try_misuse(target_of(BlockManager))[1] == []
    few, more = (try_misuse(target_of(cls))[0] for cls in (SecondManager, BlockManager))
    assert few < more


class Credulous(BlockManager):
    """Takes images wherever they are said to be."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], *, images: Any = (), **extra: Any) -> list[int]:
        try:
            return super().allocate(seq_id, token_ids, images=images, **extra)
        except InvalidArgument:
            return super().allocate(seq_id, token_ids, **extra)


def test_misuse_that_gets_through_is_told() -> None:
    told = {accepted.what for accepted in try_misuse(target_of(Credulous))[1]}
    assert "allocate with two images that overlap" in told
    assert "allocate with images=5" in told


# --- how it is sent and written ------------------------------------------------------------------------------


def test_on_the_wire() -> None:
    sent = json.loads(msgspec.json.encode(PROMPT))
    assert sent == {
        "op": "allocate",
        "seq": "a",
        "tokens": [0, 1, 2],
        "extra": {
            "salt": "x",
            "lora": {"id": "sql", "version": "2"},
            "images": [{"content_hash": "qrs=", "start": 2, "length": 1}],
        },
    }
    assert msgspec.json.decode(msgspec.json.encode(PROMPT), type=Operation) == PROMPT
    assert b"extra" not in msgspec.json.encode(Allocate("a", (0,)))


def test_a_child_process_is_told() -> None:
    report = audited(TargetSpec("kvblocks", isolate=True), max_steps=600)
    assert report.exit_code == CONFORMS
    assert {goal.id: goal.count for goal in report.goals}["same image"]


def test_in_words_and_as_a_test_that_reproduces(tmp_path: Path) -> None:
    assert words.call(PROMPT) == "allocate('a', [0, 1, 2], salt='x', lora=('sql', '2'), images=[(aabb, 2, 1)])"
    report = audit(target_of(SaltIsNoKey), max_steps=3_000, stop_at_first=True, failures=tmp_path)
    [finding] = report.findings
    assert finding.trace is not None
    assert "salt=" in Path(finding.trace).with_name("test_repro.py").read_text(encoding="utf-8")
    assert any("salt" in line for line in finding.details)
    header, _ = read_trace(Path(finding.trace))
    assert header.features == (EXTRA,)


def test_a_trace_says_that_it_has_extras(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_trace(path, TraceHeader(FORMAT, FORGETS.pool, "x:y", "seed"), lines_of(FORGETS))
    with pytest.raises(UsageError, match='line 2 has an extra, for which the header is to list "extra" in features'):
        read_trace(path)
    header = TraceHeader(FORMAT, FORGETS.pool, "x:y", "seed", features=features_of(MANAGER, FORGETS.program))
    write_trace(path, header, lines_of(FORGETS))
    assert read_trace(path)[1] == FORGETS
    wrong = Scenario(FORGETS.pool, (Allocate("a", (0, 1), ALL),))
    write_trace(path, header, lines_of(wrong))
    with pytest.raises(UsageError, match="this is no extra of a prompt of 2 tokens"):
        read_trace(path)


# --- what is found -------------------------------------------------------------------------------------------


def test_an_image_that_is_forgotten_by_an_append_is_seen_by_who_reads_it() -> None:
    breaches = play(target_of(FilledBlockForgetsExtra, black_box=True), FORGETS, SEED).breaches
    [k1] = [breach for breach in breaches if breach.obligation == "K1"]
    assert k1.detail == (
        "'b' reads the KV of <0 1 [image aabb at 2] 1> at position 2 (block 1), its own prefix is <0 1 1>"
    )
    assert not play(target_of(BlockManager), FORGETS, STRICT).breaches


def test_what_is_found_is_made_small() -> None:
    report = audit(target_of(FilledBlockForgetsExtra), max_steps=3_000, stop_at_first=True)
    [finding] = report.findings
    assert report.exit_code == VIOLATION
    assert len(finding.steps) <= 3
    assert row(report, finding.obligation).detail


# --- who serves ------------------------------------------------------------------------------------------------


def serve(manager: Any) -> None:
    images = [(b"cat", 2, 1)]
    manager.allocate("a", [0, 1, 1], salt="x", images=images)
    manager.append_slot("a", 0)
    manager.append_slot("a", 0)
    manager.allocate("b", [0, 1, 1, 0, 0], salt="x", images=images)
    with pytest.raises(InvalidArgument):
        manager.allocate("c", [0], images=[(b"cat", 2, 1)])
    manager.allocate("c", [0, 1, 1, 0, 0])
    manager.free("a")


def test_a_guard_follows(tmp_path: Path) -> None:
    serve(guard(BlockManager(12, 2), "strict", every=1, folder=None))
    serve(guard(BlockManager(12, 2), "strict", folder=None))
    with pytest.raises(ContractViolation) as found:
        serve(guard(FilledBlockForgetsExtra(12, 2), "strict", folder=tmp_path))
    assert found.value.obligation == "O4"
    [path] = tmp_path.glob("*.jsonl")
    said = kvaudit("check", str(path), cwd=tmp_path)
    assert said.code == VIOLATION
    assert "O4" in said.out


def test_a_dump_in_mid_life_has_them(tmp_path: Path) -> None:
    guarded = guard(FilledBlockForgetsExtra(12, 2), "strict", every=2, observe=False, folder=tmp_path)
    with pytest.raises(ContractViolation):
        serve(guarded)
    [path] = tmp_path.glob("*.jsonl")
    with TraceReader(path) as reader:
        assert reader.header.features == (EXTRA,)
        extra = reader.header.start.sequences["a"].extra
    assert [str(item) for item in extra] == ["salt 'x'", "image 636174 at 2"]
    assert kvaudit("check", str(path), cwd=tmp_path).code == VIOLATION


def test_a_recording_has_them_and_is_renamed(tmp_path: Path) -> None:
    with record(BlockManager(12, 2), tmp_path / "t.jsonl") as recorder:
        serve(recorder)
    assert kvaudit("check", "t.jsonl", cwd=tmp_path).code == CONFORMS
    assert kvaudit("anonymise", "t.jsonl", "-o", "renamed.jsonl", cwd=tmp_path).code == CONFORMS
    text = (tmp_path / "renamed.jsonl").read_text(encoding="utf-8")
    assert '"salt":"x"' not in text and "Y2F0" not in text
    assert kvaudit("check", "renamed.jsonl", cwd=tmp_path).code == CONFORMS


def test_names_are_renamed_as_what_they_are() -> None:
    names = Names()
    lines = lines_of(Scenario(Pool(8, 2), (PROMPT, Allocate("b", (0, 1, 2), Extras("sql", Lora("x", "2"))))))
    one, two = (names.line(line).operation for line in lines)
    assert isinstance(one, Allocate) and isinstance(two, Allocate)
    assert one.extra.lora is not None and two.extra.lora is not None
    assert (two.extra.salt, two.extra.lora.id) == (one.extra.lora.id, one.extra.salt)
    assert one.extra.images[0].content_hash != PICTURE.content_hash
