"""Each killer kills what is wrong, and lets live what is right: a sample of the campaign."""

from __future__ import annotations

import dataclasses

import pytest

from kvaudit.protocol import Pool
from mutation import by_search, by_tests
from mutation.by_proof import by_proof, operations_that_reach
from mutation.generator import UNCHANGED, generated
from mutation.verdict import KILLED, SURVIVED, UNSUPPORTED

GENERATED = {mutant.id: mutant for mutant in generated()}

SEEN = (
    "allocate:negate:3",
    "allocate:delete:23",
    "_append_at_edge:number:7",
    "_hash_chain:slice:1",
    "_match:call:1",
    "_hit:arithmetic:1",
    "_take:truth:1",
    "_forget:compare:1",
    "_release:negate:2",
    "blocks_for:number:2",
)
PROVED_WRONG = ("slot:delete:1", "_release:number:1", "can_allocate:compare:1", "_packed:logic:3")


@pytest.mark.parametrize("name", SEEN)
def test_search_and_tests_kill(name: str) -> None:
    assert by_search.by_search(GENERATED[name]).outcome == KILLED
    assert by_tests.by_tests(GENERATED[name]).outcome == KILLED


@pytest.mark.parametrize("name", PROVED_WRONG)
def test_the_proof_kills(name: str) -> None:
    verdict = by_proof(GENERATED[name])
    assert verdict.outcome == KILLED
    assert verdict.how


def test_what_is_right_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_search, "POOLS", [Pool(1, 1), Pool(2, 1)])
    monkeypatch.setattr(by_tests, "STEPS", 600)
    assert by_search.by_search(UNCHANGED).outcome == SURVIVED
    assert by_tests.by_tests(UNCHANGED).outcome == SURVIVED
    proved = by_proof(dataclasses.replace(UNCHANGED, functions=("_release",)))
    assert (proved.outcome, proved.how) == (SURVIVED, "proved: free")


def test_what_cannot_be_executed_is_no_kill() -> None:
    assert by_proof(GENERATED["__init__:arithmetic:2"]).outcome == UNSUPPORTED


def test_a_kill_has_to_be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_search, "SECONDS", 0.0)
    assert by_search.by_search(GENERATED[SEEN[0]]).outcome == SURVIVED


def test_operations_that_reach_a_function() -> None:
    assert operations_that_reach(["_release"]) == ["free"]
    assert operations_that_reach(["check_token"]) == ["check_tokens", "append", "allocate"]
    assert operations_that_reach(["_take", "slot"]) == ["slot", "append", "allocate"]
    assert operations_that_reach(["observe"]) == []
