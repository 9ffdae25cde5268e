"""What the proofs and CrossHair write, kvaudit reads; what is not proved speaks against its obligation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kvaudit.evidence import read_matrix
from kvaudit.matrix import against
from kvproofs import evidence
from kvproofs.contracts.declared import CONFIRMED
from kvproofs.theorems import DECLARED, Theorem
from kvspec.obligations import OBLIGATIONS

PROVED = [Theorem(operation, name, 2, True, 0.1, ()) for operation, names in DECLARED.items() for name in sorted(names)]


def test_theorems_are_evidence(tmp_path: Path) -> None:
    evidence.write(tmp_path / "proof.json", evidence.of_theorems(PROVED))
    matrix = read_matrix([tmp_path / "proof.json"])
    (proof,) = matrix.evidence
    assert list(proof.cells) == list(OBLIGATIONS)  # every obligation has a theorem
    assert proof.cells["O7"].counts == {"goals": 2} and proof.cells["O7"].note == "free"
    assert not against(matrix)


def test_an_open_theorem_speaks_against_its_obligation(tmp_path: Path) -> None:
    theorems = [replace(theorem, proved=theorem.name != "I3") for theorem in PROVED]
    evidence.write(tmp_path / "proof.json", evidence.of_theorems(theorems))
    assert against(read_matrix([tmp_path / "proof.json"])) == ["I3"]


def test_contracts_are_evidence(tmp_path: Path) -> None:
    declared = [obligations for contracts in CONFIRMED.values() for obligations in contracts.values()]
    evidence.write(tmp_path / "crosshair.json", evidence.of_contracts((names, True) for names in declared))
    (found,) = read_matrix([tmp_path / "crosshair.json"]).evidence
    assert set(found.cells) == {name for names in declared for name in names}
    evidence.write(tmp_path / "crosshair.json", evidence.of_contracts((names, "O4" not in names) for names in declared))
    assert against(read_matrix([tmp_path / "crosshair.json"])) == ["O4"]
