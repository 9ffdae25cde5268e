"""The assurance matrix as a table: obligation by kind of evidence, each cell a figure or a blank with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvaudit.evidence import KINDS, Cell, Evidence, Kind, Matrix
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvspec.obligations import OBLIGATIONS

HEADINGS: dict[Kind, str] = {
    "fuzz": "fuzz",
    "exhaustive": "exhaustive",
    "proof": "proof",
    "crosshair": "CrossHair",
    "mutants": "planted bugs",
}
ENOUGH = 3
"""Kinds of evidence that an obligation should have; planted bugs count as one."""

_NOT_GIVEN = "no result of this kind was given"


class Laid:
    """A matrix laid out: the text of each cell, and the reasons of the blanks by number."""

    def __init__(self, matrix: Matrix) -> None:
        self.reasons: list[str] = []
        self.rows = [(name, [self._text(matrix.of(kind), name) for kind in KINDS]) for name in OBLIGATIONS]

    def _text(self, evidence: Evidence | None, name: str) -> str:
        if evidence is None or name in evidence.blanks:
            reason = evidence.blanks[name] if evidence else _NOT_GIVEN
            if reason not in self.reasons:
                self.reasons.append(reason)
            return f"- ({self.reasons.index(reason) + 1})"
        return _shown(evidence.cells[name])


def _shown(cell: Cell) -> str:
    counts = ", ".join(
        f"{number:,} {unit[:-1] if number == 1 and ' ' not in unit else unit}" for unit, number in cell.counts.items()
    )
    note = f" ({cell.note})" if cell.note else ""
    return f"{'' if cell.holds else 'VIOLATED: '}{counts}{note}"


def thin(matrix: Matrix) -> dict[str, int]:
    """The obligations with fewer than `ENOUGH` kinds of evidence, and how many they have."""
    supported = {name: sum(name in evidence.cells for evidence in matrix.evidence) for name in OBLIGATIONS}
    return {name: kinds for name, kinds in supported.items() if kinds < ENOUGH}


def against(matrix: Matrix) -> list[str]:
    """The obligations that some evidence speaks against."""
    return [
        name
        for name in OBLIGATIONS
        if any(name in evidence.cells and not evidence.cells[name].holds for evidence in matrix.evidence)
    ]


def exit_code(matrix: Matrix) -> int:
    """1 if something speaks against an obligation, 3 if a kind of evidence is missing or thin, else 0."""
    if against(matrix):
        return VIOLATION
    return INCONCLUSIVE if thin(matrix) or len(matrix.evidence) < len(KINDS) else CONFORMS


def show(matrix: Matrix, console: Console) -> None:
    """The matrix as a table, the reasons of its blanks under it, and a line to sum up."""
    laid = Laid(matrix)
    table = Table(title=f"assurance of {escape(matrix.subject)}", title_justify="left")
    table.add_column("", no_wrap=True)
    for kind in KINDS:
        table.add_column(HEADINGS[kind])
    for name, texts in laid.rows:
        style = "bold red" if any(text.startswith("VIOLATED") for text in texts) else None
        table.add_row(name, *map(escape, texts), style=style)
    console.print(table)
    for number, reason in enumerate(laid.reasons, start=1):
        console.print(f"({number}) {reason}", markup=False, highlight=False)
    console.print(_summary(matrix), markup=False, highlight=False, soft_wrap=True)


def _summary(matrix: Matrix) -> str:
    broken, few = against(matrix), thin(matrix)
    if broken:
        return f"{matrix.subject}: evidence against {', '.join(broken)}"
    lacking = [HEADINGS[kind] for kind in KINDS if matrix.of(kind) is None]
    parts = [f"nothing given for {', '.join(lacking)}"] if lacking else []
    parts += [f"fewer than {ENOUGH} kinds for {', '.join(few)}"] if few else []
    return f"{matrix.subject}: {'; '.join(parts) or f'each obligation has {ENOUGH} kinds of evidence or more'}"


def markdown(matrix: Matrix) -> Iterator[str]:
    """The matrix as lines of Markdown."""
    laid = Laid(matrix)
    yield "| | " + " | ".join(HEADINGS[kind] for kind in KINDS) + " |"
    yield "|---" * (len(KINDS) + 1) + "|"
    for name, texts in laid.rows:
        yield f"| [{name}](obligations.md#{name.lower()}) | " + " | ".join(texts) + " |"
    yield ""
    for number, reason in enumerate(laid.reasons, start=1):
        yield f"- ({number}) {reason}"
    yield ""
    yield "What ran:"
    yield ""
    for evidence in matrix.evidence:
        yield f"- {HEADINGS[evidence.kind]}: `{evidence.command}`"
