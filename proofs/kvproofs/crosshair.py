"""`python -m kvproofs.crosshair`: CrossHair on the contracts of `kvproofs.contracts`, and on planted bugs.

What CrossHair says nothing about counts as not confirmed, and what comes out must be exactly what is declared. Exit
status 1 if it is not. `--json FILE` writes the evidence for the assurance matrix.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kvproofs import evidence
from kvproofs.contracts.asking import IS_CONFIRMED, IS_OPEN, IS_REFUTED, Verdict, check, compare
from kvproofs.contracts.declared import CONFIRMED, PAIRS, UNDECIDED
from kvproofs.contracts.planted import BUGS, Bug

CONTRACTS = Path(__file__).parent / "contracts"
_FORMULAS = "kvproofs.contracts.formulas"

_CONFIRM_S, _UNDECIDED_S, _REFUTE_S = 60, 1, 20
"""Seconds of processor time for a condition: no confirmed one takes more than a few."""


@dataclass(frozen=True)
class Row:
    """A line of the result: what was checked, what had to come out, and what did."""

    kind: str
    name: str
    due: str
    found: str
    obligations: tuple[str, ...] = ()
    detail: str = ""

    @property
    def is_well(self) -> bool:
        return self.due == self.found


# --- what must come out ---------------------------------------------------------------------------------------


def confirmed_rows(name: str) -> list[Row]:
    """The contracts of a file of which every one is declared to be confirmed."""
    declared = CONFIRMED[name]
    found = {verdict.name: verdict for verdict in check(CONTRACTS / f"{name}.py", _CONFIRM_S)}
    return [
        Row(
            "contract",
            f"{name}.{function}",
            IS_CONFIRMED if function in declared else "declared",
            found[function].verdict if function in found else "missing",
            declared.get(function, ()),
            found[function].detail if function in found else "",
        )
        for function in (found | dict.fromkeys(declared))
    ]


def undecided_rows() -> list[Row]:
    """The contracts that stay open; `detail` names what holds them instead."""
    found = {verdict.name: verdict for verdict in check(CONTRACTS / "undecided.py", _UNDECIDED_S)}
    return [
        Row(
            "undecided", name, IS_OPEN, found[name].verdict if name in found else "missing", (), UNDECIDED.get(name, "")
        )
        for name in (found | dict.fromkeys(UNDECIDED))
    ]


def pair_rows(pair: str) -> list[Row]:
    """A formula of kvblocks against that of kvspec."""
    verdict = _compared(pair)
    return [Row("pair", pair, IS_CONFIRMED, verdict.verdict, (), verdict.detail)]


def bug_rows(bug: Bug) -> list[Row]:
    """What has to fall to a planted bug. Raises ValueError if its text is not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        plant(bug, Path(folder))
        found = [check(_file_of(name), _REFUTE_S, only=name, first_on_path=Path(folder))[0] for name in bug.refuted] + [
            _compared(pair, Path(folder)) for pair in bug.told_apart
        ]
    return [
        Row("planted bug", f"{bug.module} {bug.what}: {verdict.name}", IS_REFUTED, verdict.verdict, (), verdict.detail)
        for verdict in found
    ]


def _compared(pair: str, first_on_path: Path | None = None) -> Verdict:
    one, other = (f"{_FORMULAS}.{package}_{pair}" for package in ("kvblocks", "kvspec"))
    return compare(pair, one, other, _CONFIRM_S, first_on_path=first_on_path)


def plant(bug: Bug, folder: Path) -> None:
    """Copy the package of a bug's module into the folder, with the bug."""
    package, _, module = bug.module.partition(".")
    source = Path(importlib.import_module(package).__path__[0])
    shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / package / f"{module}.py"
    text = file.read_text(encoding="utf-8")
    if text.count(bug.old) != 1:
        raise ValueError(f"the source of {bug.module} has not exactly one {bug.old!r}")
    file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")


def _file_of(contract: str) -> Path:
    name = next((name for name, declared in CONFIRMED.items() if contract in declared), "undecided")
    return CONTRACTS / f"{name}.py"


# --- the whole --------------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """Everything, on two cores."""
    jobs: list[Callable[[], list[Row]]] = [
        *(partial(confirmed_rows, name) for name in reversed(CONFIRMED)),
        undecided_rows,
        *(partial(pair_rows, pair) for pair in PAIRS),
        *(partial(bug_rows, bug) for bug in BUGS),
    ]
    with ThreadPoolExecutor(2) as pool:
        return [row for part in pool.map(lambda job: job(), jobs) for row in part]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kvproofs.crosshair", description="CrossHair on kvblocks and kvspec."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what `kvaudit matrix` reads there")
    options = parser.parse_args(arguments)
    found = rows()
    for row in found:
        print(f"{row.kind:<12} {row.name}: {row.found}{'' if row.is_well else f', but {row.due} was due'}")
        if row.detail:
            print(f"{'':>12}   {row.detail}")
    if options.json is not None:
        contracts = [(row.obligations, row.is_well) for row in found if row.kind == "contract"]
        evidence.write(options.json, evidence.of_contracts(contracts))
    print(_last_line(found))
    return 0 if all(row.is_well for row in found) else 1


def _last_line(found: list[Row]) -> str:
    wrong = sum(not row.is_well for row in found)
    if wrong:
        return f"CrossHair: {wrong} of {len(found)} verdicts are not as declared"
    kinds = Counter(row.kind for row in found)
    return (
        f"CrossHair: {kinds['contract']} contracts confirmed, {kinds['pair']} pairs equal, "
        f"{kinds['planted bug']} verdicts turned by planted bugs, {kinds['undecided']} left open"
    )


if __name__ == "__main__":
    sys.exit(main())
