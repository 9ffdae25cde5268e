"""Results as evidence for the assurance matrix: what is written is what `kvaudit matrix` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvproofs.theorems import Theorem
from kvspec.obligations import OBLIGATIONS

_NO_THEOREM = "no theorem speaks of it"
_NO_CONTRACT = "no formula stands for it, and on whole pools there are more paths than CrossHair finishes"


def of_theorems(theorems: Iterable[Theorem]) -> dict[str, Any]:
    """For each obligation the goals of its theorems, and of which operations they are."""
    named: dict[str, list[Theorem]] = {name: [] for name in OBLIGATIONS}
    for theorem in theorems:
        if theorem.name in named:
            named[theorem.name].append(theorem)
    cells = {
        name: {
            "holds": all(theorem.proved for theorem in found),
            "counts": {"goals": sum(theorem.goals for theorem in found)},
            "note": ", ".join(theorem.operation for theorem in found),
        }
        for name, found in named.items()
        if any(theorem.goals for theorem in found)
    }
    return _evidence("proof", "python -m kvproofs", cells, _NO_THEOREM)


def of_contracts(contracts: Iterable[tuple[Sequence[str], bool]]) -> dict[str, Any]:
    """For each obligation the contracts on it. contracts: the obligations of each, and whether it is confirmed."""
    named: dict[str, list[bool]] = {name: [] for name in OBLIGATIONS}
    for obligations, confirmed in contracts:
        for name in obligations:
            named[name].append(confirmed)
    cells = {name: {"holds": all(found), "counts": {"contracts": len(found)}} for name, found in named.items() if found}
    return _evidence("crosshair", "python -m kvproofs.crosshair", cells, _NO_CONTRACT)


def write(path: Path, evidence: Mapping[str, Any]) -> None:
    """Write it as JSON. Raises OSError."""
    path.write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")


def _evidence(kind: str, command: str, cells: dict[str, Any], blank: str) -> dict[str, Any]:
    return {
        "format": "kvaudit-evidence/1",
        "kind": kind,
        "subject": "kvblocks",
        "command": command,
        "cells": cells,
        "blanks": {name: blank for name in OBLIGATIONS if name not in cells},
    }
