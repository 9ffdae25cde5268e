"""The assurance matrix: what ran, obligation by obligation, and no blank without its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import kvaudit
from kvaudit.evidence import KINDS, Cell, Evidence, Kind, Matrix, read_matrix
from kvaudit.matrix import against, exit_code, markdown, thin
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvspec.obligations import OBLIGATIONS
from mutants import pool

BROKEN = f"{pool.__file__}:{pool.EvictsNewest.__name__}"


def evidence(kind: Kind, blanks: dict[str, str] | None = None, **changed: Any) -> Evidence:
    blanks = blanks or {}
    cells = {name: Cell(True, {"goals": 3}) for name in OBLIGATIONS if name not in blanks}
    return msgspec.structs.replace(Evidence(kind, "kvblocks", "python -m prove", cells, blanks), **changed)


def whole() -> Matrix:
    return Matrix("kvblocks", tuple(evidence(kind) for kind in KINDS))


def write(folder: Path, *parts: Any) -> list[Path]:
    paths = [folder / f"{number}.json" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part if isinstance(part, bytes) else msgspec.json.encode(part))
    return paths


def test_reports_of_kvaudit_become_evidence(tmp_path: Path) -> None:
    kvaudit("run", "kvblocks", "--max-steps", "2000", "--misuse", "--json", "fuzz.json", cwd=tmp_path)
    pool_size = ("--blocks", "2", "--block-size", "1")
    kvaudit("explore", "kvblocks", *pool_size, "--misuse", "--json", "explore.json", cwd=tmp_path)
    said = kvaudit("matrix", "fuzz.json", "explore.json", "--json", "matrix.json", cwd=tmp_path)
    assert said.code == INCONCLUSIVE  # proofs and the others are not given
    assert "(1) no result of this kind was given" in said.out
    matrix = read_matrix([tmp_path / "matrix.json"])
    fuzz, exhaustive = matrix.of("fuzz"), matrix.of("exhaustive")
    assert fuzz is not None and exhaustive is not None
    assert list(fuzz.cells) == list(exhaustive.cells) == list(OBLIGATIONS)
    assert fuzz.cells["I3"].counts["steps"] >= 2000
    assert exhaustive.cells["I3"].counts == {"states": 50}
    assert set(exhaustive.cells["O10"].counts) == {"misuses"}


def test_a_violation_speaks_against_its_obligation(tmp_path: Path) -> None:
    kvaudit("run", BROKEN, "--max-steps", "300", "-x", "--json", "fuzz.json", cwd=tmp_path)
    kvaudit("explore", BROKEN, "--blocks", "2", "--block-size", "1", "--json", "explore.json", cwd=tmp_path)
    said = kvaudit("matrix", "fuzz.json", "explore.json", cwd=tmp_path)
    assert said.code == VIOLATION
    assert "evidence against" in said.out.splitlines()[-1]
    assert "O6" in against(read_matrix([tmp_path / "fuzz.json"]))
    assert "O6" in against(read_matrix([tmp_path / "explore.json"]))


def test_a_search_that_did_not_end_is_no_evidence(tmp_path: Path) -> None:
    kvaudit(
        "explore", "kvblocks", "--blocks", "3", "--block-size", "2", "--depth", "2", "--json", "e.json", cwd=tmp_path
    )
    exhaustive = read_matrix([tmp_path / "e.json"]).of("exhaustive")
    assert exhaustive is not None
    assert not exhaustive.cells
    assert all("not complete" in reason or "bounded" in reason for reason in exhaustive.blanks.values())


def test_exit_codes() -> None:
    assert exit_code(whole()) == CONFORMS
    assert exit_code(Matrix("kvblocks", whole().evidence[:4])) == INCONCLUSIVE
    wrong = evidence("proof")
    wrong.cells["I3"] = Cell(False, {"goals": 3})
    assert exit_code(Matrix("kvblocks", (*whole().evidence[:2], wrong, *whole().evidence[3:]))) == VIOLATION
    few = Matrix("kvblocks", tuple(evidence(kind, {"K2": "out of reach"} if kind != "fuzz" else {}) for kind in KINDS))
    assert thin(few) == {"K2": 1}
    assert exit_code(few) == INCONCLUSIVE


def test_each_reason_is_told_once() -> None:
    matrix = Matrix("kvblocks", (evidence("fuzz"), evidence("proof", {"O3": "no loop", "O4": "no loop", "K2": "why"})))
    text = "\n".join(markdown(matrix))
    assert text.count("no loop") == 1
    assert "| [O3](obligations.md#o3) | 3 goals | - (1) | - (2) | - (1) | - (1) |" in text


NO_EVIDENCE = {
    "no JSON": (b"{", "is no result that this version knows"),
    "another format": (b'{"format": "kvaudit-trace/1"}', "is no result that this version knows"),
    "not text": (b"\xff\xfe\x00", "is no result that this version knows"),
    "nested too deep": (b'{"x":' + b"[" * 100_000, "is no result that this version knows"),
    "unknown obligation": (evidence("proof", {"Z9": "why"}), "there is no obligation Z9"),
    "a row too few": (evidence("proof", cells={}, blanks={}), "has neither a figure nor a reason for none"),
    "both": (evidence("proof", cells=evidence("proof").cells, blanks={"I1": "why"}), "I1 has a figure and a reason"),
    "no figure": (evidence("proof", cells={name: Cell(True, {}) for name in OBLIGATIONS}), "nothing was counted for"),
    "no reason": (evidence("proof", {"I1": " "}), "no reason is given for the blank of I1"),
    "empty matrix": (Matrix("kvblocks", ()), "hold no evidence"),
}


@pytest.mark.parametrize("name", NO_EVIDENCE)
def test_what_is_no_evidence_is_refused(name: str, tmp_path: Path) -> None:
    content, fragment = NO_EVIDENCE[name]
    (path,) = write(tmp_path, content)
    said = kvaudit("matrix", path.name, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert fragment in said.all


def test_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    write(tmp_path, evidence("proof"), evidence("proof"), evidence("fuzz", subject="vllm==0.33.0"))
    assert "are both of the kind 'proof'" in kvaudit("matrix", "0.json", "1.json", cwd=tmp_path).all
    assert "2.json on 'vllm==0.33.0'" in kvaudit("matrix", "0.json", "2.json", cwd=tmp_path).all
    assert "3.json cannot be read" in kvaudit("matrix", "3.json", cwd=tmp_path).all
