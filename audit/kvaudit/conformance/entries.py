"""What the table is made of: an entry for each target that was audited, small enough to be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kvaudit.errors import UsageError
from kvaudit.json_files import read_json
from kvaudit.report import BY_DESIGN, HOLDS, NOT_OBSERVABLE, NOT_REACHED, TRUSTING, VIOLATED, Report
from kvspec.obligations import OBLIGATIONS

VERDICTS = (HOLDS, VIOLATED, BY_DESIGN, NOT_OBSERVABLE, NOT_REACHED, TRUSTING)
LEVELS = ("manager", "scheduler")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One audit of one target.

    level: what was driven, a block manager or a scheduler. settings: of an engine. date: as YYYY-MM-DD. cells: the
    verdict on each obligation; one that is not there does not apply at that level. notes: in which form or variant it
    was checked, or why it does not hold.
    """

    target: str
    version: str
    level: str
    profile: str
    verdict: str
    date: str
    steps: int
    seed: int
    kvaudit: str
    spec: int
    cells: dict[str, str]
    notes: dict[str, str] = {}
    settings: list[str] = []

    @property
    def name(self) -> str:
        """The target with its version and its settings."""
        version = "" if self.version in self.target else self.version
        return " ".join(filter(None, (self.target.replace("==", " "), version, *self.settings)))

    def with_verdict(self, verdict: str) -> list[str]:
        """The obligations with that verdict."""
        return [name for name in OBLIGATIONS if self.cells.get(name) == verdict]


class Conformance(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag="kvaudit-conformance/1"
):
    """The table."""

    entries: list[Entry]


_decoder = msgspec.json.Decoder(Report | Conformance)


def entry_of(report: Report) -> Entry:
    """What the table keeps of a report."""
    header = report.header
    notes = {row.obligation: "; ".join(filter(None, (row.form, row.detail))) for row in report.rows}
    return Entry(
        target=header.target,
        version=header.version,
        level=header.level,
        profile=header.profile,
        verdict=report.verdict,
        date=report.date,
        steps=report.steps,
        seed=header.seed,
        kvaudit=header.kvaudit,
        spec=header.spec,
        cells={row.obligation: row.verdict for row in report.rows},
        notes={name: note for name, note in notes.items() if note},
        settings=header.settings,
    )


def read_table(paths: Iterable[Path], more: Sequence[Entry] = ()) -> Conformance:
    """The table of these files, reports and tables, and of more entries; a later entry replaces one on the same.

    Raises UsageError for a file that is neither.
    """
    found = [entry for path in paths for entry in _read(path)]
    latest = {(entry.name, entry.level): entry for entry in [*found, *more]}
    return Conformance(sorted(latest.values(), key=_place))


def _place(entry: Entry) -> tuple[object, ...]:
    """Engines by name, their versions newest first."""
    engine, _, version = entry.target.partition("==")
    numbers = tuple(-int(part) if part.isdigit() else 0 for part in (version or entry.version).split("."))
    return engine, numbers, entry.version, entry.settings, LEVELS.index(entry.level)


def _read(path: Path) -> list[Entry]:
    hint = "a table is made of what `kvaudit run --json` and `kvaudit table --json` write"
    read = read_json(path, _decoder, "report", hint)
    entries = [entry_of(read)] if isinstance(read, Report) else read.entries
    for entry in entries:
        _check(path, entry)
    return entries


def _check(path: Path, entry: Entry) -> None:
    if unknown := set(entry.cells) - set(OBLIGATIONS):
        raise UsageError(f"{path}: there is no obligation {', '.join(sorted(unknown))}")
    if unknown := set(entry.cells.values()) - set(VERDICTS):
        raise UsageError(f"{path}: there is no verdict {', '.join(map(repr, sorted(unknown)))}")
    if entry.level not in LEVELS:
        raise UsageError(f"{path}: there is no level {entry.level!r}: there are {', '.join(LEVELS)}")
