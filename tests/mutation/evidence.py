"""The planted bugs as evidence for the assurance matrix.

    PYTHONPATH=tests python -m mutation.evidence FILE

writes what `kvaudit matrix` reads, from the results of the last campaign.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from kvaudit.evidence import Cell, Evidence
from kvspec.obligations import OBLIGATIONS
from mutants import MUTANTS
from mutation.killers import KILLERS
from mutation.planted import Planted
from mutation.report import Campaign, committed

_BLANK = (
    "who breaks it breaks what an operation owes as well, and planted bugs are named after that; "
    "that its clause fails is shown on wrong ledgers (tests/spec)"
)


def evidence_of(campaign: Campaign) -> Evidence:
    """For each obligation the planted bugs that may be named after it, and how many fall to each killer alone."""
    results = {result.id: result for result in campaign.results}
    cells, blanks = {}, {}
    for name in OBLIGATIONS:
        names = [Planted(mutant.cls).id for mutant in MUTANTS if name in mutant.names]
        bugs = [results[bug] for bug in names if bug in results]  # newer ones are for the next campaign
        if bugs:
            killed = {f"by {killer}": sum(bug.is_killed_by(killer) for bug in bugs) for killer in KILLERS}
            cells[name] = Cell(all(bug.is_killed_by(*KILLERS) for bug in bugs), {"bugs": len(bugs), **killed})
        else:
            blanks[name] = _BLANK
    return Evidence("mutants", "kvblocks", "PYTHONPATH=tests python -m mutation -j 2", cells, blanks)


def main() -> None:
    Path(sys.argv[1]).write_bytes(msgspec.json.format(msgspec.json.encode(evidence_of(committed()))) + b"\n")


if __name__ == "__main__":
    main()
