"""The campaign: verdicts are kept by what they depend on, and a killer that breaks down kills nothing."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from mutation import campaign
from mutation.campaign import Cache, Pair, run
from mutation.generator import UNCHANGED, generated
from mutation.killers import KILLERS
from mutation.verdict import KILLED, UNFINISHED, UNSUPPORTED, Mutant, Verdict

FIRST, SECOND = generated()[:2]


def kills(mutant: Mutant) -> Verdict:
    return Verdict(KILLED, mutant.id, 0.0)


def raises(mutant: Mutant) -> Verdict:
    raise ValueError("no")


def dies(mutant: Mutant) -> Verdict:
    os._exit(1)


@pytest.fixture
def killers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, killer in {"kills": kills, "raises": raises, "dies": dies}.items():
        monkeypatch.setitem(KILLERS, name, killer)


def ran(*pairs: Pair) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    run(pairs, 2, lambda pair, verdict: found.update({f"{pair.killer} {pair.mutant.id}": verdict}))
    return found


@pytest.mark.usefixtures("killers")
def test_each_pair_has_a_verdict_and_breaking_down_is_no_kill() -> None:
    found = ran(Pair("kills", FIRST), Pair("kills", SECOND), Pair("raises", FIRST), Pair("dies", FIRST))
    assert found[f"kills {FIRST.id}"] == Verdict(KILLED, FIRST.id, 0.0)
    assert found[f"kills {SECOND.id}"].how == SECOND.id
    assert found[f"raises {FIRST.id}"] == Verdict(UNSUPPORTED, "ValueError: no", 0.0)
    assert found[f"dies {FIRST.id}"] == Verdict(UNFINISHED, "broke down (exit code 1)", 0.0)


def test_verdicts_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    cache, verdict = Cache(file), Verdict(KILLED, "how", 0.5)
    assert cache.get(Pair("proof", FIRST)) is None
    cache.put(Pair("proof", FIRST), verdict)
    with file.open("ab") as torn:
        torn.write(b'{"key": "half a li')
    again = Cache(file)
    assert again.get(Pair("proof", FIRST)) == verdict
    assert again.get(Pair("search", FIRST)) is None
    assert again.get(Pair("proof", SECOND)) is None


def test_a_verdict_is_forgotten_when_the_mutant_or_the_killer_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "kept.jsonl")
    cache.put(Pair("search", FIRST), Verdict(KILLED, "how", 0.5))
    assert cache.get(Pair("search", dataclasses.replace(FIRST, text=UNCHANGED.text))) is None
    monkeypatch.setitem(campaign._READS, "search", ("spec",))
    assert Cache(tmp_path / "kept.jsonl").get(Pair("search", FIRST)) is None
