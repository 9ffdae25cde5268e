"""Evidence: what one kind of check says of each obligation, with figures. The assurance matrix puts it side by side.

The reports of `kvaudit run` and `kvaudit explore` are turned into it here; proofs and mutation campaigns write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from kvaudit.errors import UsageError
from kvaudit.explore.report import EXHAUSTIVE, Explored
from kvaudit.goals import GOALS
from kvaudit.json_files import read_json
from kvaudit.report import HOLDS, VIOLATED, Report
from kvspec.obligations import OBLIGATIONS

Kind = Literal["fuzz", "exhaustive", "proof", "crosshair", "mutants"]
KINDS: tuple[Kind, ...] = ("fuzz", "exhaustive", "proof", "crosshair", "mutants")


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What supports one obligation: how many of what. `holds` is False if the evidence speaks against it."""

    holds: bool
    counts: dict[str, int]
    note: str = ""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag="kvaudit-evidence/1"):
    """One kind of evidence on one subject. An obligation has either a cell, or the reason why it has none in blanks."""

    kind: Kind
    subject: str
    command: str
    cells: dict[str, Cell]
    blanks: dict[str, str]


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag="kvaudit-matrix/1"):
    """Every kind of evidence on one subject, one each."""

    subject: str
    evidence: tuple[Evidence, ...]

    def of(self, kind: Kind) -> Evidence | None:
        """The evidence of that kind."""
        return next((evidence for evidence in self.evidence if evidence.kind == kind), None)


_decoder = msgspec.json.Decoder(Report | Explored | Evidence | Matrix)


def read_matrix(paths: Iterable[Path]) -> Matrix:
    """The matrix of these files: reports, evidence, or matrices.

    Raises UsageError for a file that is none, for files on different subjects, and for two of one kind.
    """
    found: dict[Kind, tuple[Path, Evidence]] = {}
    for path in paths:
        for evidence in _read(path):
            _check(path, evidence)
            other, first = found.setdefault(evidence.kind, (path, evidence))
            if first is not evidence:
                raise UsageError(f"{other} and {path} are both of the kind {evidence.kind!r}: give one of them")
            other, first = next(iter(found.values()))
            if first.subject != evidence.subject:
                raise UsageError(
                    f"{other} is on {first.subject!r}, {path} on {evidence.subject!r}: a matrix has one subject"
                )
    ordered = tuple(found[kind][1] for kind in KINDS if kind in found)
    if not ordered:
        raise UsageError("these files hold no evidence")
    return Matrix(ordered[0].subject, ordered)


def _read(path: Path) -> Sequence[Evidence]:
    hint = "it reads what `kvaudit run --json`, `kvaudit explore --json` and `python -m kvproofs --json` write"
    read = read_json(path, _decoder, "result", hint)
    if isinstance(read, Report):
        return [from_report(read)]
    if isinstance(read, Explored):
        return [from_exploration(read)]
    return read.evidence if isinstance(read, Matrix) else [read]


def _check(path: Path, evidence: Evidence) -> None:
    named = [*evidence.cells, *evidence.blanks]
    if unknown := set(named) - set(OBLIGATIONS):
        raise UsageError(f"{path}: there is no obligation {', '.join(sorted(unknown))}")
    if missing := set(OBLIGATIONS) - set(named):
        raise UsageError(f"{path}: {', '.join(sorted(missing))} has neither a figure nor a reason for none")
    if both := set(evidence.cells) & set(evidence.blanks):
        raise UsageError(f"{path}: {', '.join(sorted(both))} has a figure and a reason for none")
    if bare := [name for name, cell in evidence.cells.items() if not any(cell.counts.values())]:
        raise UsageError(f"{path}: nothing was counted for {', '.join(bare)}")
    if bare := [name for name, reason in evidence.blanks.items() if not reason.strip()]:
        raise UsageError(f"{path}: no reason is given for the blank of {', '.join(bare)}")


def from_report(report: Report) -> Evidence:
    """What an audit says. Beside the steps stands how often the rarest reach goal was met on which a verdict rests."""
    met = {goal.id: goal.count for goal in report.goals}
    cells: dict[str, Cell] = {}
    blanks: dict[str, str] = {}
    for row in report.rows:
        if row.verdict in (HOLDS, VIOLATED):
            goals = [met[goal.id] for goal in GOALS if row.obligation in goal.supports and goal.id in met]
            counts = {"steps": report.steps} | ({"of the rarest goal": min(goals)} if goals else {})
            cells[row.obligation] = Cell(row.verdict == HOLDS, counts, row.form)
        else:
            blanks[row.obligation] = f"{row.verdict}: {row.detail}" if row.detail else row.verdict
    return Evidence("fuzz", report.header.target, f"kvaudit run {report.header.target}", cells, blanks)


def from_exploration(explored: Explored) -> Evidence:
    """What an exhaustive search says. A bounded or unfinished one is no evidence of its kind, but what it found is."""
    total = {
        name: sum(getattr(pool, name) for pool in explored.pools)
        for name in ("states", "transitions", "refused", "reads", "misuses")
    }
    broken = {name for finding in explored.findings for name in (finding.obligation, *finding.also)}
    if explored.misuse:
        broken.add("O10")
    lacks = _lacks(explored)
    cells: dict[str, Cell] = {}
    blanks: dict[str, str] = {}
    for name in OBLIGATIONS:
        counts = {unit: total[source] for unit, source in _counted(name).items() if total[source]}
        if name in broken:
            cells[name] = Cell(False, counts or {"transitions": total["transitions"]})
        elif lacks or not counts:
            blanks[name] = lacks or "no such operation came up"
        else:
            cells[name] = Cell(True, counts)
    return Evidence("exhaustive", explored.target, f"kvaudit explore {explored.target}", cells, blanks)


def _lacks(explored: Explored) -> str:
    if explored.findings:
        return "the search ended with a finding"
    if explored.reasons:
        return f"the search is not complete: {'; '.join(explored.reasons)}"
    return next((f"a bounded search: {pool.why}" for pool in explored.pools if pool.kind != EXHAUSTIVE), "")


def _counted(obligation: str) -> dict[str, str]:
    """What of a search bears on an obligation: unit -> field of a pool's report."""
    if obligation.startswith("I"):
        return {"states": "states"}
    special = {"O1": ("refusals", "refused"), "O10": ("misuses", "misuses"), "O11": ("reads", "reads")}
    unit, source = special.get(obligation, ("transitions", "transitions"))
    return {unit: source}
