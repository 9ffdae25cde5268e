"""Whether verdicts depend on a seed or a version is found out by comparing them; a difference is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import z3

from kvaudit.evidence import read_matrix
from kvproofs import __main__ as command
from kvproofs import stability
from kvproofs.proving import prove
from kvproofs.theorems import Theorem

SAME = {"free I1": "proved", "free I2": "proved"}


def fake(monkeypatch: pytest.MonkeyPatch, verdicts: dict[int, stability.Verdicts]) -> None:
    monkeypatch.setattr(stability, "run", lambda trial: ("0", verdicts[trial.seed]))


def test_equal_verdicts_are_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, {0: SAME, 1: SAME})
    assert stability.compare(2, []) == 0


@pytest.mark.parametrize("other", [{"free I1": "proved"}, SAME | {"free I2": "OPEN"}, SAME | {"free I3": "proved"}])
def test_a_difference_is_told(
    other: stability.Verdicts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, {0: SAME, 1: other})
    assert stability.compare(2, []) == 1
    assert ", then " in capsys.readouterr().out


def test_what_is_always_open_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, {0: {"free I1": "OPEN"}})
    assert stability.compare(1, []) == 1


def test_every_interpreter_runs_with_every_seed() -> None:
    found = list(stability.trials(2, ["other"]))
    assert found == [(sys.executable, 0), (sys.executable, 1), ("other", 0), ("other", 1)]


def test_an_interpreter_without_verdicts_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="seed 0"):
        stability.run(stability.Trial("/bin/true", 0))


def test_a_seed_reaches_the_solver() -> None:
    try:
        assert all(theorem.proved for theorem in prove("block_table", seed=3))
        assert z3.get_param("smt.random_seed") == "3"
    finally:
        prove("naive allocate")


def test_the_verdicts_are_printed_for_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def two(seed: int) -> list[Any]:
        return [Theorem("free", "I1", 1, True, 0.0, ()), Theorem("free", "I2", 1, False, 0.0, ("why",))]

    monkeypatch.setattr(command, "prove_all", two)
    assert command.main(["--verdicts"]) == 1
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"free I1": "proved", "free I2": "OPEN"}
    assert command.main(["--json", str(tmp_path / "proof.json")]) == 1
    assert read_matrix([tmp_path / "proof.json"]).evidence[0].cells["I1"].counts == {"goals": 1}
    assert "1 theorems proved, 1 not" in capsys.readouterr().out
